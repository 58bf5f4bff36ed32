//! A user as the operator sees it. Knows nothing of where it is stored.

use super::UserId;
use crate::support::Timestamp;

/// A user as the operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserOverview {
    /// The user.
    pub user: UserId,
    /// Time at which the user came to be, with its first key.
    pub created: Timestamp,
    /// Time at which the operator disabled the user.
    pub disabled: Option<Timestamp>,
    /// Number of live keys and accounts.
    pub keys: i64,
    /// Number of live grants.
    pub grants: i64,
    /// Last use of a key.
    pub last_used: Option<Timestamp>,
}
