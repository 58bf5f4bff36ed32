//! `lockkeeper keys rotate`: a new key in the place of another. Knows nothing of how that is stored.

use std::time::Duration;

use super::{print, values};
use crate::{
    cli::{
        arguments::{Data, Form},
        failure::Failure,
        process::Process,
        store::{self, Absent, Store},
    },
    model::{KeyId, KeyRotation, RotatedUser, UserId},
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper keys rotate 7fGh29xKq1                    the old key ends at once
  lockkeeper keys rotate 7fGh29xKq1 --overlap 24h      programs have a day to change to the new one
  lockkeeper keys rotate 7fGh29xKq1 --own-user         it parts from the other keys of its user

Apps that people connected with the old key stay connected. Programs that send the old key itself change to the new one
and begin new sessions.";

/// `keys rotate`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Rotate {
    /// The key's id, as `keys list` shows it
    id: String,
    /// How long the old key may be used beside the new one, at most 90d; it ends at once where this is not given
    #[arg(long, value_name = "DURATION", value_parser = values::overlap)]
    overlap: Option<Duration>,
    /// When the new key ends by itself; when the old one would have, where this is not given
    #[arg(long, value_name = "DURATION", value_parser = values::lifetime)]
    expires: Option<Duration>,
    /// Makes the new key a user of its own: its apps go with it, other keys of its user no longer see them
    #[arg(long)]
    own_user: bool,
    /// Joins the new key, with its apps, to the keys of this user
    #[arg(long, value_name = "NAME", value_parser = UserId::parse, conflicts_with = "own_user")]
    user: Option<UserId>,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    data: Data,
}

impl Rotate {
    pub(super) async fn run(self, process: &mut Process) -> Result<(), Failure> {
        let store = Store::open(&self.data, process, Absent::Refuse).await?;
        let id = KeyId::new(self.id.as_str());
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
            return Err(match old.and_then(|key| key.rotated) {
                Some(rotated) => Failure::failed(format!("key {id} was rotated before"))
                    .advise(format!("the newest key in its place is {}: rotate that", rotated.successor)),
                None => {
                    Failure::failed(format!("there is no live key {id}")).advise("`lockkeeper keys list` shows the ids")
                }
            });
        };
        print::once(process, self.form, (&key, &secret));
        let end = match old.and_then(|key| key.ends()).filter(|_| self.overlap.is_some()) {
            Some(end) => format!("ends at {end}"),
            None => "is revoked and ends within a second".to_owned(),
        };
        process.output.remark(&format!("The old key {id} {end}; the apps that were connected with it stay connected."));
        Ok(())
    }
}
