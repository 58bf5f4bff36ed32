//! Who stands behind a call. Knows nothing of tokens.

use super::{ClientId, GrantId, KeyId, Rights, UserId};

/// Who stands behind a call: the checked outcome of authentication. State that is kept for a caller (sessions, listens,
/// parked calls) is keyed by [`Caller::user`] and [`Caller::client`], and reached by no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user in whose name the call is made.
    pub user: UserId,
    /// The OAuth client that makes it; `None` where an API key was presented directly.
    pub client: Option<ClientId>,
    /// The consent it rests on; `None` where an API key was presented directly.
    pub grant: Option<GrantId>,
    /// The API key that it goes back to; `None` for the gateway itself and for a local process.
    pub key: Option<KeyId>,
    /// What it may do: the scopes of the token and the rights of the key, intersected.
    pub rights: Rights,
}

impl Caller {
    /// The gateway itself, asking backends what they have.
    pub fn gateway() -> Self {
        Self { user: UserId::new("(gateway)"), client: None, grant: None, key: None, rights: Rights::all_backends() }
    }

    /// Whether `other` may use what was made for this caller: the same user through the same client. Two keys of one
    /// user, presented directly, are two clients.
    pub fn owns_the_same_as(&self, other: &Self) -> bool {
        self.user == other.user && self.client == other.client && (self.client.is_some() || self.key == other.key)
    }
}
