//! `lockkeeper keys`: API keys. The running gateway applies changes within a second.

mod print;
mod rotate;
mod set;

use clap::Subcommand;
use serde_json::json;

use super::{lookup::meant_key, rights_args::RightsArgs};
use crate::{
    cli::{
        arguments::values,
        store::{self, AdminStore, IfMissing},
        terminal::{
            documents::{self, Became, FormatArgs},
            ending::{self, EndingArgs},
            failure::CommandFailure,
            process::ProcessContext,
        },
    },
    model::{ApiKey, Direct, NewKey, Rights, UserId},
};

const CREATE_EXAMPLES: &str = "\
Examples:
  lockkeeper keys create laptop               all servers, to log in with
  lockkeeper keys create ci --direct --expires 90d
                                              a program's bearer token
  lockkeeper keys create guest --server docs --server git:read
                                              two servers, one of them read-only
  lockkeeper keys create team --group work    a group, only at /mcp/work
  lockkeeper keys create desktop --user ann   another key of the user ann
  lockkeeper keys create office --network 192.0.2.0/24
                                              only from the office
  KEY=$(lockkeeper keys create ci --direct)   standard output has only the key";

/// Subcommands of `keys`.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Creates a key and prints it, once
    Create(Box<CreateKeyArgs>),
    /// Lists the keys
    List(ListKeysArgs),
    /// Changes what a key may do, in place: it and its connected apps stay
    Set(Box<set::SetKeyArgs>),
    /// Replaces a key by a new one: same name, rights, user and connected apps, new secret
    Rotate(Box<rotate::RotateKeyArgs>),
    /// Revokes a key with every grant, token and stream that came from it
    Revoke(RevokeKeyArgs),
}

/// `keys create`.
#[derive(Debug, clap::Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub struct CreateKeyArgs {
    /// Name of the key, such as the device it is for
    #[arg(value_parser = values::name)]
    name: String,
    /// Adds the key to the keys of this user; without it, the key is a user of its own
    #[arg(long, value_name = "NAME", value_parser = UserId::parse)]
    user: Option<UserId>,
    /// Allows programs without a browser to send the key as a bearer token on /mcp
    #[arg(long)]
    direct: bool,
    /// Allows status and administration of the gateway (GET /api/status)
    #[arg(long)]
    admin: bool,
    #[command(flatten)]
    rights: RightsArgs,
    #[command(flatten)]
    form: FormatArgs,
}

/// `keys list`.
#[derive(Debug, clap::Args)]
pub struct ListKeysArgs {
    /// Lists revoked and expired keys too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    form: FormatArgs,
}

/// `keys revoke`.
#[derive(Debug, clap::Args)]
pub struct RevokeKeyArgs {
    /// The key: its id from `keys list`, or its name if no other has it
    #[arg(value_name = "KEY")]
    id: String,
    #[command(flatten)]
    ending: EndingArgs,
}

// === impl KeysCommand ===

impl KeysCommand {
    /// Runs the subcommand.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        match self {
            Self::Create(create) => create.run(process).await,
            Self::List(list) => list.run(process).await,
            Self::Set(set) => set.run(process).await,
            Self::Rotate(rotate) => rotate.run(process).await,
            Self::Revoke(revoke) => revoke.run(process).await,
        }
    }
}

impl CreateKeyArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        self.rights.check(process).await?;
        let store = AdminStore::open(process, IfMissing::Create).await?;
        let new = NewKey {
            name: self.name,
            user: self.user,
            rights: Rights { admin: self.admin, ..self.rights.rights() },
            direct: if self.direct { Direct::Allowed } else { Direct::Refused },
            expires: self.rights.expires(),
            networks: self.rights.networks(),
        };
        let created = store.oauth.keys().create(new).await;
        store.close().await;
        let (key, secret) = created?;
        print::once(process, self.form, &key, &secret, Became::Created);
        Ok(())
    }
}

impl ListKeysArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let listed = store.oauth.keys().list().await;
        store.close().await;
        let now = store::now();
        let mut keys = listed?;
        keys.retain(|key| self.all || key.is_live(now));
        if self.form.json {
            process.output.json(&documents::list("keys", keys.iter().map(print::document).collect()));
        } else if keys.is_empty() {
            process.output.remark("No keys. Create one: lockkeeper keys create NAME");
        } else {
            let text = print::table(&keys, now, process.output.out);
            process.output.print(&text);
        }
        Ok(())
    }
}

impl RevokeKeyArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let revoked = self.revoke(&store, process).await;
        store.close().await;
        let key = revoked?;
        let sentence =
            format!("key {} is revoked; its grants, tokens and streams end within a second", ending::named(&key));
        let identity = json!({ "id": key.id, "name": key.name });
        ending::tell(self.ending.form, identity, Became::Revoked, &sentence, process);
        Ok(())
    }

    async fn revoke(&self, store: &AdminStore, process: &mut ProcessContext) -> Result<ApiKey, CommandFailure> {
        let id = meant_key(store, &self.id).await?;
        if let Some(key) = store.oauth.keys().find(&id).await?.filter(|key| key.revoked.is_none()) {
            let question = format!("Revoke the key {}, with every app that it connected?", ending::named(&key));
            self.ending.confirm(&question, process)?;
            if store.oauth.keys().revoke(&id).await? {
                return Ok(key);
            }
        }
        Err(CommandFailure::failed(format!("there is no live key {}", self.id))
            .advise("`lockkeeper keys list` shows the ids"))
    }
}
