//! The caller as a server may see it, and texts of the configuration that contain the caller.
//!
//! The id of a user is text from outside. A text that holds it goes into arguments, variables and headers, where some
//! characters have a meaning: those are written as `%` and two digits, so that two users never look alike.

use std::fmt::Write as _;

use super::{Caller, ClientId, SecretName, SecretValues, UserId};
use crate::support::Secret;

/// Identity of a caller that a server may see.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallerIdentity {
    pub user: UserId,
    /// The OAuth client, if servers get to see it; `None` also for an API key sent directly.
    pub client: Option<ClientId>,
}

/// A text of the configuration that contains values of the caller (`${user}`, `${secret:NAME}`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerText(Vec<TextPart>);

/// A part of a [`CallerText`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextPart {
    /// The same for every caller.
    Fixed(Secret),
    /// The id of the calling user.
    User,
    /// A secret of the calling user.
    Secret(SecretName),
}

// === impl CallerIdentity ===

impl CallerIdentity {
    /// The identity of the gateway itself, which starts servers and lists what they offer: `(gateway)`, which is never
    /// a user's name.
    pub fn gateway() -> Self {
        Self { user: Caller::gateway().user, client: None }
    }

    /// The user as a header value: visible ASCII as it is, everything else and `%` as `%` and two digits per byte.
    pub fn header_value(&self) -> String {
        escaped(self.user.as_str(), |_, byte| byte.is_ascii_graphic() && byte != b'%')
    }

    /// The user in a text: letters, digits and `. _ @ + -` as they are, but beginning with a letter or digit;
    /// everything else as `%` and two digits per byte. It is never an option, a path or a shell word.
    pub fn text_value(&self) -> String {
        escaped(self.user.as_str(), |at, byte| byte.is_ascii_alphanumeric() || at > 0 && b"._@+-".contains(&byte))
    }
}

fn escaped(text: &str, is_kept: impl Fn(usize, u8) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        if is_kept(at, byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

// === impl CallerText ===

impl CallerText {
    /// Wraps the parts.
    pub const fn new(parts: Vec<TextPart>) -> Self {
        Self(parts)
    }

    /// The same text for every caller.
    pub fn fixed(text: impl Into<String>) -> Self {
        Self(vec![TextPart::Fixed(Secret::new(text))])
    }

    /// The text for the gateway itself.
    pub fn for_gateway(&self) -> Secret {
        self.for_caller(&CallerIdentity::gateway())
    }

    /// True if it differs between callers.
    pub fn is_of_caller(&self) -> bool {
        self.0.iter().any(|part| !matches!(part, TextPart::Fixed(_)))
    }

    /// The names of the secrets in it.
    pub fn secret_names(&self) -> impl Iterator<Item = &SecretName> {
        self.0.iter().filter_map(|part| match part {
            TextPart::Secret(name) => Some(name),
            TextPart::Fixed(_) | TextPart::User => None,
        })
    }

    /// The text with this user's values in it.
    #[must_use]
    pub fn of_user(&self, user: &UserId, secrets: &SecretValues) -> Self {
        let user = CallerIdentity { user: user.clone(), client: None };
        let part = |part: &TextPart| match part {
            TextPart::User => TextPart::Fixed(Secret::new(user.text_value())),
            TextPart::Secret(name) => {
                secrets.get(name).map_or_else(|| part.clone(), |own| TextPart::Fixed(own.clone()))
            }
            TextPart::Fixed(_) => part.clone(),
        };
        Self(self.0.iter().map(part).collect())
    }

    /// The text for this caller. The name of a secret stands for its value, filled in by [`CallerText::of_user`].
    pub fn for_caller(&self, caller: &CallerIdentity) -> Secret {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                TextPart::Fixed(fixed) => text.push_str(fixed.expose()),
                TextPart::User => text.push_str(&caller.text_value()),
                TextPart::Secret(name) => text.extend(["${secret:", name.as_str(), "}"]),
            }
        }
        Secret::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(user: &str) -> CallerIdentity {
        CallerIdentity { user: UserId::new(user), client: None }
    }

    #[test]
    fn a_user_is_written_so_that_it_means_nothing_else() {
        for (user, text, header) in [
            ("ann", "ann", "ann"),
            ("Ann.Smith+ci@example.com", "Ann.Smith+ci@example.com", "Ann.Smith+ci@example.com"),
            ("key:1a", "key%3A1a", "key:1a"),
            ("(gateway)", "%28gateway%29", "(gateway)"),
            ("-rf", "%2Drf", "-rf"),
            ("../a b", "%2E.%2Fa%20b", "../a%20b"),
            ("a\r\nX: 1", "a%0D%0AX%3A%201", "a%0D%0AX:%201"),
            ("j\u{fc}", "j%C3%BC", "j%C3%BC"),
            ("a%20", "a%2520", "a%2520"),
        ] {
            assert_eq!((identity(user).text_value().as_str(), identity(user).header_value().as_str()), (text, header));
        }
    }

    #[test]
    fn a_text_holds_the_caller_where_it_is_referenced() {
        let fixed = |text: &str| TextPart::Fixed(Secret::new(text));
        let text = CallerText::new(vec![fixed("a="), TextPart::User, fixed(";"), TextPart::User]);
        assert!(text.is_of_caller() && !CallerText::new(vec![fixed("a")]).is_of_caller());
        assert_eq!(text.for_caller(&identity("ann")).expose(), "a=ann;ann");
    }

    #[test]
    fn a_text_of_a_user_differs_for_nobody_any_more() {
        let name = SecretName::parse("KEY").unwrap();
        let text = CallerText::new(vec![TextPart::User, TextPart::Secret(name.clone())]);
        assert_eq!(text.secret_names().collect::<Vec<_>>(), [&name]);
        assert_eq!(text.for_gateway().expose(), "%28gateway%29${secret:KEY}");
        let own = text.of_user(&UserId::new("ann"), &SecretValues::from([(name, Secret::new("k3y"))]));
        assert_eq!((own.for_gateway().expose(), own.is_of_caller()), ("annk3y", false));
    }
}
