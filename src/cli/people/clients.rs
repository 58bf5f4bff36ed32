//! `lockkeeper clients`: registered OAuth clients. The running gateway applies changes within a second.

mod create;
mod initial_access_tokens;
mod print;

use clap::Subcommand;
use serde_json::json;

use crate::{
    cli::{
        store::{AdminStore, IfMissing},
        terminal::{
            documents::{self, Became, FormatArgs},
            ending::{self, EndingArgs},
            failure::CommandFailure,
            process::{CommandPurpose, ProcessContext},
            table::{Cell, TextTable},
        },
    },
    model::{ClientId, Registrant},
};

/// Subcommands of `clients`.
#[derive(Debug, Subcommand)]
pub enum ClientsCommand {
    /// Registers a confidential client: a program with an account of its own, or an app with a server
    Create(Box<create::CreateClientArgs>),
    /// Lists the clients, newest first
    List(ListClientsArgs),
    /// Shows what a client registered
    Show(OneClientArgs),
    /// Revokes a client and its grants; it cannot register again until it is restored
    Revoke(RevokeClientArgs),
    /// Restores a revoked client, so that it can register and log in again; its grants stay revoked
    Restore(OneClientArgs),
    /// Deletes clients that have expired: without consent for a day, or without a login for 90 days
    Prune(FormatArgs),
    /// Creates, lists and revokes tokens with which clients may register
    #[command(subcommand)]
    InitialAccessTokens(initial_access_tokens::InitialAccessTokensCommand),
}

/// `clients list`.
#[derive(Debug, clap::Args)]
pub struct ListClientsArgs {
    /// Lists the revoked clients instead
    #[arg(long)]
    revoked: bool,
    #[command(flatten)]
    form: FormatArgs,
}

/// `clients revoke`.
#[derive(Debug, clap::Args)]
pub struct RevokeClientArgs {
    /// Client id, from `clients list`
    id: String,
    #[command(flatten)]
    ending: EndingArgs,
}

/// `clients show` and `clients restore`.
#[derive(Debug, clap::Args)]
pub struct OneClientArgs {
    /// Client id, from `clients list`
    id: String,
    #[command(flatten)]
    form: FormatArgs,
}

// === impl ClientsCommand ===

impl ClientsCommand {
    /// Relation to the running gateway.
    pub(in crate::cli) fn purpose(&self) -> CommandPurpose {
        match self {
            Self::List(_) | Self::Show(_) => CommandPurpose::Asks,
            Self::InitialAccessTokens(command) => command.purpose(),
            Self::Create(_) | Self::Revoke(_) | Self::Restore(_) | Self::Prune(_) => CommandPurpose::ChangesData,
        }
    }

    /// Runs the subcommand.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        match self {
            Self::Create(create) => create.run(process).await,
            Self::List(list) => list.run(process).await,
            Self::Show(one) => one.show(process).await,
            Self::Revoke(revoke) => revoke.run(process).await,
            Self::Restore(one) => one.restore(process).await,
            Self::Prune(form) => prune(process, &form).await,
            Self::InitialAccessTokens(command) => command.run(process).await,
        }
    }
}

impl ListClientsArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let listed =
            if self.revoked { store.oauth.clients().list_revoked().await } else { store.oauth.clients().list().await };
        store.close().await;
        let clients = listed?;
        if self.form.json {
            process.output.json(&documents::list("clients", clients.iter().map(print::document).collect()));
            return Ok(());
        }
        if clients.is_empty() && self.revoked {
            process.output.remark("No revoked clients.");
            return Ok(());
        }
        if clients.is_empty() {
            process.output.remark("No clients. A client registers when it first connects.");
            return Ok(());
        }
        let mut table = TextTable::new(&["ID", "NAME", "AUTHENTICATION", "CREATED", "REDIRECT URIS"]);
        for client in &clients {
            let uris = client.redirect_uris.join(" ");
            let cells = (&client.id, &client.name, client.auth.name(), client.created, uris);
            table.row([
                Cell::from(cells.0),
                Cell::from(cells.1),
                Cell::from(cells.2),
                Cell::from(cells.3),
                Cell::from(cells.4),
            ]);
        }
        let text = table.render(process.output.out);
        process.output.print(&text);
        Ok(())
    }
}

