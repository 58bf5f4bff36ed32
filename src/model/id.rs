//! Identifiers as types, so that the compiler rejects one in place of another.

use std::{borrow::Borrow, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// Longest name of a server, in characters.
const LONGEST: usize = 32;

/// Declares an identifier: an immutable, cheaply cloned string of its own type.
macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps an id from the store or a new one.
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
    /// A person or service that owns API keys; `sub` in access tokens. Either a chosen name ([`UserId::parse`]) or an
    /// API key without a user name ([`UserId::of_key`]); the two never collide, since a name has no `:`.
    UserId
}
identifier! {
    /// An OAuth client (RFC 6749 2.2): random for a registered one, an https URL for a metadata document.
    ClientId
}
identifier! {
    /// One consent of one user to one client; a token family ends with it.
    GrantId
}
identifier! {
    /// The public part of an API key, used for look-ups.
    KeyId
}

identifier! {
    /// A token that lets clients register; not the token itself.
    InitialAccessTokenId
}

identifier! {
    /// An invitation; not the secret of its link.
    InvitationId
}

/// An MCP session as the client knows it (`Mcp-Session-Id`): at least 128 random bits. It is an identifier, not a
/// credential; `Debug` and `Display` print only its first characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Arc<str>);

/// The name of a backend: `[a-z][a-z0-9-]{0,31}`. It prefixes the names of the backend's tools and prompts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct BackendId(Arc<str>);

/// The text is not a user name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a user name: use 1 to 64 of a-z, A-Z, 0-9, `.`, `_`, `-`, `@` and `+`, and begin with a letter or digit"
)]
pub struct InvalidUserName(pub String);

/// The text is not a server name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a server name: use a letter, then up to 31 of a-z, 0-9 and `-`")]
pub struct InvalidBackendId(pub String);

// === impl UserId ===

/// Prefix of a user id that is an API key.
const OF_KEY: &str = "key:";

impl UserId {
    /// The operator, who owns the first key of a gateway.
    pub fn owner() -> Self {
        Self::new("owner")
    }

    /// The user for a key without a user name. It outlives a rotation of the key.
    pub fn of_key(id: &KeyId) -> Self {
        Self::new(format!("{OF_KEY}{id}"))
    }

    /// Parses a user name: `[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}`.
    pub fn parse(name: &str) -> Result<Self, InvalidUserName> {
        let starts_well = name.starts_with(|first: char| first.is_ascii_alphanumeric());
        let goes_well = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._@+-".contains(&byte));
        if starts_well && goes_well && name.len() <= 64 {
            Ok(Self::new(name))
        } else {
            Err(InvalidUserName(name.to_owned()))
        }
    }

    /// True if this user is an API key without a user name.
    pub fn is_of_key(&self) -> bool {
        self.0.starts_with(OF_KEY)
    }
}

// === impl SessionId ===

impl SessionId {
    /// Wraps an id from a header, from the store, or a new one.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The whole id, for messages and look-ups.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Lets tables look up the text of a header.
impl Borrow<str> for SessionId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({self})")
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.char_indices().nth(8).map_or(self.0.len(), |(at, _)| at);
        write!(f, "{}…", &self.0[..end])
    }
}

// === impl BackendId ===

impl BackendId {
    /// Parses a backend name: `[a-z][a-z0-9-]{0,31}`.
    pub fn parse(name: &str) -> Result<Self, InvalidBackendId> {
        let mut chars = name.chars();
        let starts_well = chars.next().is_some_and(|first| first.is_ascii_lowercase());
        let goes_well = chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        if starts_well && goes_well && name.len() <= LONGEST {
            Ok(Self(name.into()))
        } else {
            Err(InvalidBackendId(name.to_owned()))
        }
    }

    /// Makes a backend name from a configured one: lower case, `-` for every other character; a name that is too long
    /// keeps its last 32. Fails if the result does not begin with a letter.
    pub fn normalise(name: &str) -> Result<Self, InvalidBackendId> {
        let whole = Self::cut(name);
        if name.chars().count() <= LONGEST {
            return whole.map_err(|_| InvalidBackendId(name.to_owned()));
        }
        // `github.com/modelcontextprotocol/servers/src/filesystem`, `io.github.someone.with-a-long-name.weather`
        let parts = [name.rsplit('/').next(), name.rsplit(['/', '.', ':']).next()];
        let part = parts.into_iter().flatten().find(|part| part.chars().count() <= LONGEST);
        part.and_then(|part| Self::cut(part).ok()).map_or(whole, Ok).map_err(|_| InvalidBackendId(name.to_owned()))
    }

    fn cut(name: &str) -> Result<Self, InvalidBackendId> {
        let lowered: String = name
            .chars()
            .map(|c| c.to_ascii_lowercase())
            .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' })
            .take(LONGEST)
            .collect();
        Self::parse(&lowered)
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
        assert_eq!(name("github.com/modelcontextprotocol/servers/src/filesystem").as_deref(), Ok("filesystem"));
        assert_eq!(name("io.github.someone.with-a-long-name.weather").as_deref(), Ok("weather"));
        assert_eq!(name("2fast"), Err(InvalidBackendId("2fast".to_owned())));
        assert_eq!(name(""), Err(InvalidBackendId(String::new())));
    }

    #[test]
    fn a_chosen_user_name_never_meets_the_user_of_a_key() {
        for name in ["ann", "Ann.Smith+ci@example.com", "7", &"x".repeat(64)] {
            let user = UserId::parse(name).unwrap();
            assert!(user.as_str() == name && !user.is_of_key(), "{name}");
        }
        let own = UserId::of_key(&KeyId::new("ann"));
        assert!(own.is_of_key() && own != UserId::new("ann"));
        for name in
            [own.as_str(), "", " ann", "-ann", "ann smith", "ann\n", "j\u{fc}rgen", "(gateway)", &"x".repeat(65)]
        {
            assert_eq!(UserId::parse(name), Err(InvalidUserName(name.to_owned())), "{name}");
        }
    }

    #[test]
    fn a_session_id_is_not_shown_whole() {
        let id = SessionId::new("0123456789abcdef");
        assert_eq!(format!("{id:?}"), "SessionId(01234567…)");
    }
}
