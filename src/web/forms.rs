//! CSRF tokens (`OA-72`), each bound to a browser's visit and to a purpose.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::support::Random;

/// The secret of one visit, from which its CSRF tokens are derived.
///
/// No token is stored, so two tabs that load at once do not invalidate each other's. A form takes effect only once
/// because the first decision about a request counts (`OA-150`), not because its token is used up.
pub(super) struct Forms {
    secret: String,
}

/// Purpose of a form; its token is valid for nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose<'a> {
    /// One authorization request, named by the form's id or sealed request.
    Transaction(&'a str),
    /// The login page on its own.
    Login,
    Account,
    /// The connect page at this address.
    Connect(&'a str),
    /// A secret for the server of the connect page at this address.
    Secret(&'a str),
    /// The page for entering the code of a device.
    DeviceCode,
    /// The decision about the device with this code.
    Device(&'a str),
    /// The invitation with this link.
    Invitation(&'a str),
}

// === impl Forms ===

impl Forms {
    pub(super) const fn with_secret(secret: String) -> Self {
        Self { secret }
    }

    /// A token for a new form.
    pub(super) fn token(&self, purpose: Purpose<'_>, random: &dyn Random) -> String {
        let nonce = random.token();
        let mark = self.mac(purpose, &nonce).finalize().into_bytes();
        format!("{nonce}.{}", URL_SAFE_NO_PAD.encode(mark))
    }

    /// True if the token was issued in this visit for this purpose.
    pub(super) fn is_genuine(&self, purpose: Purpose<'_>, token: &str) -> bool {
        let read = || {
            let (nonce, mark) = token.split_once('.')?;
            let mark = URL_SAFE_NO_PAD.decode(mark).ok()?;
            // compared in constant time
            self.mac(purpose, nonce).verify_slice(&mark).ok()
        };
        read().is_some()
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
            Purpose::Invitation(_) => b".invitation.",
        });
        match purpose {
            Purpose::Transaction(id)
            | Purpose::Connect(id)
            | Purpose::Secret(id)
            | Purpose::Device(id)
            | Purpose::Invitation(id) => mac.update(id.as_bytes()),
            Purpose::Login | Purpose::Account | Purpose::DeviceCode => {}
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
    fn a_token_is_good_for_its_own_purpose_and_visit() {
        let random = SeededRandom::new(1);
        let (forms, others) = (Forms::with_secret("one".to_owned()), Forms::with_secret("two".to_owned()));
        let token = forms.token(Purpose::Transaction("a"), &random);
        assert!(forms.is_genuine(Purpose::Transaction("a"), &token));
        for purpose in [Purpose::Transaction("b"), Purpose::Account, Purpose::Device("a"), Purpose::Connect("a")] {
            assert!(!forms.is_genuine(purpose, &token), "{purpose:?}");
        }
        assert!(!others.is_genuine(Purpose::Transaction("a"), &token));
        for nonsense in ["", ".", "x", "x.y", &token[..60]] {
            assert!(!forms.is_genuine(Purpose::Transaction("a"), nonsense), "{nonsense}");
        }
    }
}
