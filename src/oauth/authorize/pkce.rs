//! PKCE (RFC 7636), S256 only.

use subtle::ConstantTimeEq as _;

use crate::support::Digest;

/// A code challenge made with S256: 43 to 128 unreserved characters (`OA-64`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeChallenge(String);

impl CodeChallenge {
    /// Parses a `code_challenge`; `None` if its length or a character is wrong.
    pub fn parse(text: &str) -> Option<Self> {
        is_well_formed(text).then(|| Self(text.to_owned()))
    }

    /// The text of the challenge.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if `verifier` matches the challenge, in constant time.
    pub fn is_met_by(&self, verifier: &str) -> bool {
        let made = Digest::sha256(verifier).to_base64url();
        is_well_formed(verifier) && bool::from(made.as_bytes().ct_eq(self.0.as_bytes()))
    }
}

fn is_well_formed(text: &str) -> bool {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    (43..=128).contains(&text.len()) && text.bytes().all(unreserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_example_is_met() {
        // RFC 7636, appendix B
        let challenge = CodeChallenge::parse("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM").unwrap();
        assert!(challenge.is_met_by("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"));
        assert!(!challenge.is_met_by("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXl"));
    }

    #[test]
    fn n_054_a_challenge_of_wrong_form_is_refused() {
        // N-54
        for wrong in ["a".repeat(42), "a".repeat(129), "a".repeat(42) + "="] {
            assert_eq!(CodeChallenge::parse(&wrong), None, "{wrong}");
        }
    }
}
