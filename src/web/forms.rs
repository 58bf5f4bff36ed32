//! CSRF tokens (`OA-72`): bound to the browser session and to a purpose. Knows nothing of HTTP.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::support::Random;

/// Number of spent tokens kept; after it, the secret changes, and every open form becomes invalid.
const SPENT: usize = 64;

/// CSRF state of one browser session: a secret, and the spent tokens.
///
/// Tokens are derived and not stored, so that two tabs that load at once do not lose each other's.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Forms {
    secret: String,
    spent: Vec<String>,
}

/// Purpose of a form; its token is valid for nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose<'a> {
    /// One authorization request, named by the form's id or sealed request.
    Transaction(&'a str),
    /// The login page on its own.
    Login,
    /// The account page.
    Account,
    /// The connect page at this address.
    Connect(&'a str),
    /// A secret for the server of the connect page at this address.
    Secret(&'a str),
    /// The page on which the code of a device is entered.
    DeviceCode,
    /// The decision about the device with this code.
    Device(&'a str),
}

// === impl Forms ===

impl Forms {
    /// A new secret: tokens of earlier forms become invalid.
    pub(super) fn mint(random: &dyn Random) -> Self {
        Self::with_secret(random.token())
    }

    /// State with this secret.
    pub(super) const fn with_secret(secret: String) -> Self {
        Self { secret, spent: Vec::new() }
    }

    /// A token for a new form.
    pub(super) fn token(&self, purpose: Purpose<'_>, random: &dyn Random) -> String {
        let nonce = random.token();
        let mark = self.mac(purpose, &nonce).finalize().into_bytes();
        format!("{nonce}.{}", URL_SAFE_NO_PAD.encode(mark))
    }

    /// True if this state issued the token for this purpose, spent or not.
    pub(super) fn is_genuine(&self, purpose: Purpose<'_>, token: &str) -> bool {
        self.nonce(purpose, token).is_some()
    }

    /// Spends a token; returns false if it is forged, for another purpose, or already spent.
    pub(super) fn spend(&mut self, purpose: Purpose<'_>, token: &str, random: &dyn Random) -> bool {
        let Some(nonce) = self.nonce(purpose, token) else { return false };
        if self.spent.iter().any(|spent| spent == nonce) {
            return false;
        }
        if self.spent.len() >= SPENT {
            *self = Self::mint(random);
        } else {
            self.spent.push(nonce.to_owned());
        }
        true
    }

    /// The nonce of a token, if the token is genuine.
    fn nonce<'a>(&self, purpose: Purpose<'_>, token: &'a str) -> Option<&'a str> {
        let (nonce, mark) = token.split_once('.')?;
        let mark = URL_SAFE_NO_PAD.decode(mark).ok()?;
        // compared in constant time
        self.mac(purpose, nonce).verify_slice(&mark).ok().map(|()| nonce)
    }

    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    fn mac(&self, purpose: Purpose<'_>, nonce: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.as_bytes()).expect("a key of any length");
        mac.update(nonce.as_bytes());
        mac.update(match purpose {
            Purpose::Transaction(_) => b".transaction.",
            Purpose::Login => b".login",
            Purpose::Account => b".account",
            Purpose::Connect(_) => b".connect.",
            Purpose::Secret(_) => b".secret.",
            Purpose::DeviceCode => b".device-code",
            Purpose::Device(_) => b".device.",
        });
        if let Purpose::Transaction(id) | Purpose::Connect(id) | Purpose::Secret(id) | Purpose::Device(id) = purpose {
            mac.update(id.as_bytes());
        }
        mac
    }
}

impl fmt::Debug for Forms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Forms(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::SeededRandom;

    #[test]
    fn a_token_works_once_for_its_own_purpose_and_session() {
        let random = SeededRandom::new(1);
        let (mut forms, mut others) = (Forms::mint(&random), Forms::mint(&random));
        let token = forms.token(Purpose::Transaction("a"), &random);
        assert!(!forms.spend(Purpose::Transaction("b"), &token, &random));
        assert!(!forms.spend(Purpose::Account, &token, &random));
        assert!(!others.spend(Purpose::Transaction("a"), &token, &random));
        assert!(!others.is_genuine(Purpose::Transaction("a"), &token));
        assert!(forms.spend(Purpose::Transaction("a"), &token, &random));
        assert!(!forms.spend(Purpose::Transaction("a"), &token, &random));
        assert!(forms.is_genuine(Purpose::Transaction("a"), &token), "spent, but genuine");
        for nonsense in ["", ".", "x", "x.y", &token[..60]] {
            assert!(!forms.spend(Purpose::Transaction("a"), nonsense, &random), "{nonsense}");
        }
    }

    #[test]
    fn a_session_remembers_a_bounded_number_of_tokens() {
        let random = SeededRandom::new(2);
        let mut forms = Forms::mint(&random);
        let early = forms.token(Purpose::Login, &random);
        for _ in 0..=SPENT {
            let token = forms.token(Purpose::Login, &random);
            assert!(forms.spend(Purpose::Login, &token, &random));
        }
        assert!(forms.spent.len() <= SPENT);
        assert!(!forms.spend(Purpose::Login, &early, &random), "a form of the old secret is void");
    }
}
