//! Initial access tokens as records (RFC 7591 3; `OA-44`).

use super::InitialAccessTokenId;
use crate::support::Timestamp;

/// A token that lets clients register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitialAccessToken {
    /// Its id, which grants nothing.
    pub id: InitialAccessTokenId,
    /// Name given by the operator.
    pub name: String,
    /// Time of creation.
    pub created: Timestamp,
    /// End.
    pub expires: Timestamp,
    /// Number of clients that may register with it.
    pub uses: u32,
    /// Number that have.
    pub used: u32,
    /// Time of revocation.
    pub revoked: Option<Timestamp>,
}

impl InitialAccessToken {
    /// True if a client may register with it at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && now < self.expires && self.used < self.uses
    }
}
