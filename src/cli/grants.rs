//! `lockkeeper grants`: what people allowed clients to do. The running gateway takes notice within a second.

use clap::Subcommand;
use serde_json::{Value, json};

use super::{
    Failure, Process,
    arguments::{Data, Form},
    store::{Absent, Store},
    table::{Cell, Table},
};
use crate::{model::UserId, oauth::GrantView};

/// What can be done with grants.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists the live grants, newest first
    List(List),
    /// Revokes a grant, or all grants of a user
    Revoke(Revoke),
}

/// `grants list`.
#[derive(Debug, clap::Args)]
pub struct List {
    /// The grants of this user alone
    #[arg(long)]
    user: Option<String>,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    data: Data,
}

/// `grants revoke`.
#[derive(Debug, clap::Args)]
pub struct Revoke {
    /// The grant's id, as `grants list` shows it
    #[arg(required_unless_present = "user", conflicts_with = "user")]
    id: Option<String>,
    /// All grants of this user
    #[arg(long)]
    user: Option<String>,
    #[command(flatten)]
    data: Data,
}

// === impl Command ===

impl Command {
    /// Does it.
    pub async fn run(self, process: &mut Process) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(process).await,
            Self::Revoke(revoke) => revoke.run(process).await,
        }
    }
}

impl List {
    async fn run(self, process: &mut Process) -> Result<(), Failure> {
        let store = Store::open(&self.data, process, Absent::Refuse).await?;
        let listed = match &self.user {
            Some(user) => store.oauth.grants_of(&UserId::new(user.as_str())).await,
            None => store.oauth.list_grants().await,
        };
        store.close().await;
        let grants = listed?;
        if self.form.json {
            process.output.json(&grants.iter().map(document).collect::<Vec<_>>());
            return Ok(());
        }
        if grants.is_empty() {
            process.output.remark("There are no live grants: nobody has allowed a client anything.");
            return Ok(());
        }
        let mut table = Table::new(&["ID", "USER", "CLIENT", "ENDPOINT", "SCOPES", "CREATED", "LAST USED"]);
        for view in &grants {
            let grant = &view.grant;
            table.row([
                Cell::from(&grant.id),
                Cell::from(&grant.user),
                Cell::from(&view.client_name),
                Cell::from(&grant.endpoint),
                Cell::from(&grant.scopes),
                Cell::from(grant.created),
                Cell::from(grant.last_used.map_or("never".to_owned(), |moment| moment.to_string())),
            ]);
        }
        let text = table.render(process.output.out);
        process.output.print(&text);
        Ok(())
    }
}

impl Revoke {
    async fn run(self, process: &mut Process) -> Result<(), Failure> {
        let store = Store::open(&self.data, process, Absent::Refuse).await?;
        let revoked = self.revoke(&store).await;
        store.close().await;
        process.output.remark(&format!("{}; tokens and streams end within a second", revoked?));
        Ok(())
    }

    /// What was revoked.
    async fn revoke(&self, store: &Store) -> Result<String, Failure> {
        if let Some(user) = &self.user {
            let count = store.oauth.revoke_all(&UserId::new(user.as_str())).await?;
            return Ok(format!("{count} {} of {user} revoked", if count == 1 { "grant" } else { "grants" }));
        }
        let id = self.id.as_deref().unwrap_or_default();
        let grants = store.oauth.list_grants().await?;
        let found = grants.iter().find(|view| view.grant.id.as_str() == id);
        let revoked = match found {
            Some(view) => store.oauth.revoke_grant(&view.grant.user, &view.grant.id).await?,
            None => false,
        };
        if revoked {
            return Ok(format!("grant {id} is revoked"));
        }
        Err(Failure::failed(format!("there is no live grant {id}")).advise("`lockkeeper grants list` shows the ids"))
    }
}

fn document(view: &GrantView) -> Value {
    let grant = &view.grant;
    json!({
        "id": grant.id, "user": grant.user, "client": grant.client, "client_name": view.client_name,
        "endpoint": grant.endpoint.to_string(), "scopes": grant.scopes.to_string(),
        "redirect_uri": grant.redirect_uri, "created": grant.created.to_string(),
        "expires": grant.expires.to_string(), "last_used": grant.last_used.map(|moment| moment.to_string()),
    })
}
