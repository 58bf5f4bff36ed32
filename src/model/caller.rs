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

/// Whose something is that was made for a caller: equal where [`Caller::owns_the_same_as`] holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    user: UserId,
    client: Option<ClientId>,
    /// Of two keys of one user, presented directly, each is a client.
    key: Option<KeyId>,
}

// === impl Caller ===

impl Caller {
    /// The gateway itself, asking backends what they have.
    pub fn gateway() -> Self {
        Self { user: UserId::new("(gateway)"), client: None, grant: None, key: None, rights: Rights::all_backends() }
    }

    /// Whose it is what is made for this caller: the key under which state is kept for it.
    pub fn owner(&self) -> Owner {
        let key = if self.client.is_none() { self.key.clone() } else { None };
        Owner { user: self.user.clone(), client: self.client.clone(), key }
    }

    /// Whether `other` may use what was made for this caller: the same user through the same client. Two keys of one
    /// user, presented directly, are two clients.
    pub fn owns_the_same_as(&self, other: &Self) -> bool {
        self.user == other.user && self.client == other.client && (self.client.is_some() || self.key == other.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_equal_where_callers_own_the_same() {
        let caller = |client: Option<&str>, key: &str| Caller {
            client: client.map(ClientId::new),
            key: Some(KeyId::new(key)),
            ..Caller::gateway()
        };
        let callers = [caller(None, "a"), caller(None, "b"), caller(Some("c"), "a"), caller(Some("c"), "b")];
        for one in &callers {
            for other in &callers {
                assert_eq!(one.owns_the_same_as(other), one.owner() == other.owner(), "{one:?} {other:?}");
            }
        }
    }
}
