//! The authenticated caller.

use super::{AccessSubject, ClientId, GrantId, KeyId, Rights, UserId};
use crate::support::Digest;

/// The result of authentication. State of a caller (sessions, subscriptions, suspended calls) is keyed by
/// [`Caller::user`] and [`Caller::client`], and other callers cannot reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub user: UserId,
    /// The OAuth client; `None` for an API key sent directly.
    pub client: Option<ClientId>,
    /// The grant; `None` for an API key sent directly.
    pub grant: Option<GrantId>,
    /// The API key behind the grant, or the one sent directly; `None` for the gateway itself and for a local process.
    pub key: Option<KeyId>,
    /// Rights: the scopes of the token, intersected with the rights of the key.
    pub rights: Rights,
}

/// Key of the state kept for a caller. Two keys are equal if [`Caller::owns_the_same_as`] is true.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    user: UserId,
    client: Option<ClientId>,
    /// Each API key sent directly is a client of its own, even of the same user.
    key: Option<KeyId>,
}

// === impl Owner ===

impl Owner {
    pub const fn user(&self) -> &UserId {
        &self.user
    }

    /// The OAuth client; `None` for an API key sent directly.
    pub const fn client(&self) -> Option<&ClientId> {
        self.client.as_ref()
    }

    /// The API key, if it was sent directly.
    pub const fn key(&self) -> Option<&KeyId> {
        self.key.as_ref()
    }

    /// A digest that is equal for equal owners, for the store.
    pub fn digest(&self) -> Digest {
        let client = self.client.as_ref().map(ClientId::as_str);
        let key = self.key.as_ref().map(KeyId::as_str);
        // JSON keeps the parts apart, with any characters in them
        Digest::sha256(serde_json::json!([self.user.as_str(), client, key]).to_string())
    }
}

// === impl Caller ===

impl Caller {
    /// The gateway itself, which fetches backends' lists.
    pub fn gateway() -> Self {
        Self { user: UserId::new("(gateway)"), client: None, grant: None, key: None, rights: Rights::all_backends() }
    }

    /// The program that started the gateway for itself, over stdio.
    pub fn local() -> Self {
        Self { user: UserId::new("(local)"), ..Self::gateway() }
    }

    /// The caller as the subject of verdicts on servers.
    pub const fn subject(&self) -> AccessSubject<'_> {
        AccessSubject { user: &self.user, rights: &self.rights }
    }

    /// Key of the state kept for this caller.
    pub fn owner(&self) -> Owner {
        let key = if self.client.is_none() { self.key.clone() } else { None };
        Owner { user: self.user.clone(), client: self.client.clone(), key }
    }

    /// True if `other` may use the state of this caller: the same user through the same client. Two API keys of one
    /// user, sent directly, are two clients.
    pub fn owns_the_same_as(&self, other: &Self) -> bool {
        self.user == other.user && self.client == other.client && (self.client.is_some() || self.key == other.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_equal_if_callers_own_the_same() {
        let caller = |client: Option<&str>, key: &str| Caller {
            client: client.map(ClientId::new),
            key: Some(KeyId::new(key)),
            ..Caller::gateway()
        };
        let callers = [caller(None, "a"), caller(None, "b"), caller(Some("c"), "a"), caller(Some("c"), "b")];
        for one in &callers {
            for other in &callers {
                assert_eq!(one.owns_the_same_as(other), one.owner() == other.owner(), "{one:?} {other:?}");
                let digests = one.owner().digest() == other.owner().digest();
                assert_eq!(one.owns_the_same_as(other), digests, "{one:?} {other:?}");
            }
        }
    }
}
