//! Identifiers as types, so that one cannot stand where another is meant. Knows nothing of what they identify.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// Declares an identifier: an immutable, cheaply cloned string of its own type.
macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes `id` as it is: from the store, or freshly minted.
            pub fn new(id: impl Into<Arc<str>>) -> Self {
                Self(id.into())
            }

            /// The identifier's text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

identifier! {
    /// A person or service that owns API keys; `sub` in access tokens.
    UserId
}
identifier! {
    /// An OAuth client (RFC 6749 2.2): random for a registered one, an https URL for a metadata document.
    ClientId
}
identifier! {
    /// One consent of one user to one client; a token family lives and dies with it.
    GrantId
}
identifier! {
    /// The public part of an API key, by which it is looked up.
    KeyId
}

/// An MCP session as the client knows it (`Mcp-Session-Id`): at least 128 random bits. It is a handle, never a
/// credential, and still not shown whole in logs: `Debug` prints its first characters alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Arc<str>);

/// The name of a backend: `[a-z][a-z0-9-]{0,31}`. It prefixes the names of the backend's tools and prompts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct BackendId(Arc<str>);

/// The text is no backend name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no backend name: it takes a letter, then up to 31 of a-z, 0-9 and `-`")]
pub struct InvalidBackendId(pub String);

// === impl SessionId ===

impl SessionId {
    /// Takes `id` as it is: from a header, from the store, or freshly minted.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The whole id, for the wire and for look-ups.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.char_indices().nth(8).map_or(self.0.len(), |(at, _)| at);
        write!(f, "SessionId({}…)", &self.0[..end])
    }
}

// === impl BackendId ===

impl BackendId {
    /// Accepts exactly the names `[a-z][a-z0-9-]{0,31}`.
    pub fn parse(name: &str) -> Result<Self, InvalidBackendId> {
        let mut chars = name.chars();
        let starts_well = chars.next().is_some_and(|first| first.is_ascii_lowercase());
        let goes_well = chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        if starts_well && goes_well && name.len() <= 32 {
            Ok(Self(name.into()))
        } else {
            Err(InvalidBackendId(name.to_owned()))
        }
    }

    /// Makes a backend name of a configured one: lowered, every other character a `-`, cut to 32.
    /// Fails where the result still does not begin with a letter.
    pub fn normalise(name: &str) -> Result<Self, InvalidBackendId> {
        let lowered: String = name
            .chars()
            .map(|c| c.to_ascii_lowercase())
            .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' })
            .take(32)
            .collect();
        Self::parse(&lowered).map_err(|_| InvalidBackendId(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BackendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for BackendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackendId({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_name_becomes_a_backend_name() {
        let name = |text: &str| BackendId::normalise(text).map(|id| id.to_string());
        assert_eq!(name("My Server_2").as_deref(), Ok("my-server-2"));
        assert_eq!(name(&"x".repeat(40)).map(|id| id.len()), Ok(32));
        assert_eq!(name("2fast"), Err(InvalidBackendId("2fast".to_owned())));
        assert_eq!(name(""), Err(InvalidBackendId(String::new())));
    }

    #[test]
    fn a_session_id_is_not_shown_whole() {
        let id = SessionId::new("0123456789abcdef");
        assert_eq!(format!("{id:?}"), "SessionId(01234567…)");
    }
}
