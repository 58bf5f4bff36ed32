//! A user as the operator sees it.

use super::{KeyId, UserId};
use crate::support::Timestamp;

/// A user as the operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserOverview {
    pub user: UserId,
    /// Time when the user was created, with its first key.
    pub created: Timestamp,
    /// Time when the operator disabled the user.
    pub disabled: Option<Timestamp>,
    /// Number of live keys and accounts.
    pub keys: i64,
    /// Number of live grants.
    pub grants: i64,
    /// Last use of a key.
    pub last_used: Option<Timestamp>,
}

/// Things that ended with a user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndedUser {
    /// Live keys and accounts, by name and id.
    pub keys: Vec<(String, KeyId)>,
    /// Apps with live grants, by name and endpoint.
    pub apps: Vec<(String, String)>,
    /// Servers where the user had an account.
    pub accounts: Vec<String>,
    /// Names of secrets for servers.
    pub secrets: Vec<String>,
    /// Number of sessions of apps.
    pub sessions: i64,
    /// Number of browser sessions.
    pub browsers: i64,
    /// Number of tasks at servers.
    pub tasks: i64,
    /// Number of approved devices without tokens yet.
    pub devices: i64,
    /// Number of open invitations, and of rules that let the user in.
    pub invitations: i64,
}
