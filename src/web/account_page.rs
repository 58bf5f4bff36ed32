//! The account page.

use askama::Template;

use super::{
    pages::{AccountItem, BackendList, Layout, SecretItem},
    texts::{Destination, Permission, Sensitivity},
};
use crate::model::Access;

#[derive(Template)]
#[template(path = "account.html")]
pub(super) struct AccountPage<'a> {
    pub(super) layout: Layout,
    pub(super) token: String,
    pub(super) user: &'a str,
    /// Name of the key of the login, if other keys may share its user.
    pub(super) key: Option<&'a str>,
    /// Name of the provider of the login.
    pub(super) provider: Option<&'a str>,
    /// Result of the last action.
    pub(super) notice: Option<&'static str>,
    /// Rights of the key of the login.
    pub(super) rights: RightsItem,
    /// Connected apps, and clients with an API key.
    pub(super) apps: Vec<AppItem>,
    /// Servers where users log in.
    pub(super) accounts: Vec<AccountItem>,
    /// Secrets that servers need of this user.
    pub(super) secrets: Vec<SecretItem>,
    pub(super) backends: BackendList,
}

/// Rights of the logged-in person, and their source.
pub(super) struct RightsItem {
    pub(super) permissions: Vec<Permission>,
    /// Time since the key was made.
    pub(super) since: String,
    pub(super) given_by: Option<String>,
    /// Time since the last change, and who made it.
    pub(super) changed: Option<String>,
    /// End of the key.
    pub(super) ends: Option<String>,
    /// Networks where the key may be used, if limited.
    pub(super) networks: Option<String>,
}

/// One app on the account page.
#[derive(Debug)]
pub(super) enum AppItem {
    /// An app with a grant.
    Connected(Box<GrantItem>),
    /// A client with an API key, or one whose grant this login does not show.
    Client(ClientItem),
}

/// One grant on the account page.
#[derive(Debug)]
pub(super) struct GrantItem {
    pub(super) id: String,
    pub(super) client: String,
    pub(super) destination: Destination,
    /// What it may do beside using servers.
    pub(super) permissions: Vec<Permission>,
    pub(super) servers: Vec<AppServer>,
    /// The other servers in brief.
    pub(super) summary: String,
    pub(super) ends: String,
    /// Its programs that were active lately.
    pub(super) clients: Vec<ClientItem>,
    pub(super) endpoint: String,
    /// Name of the key behind the grant, if its user may have several.
    pub(super) key: Option<String>,
    pub(super) created: String,
    pub(super) used: String,
}

/// A server of an app.
#[derive(Debug)]
pub(super) struct AppServer {
    pub(super) name: String,
    pub(super) access: Access,
    /// True if the user has to log in there, or owes it a secret.
    pub(super) lacks_login: bool,
}

/// One client on the account page, with a session or without.
#[derive(Debug)]
pub(super) struct ClientItem {
    pub(super) name: String,
    pub(super) endpoint: String,
    pub(super) protocol_version: String,
    pub(super) used: String,
}

// === impl AccountPage ===

impl AccountPage<'_> {
    /// True if there is an app to disconnect.
    fn has_apps(&self) -> bool {
        self.apps.iter().any(|app| matches!(app, AppItem::Connected(_)))
    }
}

// === impl GrantItem ===

impl GrantItem {
    /// The servers that lack a login of the user.
    pub(super) fn lacking(&self) -> impl Iterator<Item = &AppServer> {
        self.servers.iter().filter(|server| server.lacks_login)
    }
}
