//! `lockkeeper upstream`: the accounts that users have connected at protected servers. The running gateway applies changes
//! within a second.

use clap::Subcommand;
use serde_json::{Value, json};

use super::lookup::{KeyNames, meant_user};
use crate::{
    cli::{
        store::{AdminStore, IfMissing},
        terminal::{
            documents::{self, Became, FormatArgs},
            ending::{self, EndingArgs},
            failure::CommandFailure,
            process::ProcessContext,
            table::{Cell, TextTable},
        },
    },
    model::BackendId,
    oauth::OAuthError,
    storage::{StorageError, UpstreamTokenRow},
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper upstream list
  lockkeeper upstream list --user ann --json
  lockkeeper upstream disconnect ann github

The tokens are deleted, and the gateway revokes them at their authorization
server. The user can connect the account again.";

/// Subcommands of `upstream`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum UpstreamCommand {
    /// Lists the accounts that users have connected
    List(ListUpstreamArgs),
    /// Ends the connection of a user to a server
    Disconnect(DisconnectUpstreamArgs),
}

/// `upstream list`.
#[derive(Debug, clap::Args)]
pub struct ListUpstreamArgs {
    /// Lists only those of this user
    #[arg(long)]
    user: Option<String>,
    #[command(flatten)]
    form: FormatArgs,
}

/// `upstream disconnect`.
#[derive(Debug, clap::Args)]
pub struct DisconnectUpstreamArgs {
    /// The user, as `upstream list` shows it, or the name of a key without a user name
    user: String,
    /// The server
    server: String,
    #[command(flatten)]
    ending: EndingArgs,
}

// === impl UpstreamCommand ===

impl UpstreamCommand {
    /// Runs the subcommand.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        match self {
            Self::List(list) => list.run(process).await,
            Self::Disconnect(disconnect) => disconnect.run(process).await,
        }
    }
}

impl ListUpstreamArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let user = match &self.user {
            Some(user) => Some(meant_user(&store, user, "upstream list --user").await?),
            None => None,
        };
        let (listed, names) = (store.storage.upstream_tokens().list(user.as_ref()).await, KeyNames::of(&store).await);
        store.close().await;
        let (rows, names) = (listed.map_err(failed)?, names?);
        if self.form.json {
            process.output.json(&documents::list("accounts", rows.iter().map(document).collect()));
            return Ok(());
        }
        if rows.is_empty() {
            process.output.remark("No account is connected. Users connect them at /account.");
            return Ok(());
        }
        let mut table = TextTable::new(&["USER", "SERVER", "ISSUER", "SCOPES", "CONNECTED"]);
        for row in &rows {
            table.row([
                Cell::from(names.shown(&row.user)),
                Cell::from(&row.backend),
                Cell::from(&row.issuer),
                Cell::from(row.scope.clone().unwrap_or_default()),
                Cell::from(row.connected),
            ]);
        }
        let text = table.render(process.output.out);
        process.output.print(&text);
        Ok(())
    }
}

impl DisconnectUpstreamArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let backend = BackendId::normalise(&self.server).map_err(|error| CommandFailure::usage(error.to_string()))?;
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let user = meant_user(&store, &self.user, "upstream disconnect").await?;
        self.ending.confirm(&format!("Disconnect {user} from {backend}, and delete the tokens?"), process)?;
        let deleted = store.storage.upstream_tokens().delete(&user, &backend).await;
        store.close().await;
        if deleted.map_err(failed)? {
            let sentence = format!(
                "{user} is disconnected from {backend}: calls end within a second, and the running gateway, or the next \
                 one, revokes the tokens"
            );
            let identity = json!({ "user": user, "server": backend });
            ending::tell(self.ending.form, identity, Became::Disconnected, &sentence, process);
            return Ok(());
        }
        Err(CommandFailure::failed(format!("the user {user} has connected no account at the server {backend}"))
            .advise("`lockkeeper upstream list` shows who has connected what"))
    }
}

fn document(row: &UpstreamTokenRow) -> Value {
    json!({
        "user": row.user, "server": row.backend, "issuer": row.issuer, "resource": row.resource,
        "scope": row.scope, "connected": row.connected.to_string(),
    })
}

fn failed(error: StorageError) -> CommandFailure {
    OAuthError::from(error).into()
}
