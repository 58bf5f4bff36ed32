//! Grants: one consent of one user to one client. Knows nothing of the tokens that rest on it.

use super::{ClientId, Endpoint, GrantId, KeyId, Scopes, UserId};
use crate::support::Timestamp;

/// One consent of one user to one client; the token family lives and dies with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Its id; `gid` in access tokens.
    pub id: GrantId,
    /// Who consented.
    pub user: UserId,
    /// The API key that the user had logged in with: the grant dies with it (`OA-128`).
    pub key: KeyId,
    /// To whom.
    pub client: ClientId,
    /// The endpoint that its tokens open, and no other (`OA-114`).
    pub endpoint: Endpoint,
    /// What its tokens may do at most.
    pub scopes: Scopes,
    /// Where the client was answered.
    pub redirect_uri: String,
    /// When the user consented; `auth_time` in access tokens.
    pub created: Timestamp,
    /// When it ends, however often it is refreshed.
    pub expires: Timestamp,
    /// When a token was last issued for it or used, exact to about a minute; `None` until its code was redeemed.
    pub last_used: Option<Timestamp>,
    /// When it was revoked.
    pub revoked: Option<Timestamp>,
}

impl Grant {
    /// Whether tokens may be issued and used on it at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && now < self.expires
    }
}
