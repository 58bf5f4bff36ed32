//! Data of the account page's template.

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
    /// Name of the login's key, if its user may have several.
    pub(super) key: Option<&'a str>,
    /// Label of the provider of the login.
    pub(super) provider: Option<&'a str>,
    /// Result of the last action.
    pub(super) notice: Option<&'static str>,
    /// Rights of the key of the login.
    pub(super) rights: RightsItem,
    /// Connected apps, and clients with an API key.
    pub(super) apps: Vec<AppItem>,
    /// Servers where users log in.
    pub(super) accounts: Vec<AccountItem>,
    /// Secrets that servers need from this user.
    pub(super) secrets: Vec<SecretItem>,
    pub(super) backends: BackendList,
}

/// Rights of the logged-in person, and their source.
pub(super) struct RightsItem {
    pub(super) permissions: Vec<Permission>,
    /// Age of the key.
    pub(super) since: String,
    pub(super) given_by: Option<String>,
    /// Time since the last change, and who made it.
    pub(super) changed: Option<String>,
    /// Time until the key expires, if it does.
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

/// What one app was granted, once or several times, on the account page.
#[derive(Debug)]
pub(super) struct GrantItem {
    /// Ids of the grants, separated by spaces.
    pub(super) ids: String,
    /// The difference from other rows of the same app, if there are any.
    pub(super) distinction: Option<String>,
    pub(super) client: String,
    pub(super) destination: Destination,
    /// Permissions beyond the use of servers.
    pub(super) permissions: Vec<Permission>,
    pub(super) servers: Vec<AppServer>,
    /// Names of the first servers, without the ones where a login is missing.
    pub(super) summary: String,
    pub(super) ends: String,
    /// Its recently active programs.
    pub(super) clients: Vec<ClientItem>,
    pub(super) endpoint: String,
    /// Name of the key behind the grant, if its user may have several.
    pub(super) key: Option<String>,
    pub(super) created: String,
    pub(super) used: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct AppServer {
    pub(super) name: String,
    pub(super) access: Access,
    /// True if the user still has to log in there, or to enter a secret for it.
    pub(super) lacks_login: bool,
}

/// One client on the account page, with or without a session.
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
    /// The servers where a login or a secret of the user is missing.
    pub(super) fn lacking(&self) -> impl Iterator<Item = &AppServer> {
        self.servers.iter().filter(|server| server.lacks_login)
    }
}
