//! `lockkeeper grants`: grants of users to clients. The running gateway applies changes within a second.

use clap::Subcommand;
use serde_json::{Value, json};

use super::{
    arguments::FormatArgs,
    failure::CommandFailure,
    process::ProcessContext,
    store::{AdminStore, IfMissing},
    table::{Cell, TextTable},
};
use crate::{
    model::{ApiKey, TokenDelivery, UserId},
    oauth::GrantView,
};

/// Subcommands of `grants`.
#[derive(Debug, Subcommand)]
pub enum GrantsCommand {
    /// Lists the live grants, newest first
    List(ListGrantsArgs),
    /// Revokes a grant, or all grants of a user, to a client, or of a user to a client
    Revoke(RevokeGrantArgs),
}

/// `grants list`.
#[derive(Debug, clap::Args)]
pub struct ListGrantsArgs {
    /// Lists only the grants of this user; a key without a user name counts as a user, by its id or name
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    #[command(flatten)]
    form: FormatArgs,
}

/// `grants revoke`.
#[derive(Debug, clap::Args)]
pub struct RevokeGrantArgs {
    /// Grant id, from `grants list`
    #[arg(required_unless_present_any = ["user", "client"], conflicts_with_all = ["user", "client"])]
    id: Option<String>,
    /// Revokes all grants of this user; a key without a user name counts as a user, by its id or name
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Revokes all grants to this client, which may ask for new ones; `clients revoke` shuts it out
    #[arg(long, value_name = "ID")]
    client: Option<String>,
}

// === impl GrantsCommand ===

impl GrantsCommand {
    /// Runs the subcommand.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        match self {
            Self::List(list) => list.run(process).await,
            Self::Revoke(revoke) => revoke.run(process).await,
        }
    }
}

impl ListGrantsArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let listed = self.list(&store).await;
        store.close().await;
        let grants = listed?;
        if self.form.json {
            process.output.json(&grants.iter().map(document).collect::<Vec<_>>());
            return Ok(());
        }
        if grants.is_empty() {
            process.output.remark("No live grants. A grant begins when a user approves a client.");
            return Ok(());
        }
        let mut table = TextTable::new(&["ID", "USER", "CLIENT", "ENDPOINT", "SCOPES", "CREATED", "LAST USED"]);
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

impl ListGrantsArgs {
    async fn list(&self, store: &AdminStore) -> Result<Vec<GrantView>, CommandFailure> {
        match &self.user {
            Some(user) => Ok(store.oauth.grants().of(&meant(store, user).await?).await?),
            None => Ok(store.oauth.grants().list().await?),
        }
    }
}

impl RevokeGrantArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let revoked = self.revoke(&store).await;
        store.close().await;
        process.output.remark(&format!("{}; tokens and streams end within a second", revoked?));
        Ok(())
    }

    /// Revokes; returns a text about the result.
    async fn revoke(&self, store: &AdminStore) -> Result<String, CommandFailure> {
        if let Some(client) = &self.client {
            return self.revoke_to(store, client).await;
        }
        if let Some(user) = &self.user {
            let count = store.oauth.grants().revoke_all(&meant(store, user).await?).await?;
            return Ok(format!("{} of {user} revoked", counted(count)));
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
        Err(CommandFailure::failed(format!("there is no live grant {id}"))
            .advise("`lockkeeper grants list` shows the ids"))
    }

    /// Revokes the grants to `client`, of one user if one is given; returns a text about the result.
    async fn revoke_to(&self, store: &AdminStore, client: &str) -> Result<String, CommandFailure> {
        let user = match &self.user {
            Some(user) => Some(meant(store, user).await?),
            None => None,
        };
        let mut count = 0;
        for GrantView { grant, .. } in store.oauth.grants().list().await? {
            let is_meant = grant.client.as_str() == client && user.as_ref().is_none_or(|user| *user == grant.user);
            if is_meant && store.oauth.grants().revoke(&grant.user, &grant.id).await? {
                count += 1;
            }
        }
        Ok(format!("{} to {client} revoked", counted(count)))
    }
}

fn counted(grants: u64) -> String {
    format!("{grants} {}", if grants == 1 { "grant" } else { "grants" })
}

/// The user that an argument means: a user id, else a key without a user name, by the key's id or name. Any other text
/// is the id of a user without keys.
async fn meant(store: &AdminStore, text: &str) -> Result<UserId, CommandFailure> {
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
        [user] => Err(CommandFailure::usage(format!("the key {text} belongs to the user {user}")).advise(format!(
            "use `--user {user}` for all keys of {user}, or `lockkeeper grants revoke ID` for one grant"
        ))),
        _ => Err(CommandFailure::usage(format!(
            "{} keys have the name {text}, and they belong to several users",
            named.len()
        ))
        .advise("use the key's id: `lockkeeper keys list --all` shows it")),
    }
}

fn document(view: &GrantView) -> Value {
    let grant = &view.grant;
    json!({
        "id": grant.id, "user": grant.user, "key": grant.key, "key_name": view.key_name, "client": grant.client, "client_name": view.client_name,
        "endpoint": grant.endpoint.to_string(), "scopes": grant.scopes.to_string(),
        "redirect_uri": grant.delivery.redirect_uri(), "delivery": match grant.delivery {
            TokenDelivery::Redirect(_) => "redirect",
            TokenDelivery::Device | TokenDelivery::Service | TokenDelivery::Assertion => grant.delivery.as_str(),
        },
        "created": grant.created.to_string(),
        "expires": grant.expires.to_string(), "last_used": grant.last_used.map(|moment| moment.to_string()),
    })
}
