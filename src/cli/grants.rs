//! `lockkeeper grants`: what people allowed clients to do. The running gateway takes notice within a second.

use clap::Subcommand;
use serde_json::{Value, json};

use super::{
    arguments::{Data, Form},
    failure::Failure,
    process::Process,
    store::{Absent, Store},
    table::{Cell, Table},
};
use crate::{
    model::{ApiKey, UserId},
    oauth::GrantView,
};

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
    /// The grants of this user alone; of a key that is a user of its own, by the key's id or name
    #[arg(long, value_name = "USER")]
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
    /// All grants of this user, or of a key that is a user of its own, by the key's id or name
    #[arg(long, value_name = "USER")]
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
        let listed = self.list(&store).await;
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
                Cell::from(if grant.user.is_of_key() { &*view.key_name } else { grant.user.as_str() }),
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

impl List {
    async fn list(&self, store: &Store) -> Result<Vec<GrantView>, Failure> {
        match &self.user {
            Some(user) => Ok(store.oauth.grants().of(&meant(store, user).await?).await?),
            None => Ok(store.oauth.grants().list().await?),
        }
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
            let count = store.oauth.grants().revoke_all(&meant(store, user).await?).await?;
            return Ok(format!("{count} {} of {user} revoked", if count == 1 { "grant" } else { "grants" }));
        }
        let id = self.id.as_deref().unwrap_or_default();
        let grants = store.oauth.grants().list().await?;
        let found = grants.iter().find(|view| view.grant.id.as_str() == id);
        let revoked = match found {
            Some(view) => store.oauth.grants().revoke(&view.grant.user, &view.grant.id).await?,
            None => false,
        };
        if revoked {
            return Ok(format!("grant {id} is revoked"));
        }
        Err(Failure::failed(format!("there is no live grant {id}")).advise("`lockkeeper grants list` shows the ids"))
    }
}

/// The user that an argument means: the user of this id; else the one that a key of this id or name is by itself. What
/// names neither is the id of a user who has no keys.
async fn meant(store: &Store, text: &str) -> Result<UserId, Failure> {
    let keys = store.oauth.keys().list().await?;
    if keys.iter().any(|key| key.user.as_str() == text) {
        return Ok(UserId::new(text));
    }
    let by_id: Vec<&ApiKey> = keys.iter().filter(|key| key.id.as_str() == text).collect();
    let by_name = || keys.iter().filter(|key| key.name == text).collect();
    let named: Vec<&ApiKey> = if by_id.is_empty() { by_name() } else { by_id };
    let mut users: Vec<&UserId> = named.iter().map(|key| &key.user).collect();
    users.sort();
    users.dedup();
    match users[..] {
        [] => Ok(UserId::new(text)),
        [user] if user.is_of_key() => Ok(user.clone()),
        [user] => Err(Failure::usage(format!("the key {text} is no user of its own: it belongs to the user {user}"))
            .advise(format!("`--user {user}` means all keys of {user}; `lockkeeper grants revoke ID` ends one grant"))),
        _ => Err(Failure::usage(format!("{} keys are called {text}, and not all are the same user", named.len()))
            .advise("name one by its id: `lockkeeper keys list --all` shows them")),
    }
}

fn document(view: &GrantView) -> Value {
    let grant = &view.grant;
    json!({
        "id": grant.id, "user": grant.user, "key": grant.key, "key_name": view.key_name, "client": grant.client, "client_name": view.client_name,
        "endpoint": grant.endpoint.to_string(), "scopes": grant.scopes.to_string(),
        "redirect_uri": grant.redirect_uri, "created": grant.created.to_string(),
        "expires": grant.expires.to_string(), "last_used": grant.last_used.map(|moment| moment.to_string()),
    })
}
