//! `lockkeeper keys rotate`: replaces a key.

use std::time::Duration;

use super::print;
use crate::{
    cli::{
        arguments::values,
        people::lookup::meant_key,
        store::{self, AdminStore, IfMissing},
        terminal::{
            documents::{Became, FormatArgs},
            failure::CommandFailure,
            process::ProcessContext,
        },
    },
    model::{KeyKind, KeyRotation, RotatedUser, UserId},
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper keys rotate 7fGh29xKq1                the old key ends at once
  lockkeeper keys rotate 7fGh29xKq1 --overlap 24h  the old key ends in a day
  lockkeeper keys rotate 7fGh29xKq1 --own-user     with a user of its own

Apps that were connected with the old key stay connected. Programs that send
the old key itself need the new one and start new sessions.";

/// `keys rotate`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RotateKeyArgs {
    /// The key: its id from `keys list`, or its name if no other has it
    #[arg(value_name = "KEY")]
    id: String,
    /// Time for which the old key stays valid, at most 90d; default: it ends at once
    #[arg(long, value_name = "DURATION", value_parser = values::overlap)]
    overlap: Option<Duration>,
    /// Time until the new key expires; default: the expiry of the old one
    #[arg(long, value_name = "DURATION", value_parser = values::lifetime)]
    expires: Option<Duration>,
    /// Makes the new key a user of its own; its apps move with it, and other keys of the old user no longer see them
    #[arg(long)]
    own_user: bool,
    /// Adds the new key, with its apps, to the keys of this user
    #[arg(long, value_name = "NAME", value_parser = UserId::parse, conflicts_with = "own_user")]
    user: Option<UserId>,
    #[command(flatten)]
    form: FormatArgs,
}

impl RotateKeyArgs {
    pub(super) async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let id = match meant_key(&store, &self.id).await {
            Ok(id) => id,
            Err(failure) => {
                store.close().await;
                return Err(failure);
            }
        };
        let rotation = KeyRotation {
            overlap: self.overlap.unwrap_or_default(),
            user: match self.user {
                Some(user) => RotatedUser::Named(user),
                None if self.own_user => RotatedUser::Own,
                None => RotatedUser::Same,
            },
            expires: self.expires.map(|lifetime| store::now() + lifetime),
        };
        let rotated = store.oauth.keys().rotate(&id, rotation).await;
        let keys = store.oauth.keys().list().await;
        store.close().await;
        let (rotated, keys) = (rotated?, keys?);
        let old = keys.into_iter().find(|key| key.id == id);
        let Some((key, secret)) = rotated else {
            if let Some(KeyKind::Account(_)) = old.as_ref().map(|key| &key.kind) {
                return Err(CommandFailure::failed(format!("{id} is an account without a secret"))
                    .advise("`lockkeeper keys revoke` ends it"));
            }
            return Err(match old.and_then(|key| key.rotated) {
                Some(rotated) => CommandFailure::failed(format!("key {id} is already rotated"))
                    .advise(format!("rotate its newest successor {}", rotated.successor)),
                None => CommandFailure::failed(format!("there is no live key {id}"))
                    .advise("`lockkeeper keys list` shows the ids"),
            });
        };
        print::once(process, self.form, &key, &secret, Became::Rotated);
        let end = match old.and_then(|key| key.ends()).filter(|_| self.overlap.is_some()) {
            Some(end) => format!("ends at {end}"),
            None => "is revoked and ends within a second".to_owned(),
        };
        process.output.remark(&format!("The old key {id} {end}; apps that were connected with it stay connected."));
        Ok(())
    }
}