impl OneClientArgs {
    async fn show(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let found = store.oauth.clients().find(&ClientId::new(self.id.as_str())).await;
        store.close().await;
        let client = found?.ok_or_else(|| unknown(&self.id))?;
        if self.form.json {
            process.output.json(&print::document(&client));
            return Ok(());
        }
        let types: Vec<String> = client.grant_types.iter().map(ToString::to_string).collect();
        let mut table = TextTable::new(&["WHAT", "VALUE"]);
        table.row(["id", client.id.as_str()].map(Cell::from));
        let name = match client.registrant {
            Registrant::Client | Registrant::Document(_) => "name (unverified)",
            Registrant::Operator(_) => "name",
        };
        table.row([name, &client.name].map(Cell::from));
        table.row(["registered by", print::registrant(client.registrant)].map(Cell::from));
        if let Registrant::Operator(rule) = client.registrant {
            table.row(["consent", print::consent(rule)].map(Cell::from));
        }
        table.row(["authentication", client.auth.name()].map(Cell::from));
        table.row(["grant types", &types.join(" ")].map(Cell::from));
        table.row(["scope", client.scope.as_deref().unwrap_or("(every ordinary one)")].map(Cell::from));
        table.row(["created", &client.created.to_string()].map(Cell::from));
        for uri in &client.redirect_uris {
            table.row(["redirect uri", uri].map(Cell::from));
        }
        let text = table.render(process.output.out);
        process.output.print(&text);
        Ok(())
    }

    async fn restore(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let restored = store.oauth.clients().restore(&ClientId::new(self.id.as_str())).await;
        store.close().await;
        if restored? {
            let sentence = format!("client {} may register and log in again", self.id);
            ending::tell(self.form, json!({ "id": self.id }), Became::Restored, &sentence, process);
            return Ok(());
        }
        let what = format!("there is no revoked client {}", self.id);
        Err(CommandFailure::failed(what).advise("`lockkeeper clients list --revoked` shows the ids"))
    }
}

impl RevokeClientArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let revoked = self.revoke(&store, process).await;
        store.close().await;
        let (id, name) = (&self.id, revoked?);
        let sentence = format!(
            "client {id} ({name}) is revoked; its tokens end within a second. It cannot register again: \
             undo with `lockkeeper clients restore {id}`"
        );
        ending::tell(self.ending.form, json!({ "id": id, "name": name }), Became::Revoked, &sentence, process);
        Ok(())
    }

    /// Revokes the client; returns its name.
    async fn revoke(&self, store: &AdminStore, process: &mut ProcessContext) -> Result<String, CommandFailure> {
        let id = ClientId::new(self.id.as_str());
        let client = store.oauth.clients().find(&id).await?.ok_or_else(|| unknown(&self.id))?;
        let question = format!("Revoke the client {} ({}), with all grants to it?", self.id, client.name);
        self.ending.confirm(&question, process)?;
        let revoked = store.oauth.clients().revoke(&id).await?;
        revoked.then_some(client.name).ok_or_else(|| unknown(&self.id))
    }
}

fn unknown(id: &str) -> CommandFailure {
    CommandFailure::failed(format!("there is no client {id}")).advise("`lockkeeper clients list` shows the ids")
}

async fn prune(process: &mut ProcessContext, form: &FormatArgs) -> Result<(), CommandFailure> {
    let store = AdminStore::open(process, IfMissing::Refuse).await?;
    let pruned = store.oauth.clients().prune().await;
    store.close().await;
    let pruned = pruned?;
    if form.json {
        process.output.json(&documents::change(Became::Deleted, json!({ "count": pruned })));
        return Ok(());
    }
    let clients = if pruned == 1 { "client is" } else { "clients are" };
    process.output.remark(&format!("{pruned} expired {clients} deleted; those apps have to register again"));
    Ok(())
}
