//! `lockkeeper clients`: the OAuth clients that registered. The running gateway takes notice within a second.

use clap::Subcommand;
use serde_json::{Value, json};

use super::{
    arguments::{Data, Form},
    failure::Failure,
    process::Process,
    store::{Absent, Store},
    table::{Cell, Table},
};
use crate::model::{Client, ClientId};

/// What can be done with clients.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists the clients, newest first
    List(List),
    /// Shows what a client registered
    Show(One),
    /// Revokes a client and every grant that it has; it cannot register again until it is restored
    Revoke(One),
    /// Lets a revoked client register and log in again; its grants stay revoked
    Restore(One),
}

/// `clients list`.
#[derive(Debug, clap::Args)]
pub struct List {
    /// The revoked clients instead of the others
    #[arg(long)]
    revoked: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    data: Data,
}

/// `clients show`, `clients revoke` and `clients restore`.
#[derive(Debug, clap::Args)]
pub struct One {
    /// The client's id, as `clients list` shows it
    id: String,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    data: Data,
}

// === impl Command ===

impl Command {
    /// Does it.
    pub async fn run(self, process: &mut Process) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(process).await,
            Self::Show(one) => one.show(process).await,
            Self::Revoke(one) => one.revoke(process).await,
            Self::Restore(one) => one.restore(process).await,
        }
    }
}

impl List {
    async fn run(self, process: &mut Process) -> Result<(), Failure> {
        let store = Store::open(&self.data, process, Absent::Refuse).await?;
        let listed =
            if self.revoked { store.oauth.clients().list_revoked().await } else { store.oauth.clients().list().await };
        store.close().await;
        let clients = listed?;
        if self.form.json {
            process.output.json(&clients.iter().map(document).collect::<Vec<_>>());
            return Ok(());
        }
        if clients.is_empty() && self.revoked {
            process.output.remark("No client is revoked.");
            return Ok(());
        }
        if clients.is_empty() {
            process.output.remark("No client has registered yet. Clients do so by themselves when they first connect.");
            return Ok(());
        }
        let mut table = Table::new(&["ID", "NAME", "AUTHENTICATION", "CREATED", "REDIRECT URIS"]);
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

impl One {
    async fn show(self, process: &mut Process) -> Result<(), Failure> {
        let store = Store::open(&self.data, process, Absent::Refuse).await?;
        let found = store.oauth.clients().find(&ClientId::new(self.id.as_str())).await;
        store.close().await;
        let client = found?.ok_or_else(|| self.unknown())?;
        if self.form.json {
            process.output.json(&document(&client));
            return Ok(());
        }
        let types: Vec<String> = client.grant_types.iter().map(ToString::to_string).collect();
        let mut table = Table::new(&["WHAT", "VALUE"]);
        table.row(["id", client.id.as_str()].map(Cell::from));
        table.row(["name (unverified)", &client.name].map(Cell::from));
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

    async fn revoke(self, process: &mut Process) -> Result<(), Failure> {
        let store = Store::open(&self.data, process, Absent::Refuse).await?;
        let revoked = store.oauth.clients().revoke(&ClientId::new(self.id.as_str())).await;
        store.close().await;
        if revoked? {
            let id = &self.id;
            process.output.remark(&format!(
                "client {id} is revoked; its tokens end within a second. It cannot register again: \
                 `lockkeeper clients restore {id}` takes this back"
            ));
            return Ok(());
        }
        Err(self.unknown())
    }

    async fn restore(self, process: &mut Process) -> Result<(), Failure> {
        let store = Store::open(&self.data, process, Absent::Refuse).await?;
        let restored = store.oauth.clients().restore(&ClientId::new(self.id.as_str())).await;
        store.close().await;
        if restored? {
            process.output.remark(&format!("client {} may register and log in again", self.id));
            return Ok(());
        }
        let what = format!("there is no revoked client {}", self.id);
        Err(Failure::failed(what).advise("`lockkeeper clients list --revoked` shows the ids"))
    }

    fn unknown(&self) -> Failure {
        Failure::failed(format!("there is no client {}", self.id)).advise("`lockkeeper clients list` shows the ids")
    }
}

/// A client as JSON; no secret is in it.
fn document(client: &Client) -> Value {
    json!({
        "id": client.id, "name": client.name, "redirect_uris": client.redirect_uris,
        "authentication": client.auth.name(), "grant_types": client.grant_types, "scope": client.scope,
        "created": client.created.to_string(),
        "metadata": serde_json::from_str::<Value>(&client.metadata).unwrap_or_default(),
    })
}
