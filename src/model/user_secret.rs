//! Secrets that each user enters for servers, as a configuration names them (`${secret:NAME}`).

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::support::Secret;

/// Maximum length of a name.
const MAX_NAME: usize = 64;
/// Maximum length of a value, in bytes.
pub const MAX_USER_SECRET: usize = 4_096;

/// The name of a secret that each user enters: 1 to 64 of letters, digits, `_`, `-` and `.`. Every server that names it
/// gets the same secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(Arc<str>);

/// The values of one user.
pub type SecretValues = BTreeMap<SecretName, Secret>;

/// The text is not the name of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name of a secret has 1 to 64 of a-z, A-Z, 0-9, `_`, `-` and `.`")]
pub struct InvalidSecretName;

/// The text cannot be a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUserSecret {
    /// Nothing is left after trimming.
    #[error("nothing was entered")]
    Empty,
    /// It is longer than [`MAX_USER_SECRET`].
    #[error("it is longer than 4 KiB")]
    TooLong,
    /// It would have another meaning in a header or a variable.
    #[error("it has a control character, such as a line end")]
    Control,
}

/// The trimmed value that a person entered.
///
/// # Errors
///
/// [`InvalidUserSecret`].
pub fn user_secret(entered: &str) -> Result<Secret, InvalidUserSecret> {
    let value = entered.trim();
    if value.is_empty() {
        return Err(InvalidUserSecret::Empty);
    }
    if value.len() > MAX_USER_SECRET {
        return Err(InvalidUserSecret::TooLong);
    }
    if value.chars().any(char::is_control) {
        return Err(InvalidUserSecret::Control);
    }
    Ok(Secret::new(value))
}

// === impl SecretName ===

impl SecretName {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`InvalidSecretName`].
    pub fn parse(text: &str) -> Result<Self, InvalidSecretName> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if text.is_empty() || text.len() > MAX_NAME || !text.chars().all(fits) {
            return Err(InvalidSecretName);
        }
        Ok(Self(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_letters_digits_and_three_signs() {
        for name in ["GITHUB_TOKEN", "a", "api-key.v2", &"x".repeat(64)] {
            assert_eq!(SecretName::parse(name).unwrap().as_str(), name);
        }
        for name in ["", "a b", "a|b", "a:b", "\u{e4}", &"x".repeat(65)] {
            assert_eq!(SecretName::parse(name), Err(InvalidSecretName), "{name}");
        }
    }

    #[test]
    fn a_value_is_one_line_without_the_spaces_around_it() {
        assert_eq!(user_secret("  ghp_1 2\u{fc}\n").unwrap().expose(), "ghp_1 2\u{fc}");
        let long = "x".repeat(MAX_USER_SECRET + 1);
        for (entered, wrong) in [
            (" \r\n", InvalidUserSecret::Empty),
            (long.as_str(), InvalidUserSecret::TooLong),
            ("a\nb", InvalidUserSecret::Control),
            ("a\0b", InvalidUserSecret::Control),
        ] {
            assert_eq!(user_secret(entered).unwrap_err(), wrong);
        }
    }
}
