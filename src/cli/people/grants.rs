//! `lockkeeper grants`: the grants that users gave to clients. The running gateway applies changes within a second.

use clap::Subcommand;
use serde_json::{Value, json};

use super::lookup::meant_user;
use crate::{
    cli::{
        store::{AdminStore, IfMissing},
        terminal::{
            documents::{self, Became, FormatArgs},
            ending::{self, EndingArgs},
            failure::CommandFailure,
            output::number_of,
            process::ProcessContext,
            table::{Cell, TextTable},
        },
    },
    model::TokenDelivery,
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
    #[command(flatten)]
    ending: EndingArgs,
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
            process.output.json(&documents::list("grants", grants.iter().map(document).collect()));
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
            Some(user) => Ok(store.oauth.grants().of(&meant_user(store, user, "grants list --user").await?).await?),
            None => Ok(store.oauth.grants().list().await?),
        }
    }
}

impl RevokeGrantArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let revoked = self.revoke(&store, process).await;
        store.close().await;
        let (count, subject) = revoked?;
        let what = match &self.id {
            Some(id) => format!("grant {id} is revoked"),
            None => format!("{} {subject} revoked", number_of(count, "grant")),
        };
        let identity = json!({ "id": self.id, "user": self.user, "client": self.client, "count": count });
        let sentence = format!("{what}; tokens and streams end within a second");
        ending::tell(self.ending.form, identity, Became::Revoked, &sentence, process);
        Ok(())
    }

    /// Revokes the grants; returns their number, and a phrase that says whose they were.
    async fn revoke(&self, store: &AdminStore, process: &mut ProcessContext) -> Result<(u64, String), CommandFailure> {
        let user = match &self.user {
            Some(user) => Some(meant_user(store, user, "grants revoke --user").await?),
            None => None,
        };
        let mut grants = store.oauth.grants().list().await?;
        grants.retain(|GrantView { grant, .. }| {
            self.id.as_ref().is_none_or(|id| grant.id.as_str() == *id)
                && self.client.as_ref().is_none_or(|client| grant.client.as_str() == *client)
                && user.as_ref().is_none_or(|user| *user == grant.user)
        });
        let subject = match (&self.client, &self.user) {
            (Some(client), _) => format!("to {client}"),
            (None, Some(user)) => format!("of {user}"),
            (None, None) => {
                let found = grants.first().ok_or_else(|| self.unknown())?;
                format!("of {} to {}", found.key_name, found.client_name)
            }
        };
        if !grants.is_empty() {
            self.ending.confirm(&format!("Revoke {} {subject}?", number_of(grants.len(), "grant")), process)?;
        }
        let mut count = 0;
        for GrantView { grant, .. } in grants {
            if store.oauth.grants().revoke(&grant.user, &grant.id).await? {
                count += 1;
            }
        }
        if self.id.is_some() && count == 0 { Err(self.unknown()) } else { Ok((count, subject)) }
    }

    fn unknown(&self) -> CommandFailure {
        CommandFailure::failed(format!("there is no live grant {}", self.id.as_deref().unwrap_or_default()))
            .advise("`lockkeeper grants list` shows the ids")
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
