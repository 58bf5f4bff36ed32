//! Heads of JWTs: those of providers, and assertions of clients. Input: a header, a line end, and claims; each is encoded
//! here. After the byte `=` the rest is a whole token as it is.
//!
//! Oracle: RFC 7515 4.1 over a tree: an object with a known algorithm that must understand nothing else.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::Algorithm;
use lockkeeper::fuzzing::{client_assertion, token_head, token_issuer};

use super::{input::Dice, tree::Tree};

const ACCEPTED: [Algorithm; 4] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA, Algorithm::PS256];

/// Checks one input.
pub fn run(data: &[u8]) {
    if let Some(token) = data.strip_prefix(b"=") {
        let Ok(token) = std::str::from_utf8(token) else { return };
        let parts: Vec<Option<Vec<u8>>> = token.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).ok()).collect();
        let part = |at: usize| parts.get(at).cloned().flatten();
        check(token, part(0).as_deref(), part(1).as_deref());
        return;
    }
    let mut dice = Dice::new(data);
    let (head, claims) = (dice.line(), dice.rest());
    let token = format!("{}.{}.c2ln", URL_SAFE_NO_PAD.encode(head), URL_SAFE_NO_PAD.encode(claims));
    check(&token, Some(head), Some(claims));
}

/// Tokens like these.
pub fn seeds() -> Vec<Vec<u8>> {
    let tokens = [
        "{\"alg\":\"RS256\",\"kid\":\"k\",\"typ\":\"JWT\"}\n{\"iss\":\"https://idp.example\",\"sub\":\"a\"}",
        "{\"alg\":\"ES256\",\"typ\":\"client-authentication+jwt\"}\n{\"iss\":\"app\",\"sub\":\"app\"}",
        "{\"alg\":\"none\"}\n{}",
        "{\"alg\":\"RS256\",\"crit\":[\"x\"]}\n{\"iss\":7}",
        "[\"RS256\",null,null,null]\n[\"a\",\"a\"]",
        "=eyJhbGciOiJFZERTQSJ9.eyJpc3MiOiJhIn0.",
    ];
    tokens.into_iter().map(|token| token.as_bytes().to_vec()).collect()
}

fn check(token: &str, head: Option<&[u8]>, claims: Option<&[u8]>) {
    let read = token_head(token, &ACCEPTED);
    let tree = |part: Option<&[u8]>| part.and_then(|part| std::str::from_utf8(part).ok()).and_then(Tree::read);
    let (header, claimed) = (tree(head), tree(claims));
    if let Some((algorithm, key, kind)) = &read {
        // a header that is too deep for a tree has nothing that is read
        if let Some(header) = &header {
            assert!(header.members().is_some(), "{token}: {header} is no object");
            assert!(header.is_unambiguous_at_top(), "{header}");
            assert_eq!(header.get("alg").and_then(Tree::text), Some(format!("{algorithm:?}").as_str()));
            assert!(header.get("crit").is_none_or(|crit| crit.to_string() == "null"), "{header}");
            assert_eq!(header.get("kid").and_then(Tree::text), key.as_deref());
            assert_eq!(header.get("typ").and_then(Tree::text), kind.as_deref());
        }
    }
    if let (Some(issuer), Some(claimed)) = (token_issuer(token), &claimed) {
        assert_eq!(claimed.get("iss").and_then(Tree::text), Some(issuer.as_str()));
    }
    if let (Ok((client, key)), Some(header), Some(claimed)) = (client_assertion(token), &header, &claimed) {
        assert!(header.members().is_some() && claimed.members().is_some(), "{header} {claimed}");
        let known = header
            .members()
            .is_some_and(|members| members.0.iter().all(|(name, _)| matches!(name.as_str(), "alg" | "kid" | "typ")));
        assert!(known, "{header}");
        assert_eq!(header.get("kid").and_then(Tree::text), key.as_deref());
        for name in ["iss", "sub"] {
            assert_eq!(claimed.get(name).and_then(Tree::text), Some(client.as_str()), "{claimed}");
        }
    }
}

impl Tree {
    /// True if no member that is read is there twice.
    fn is_unambiguous_at_top(&self) -> bool {
        let count =
            |name: &str| self.members().map_or(0, |members| members.0.iter().filter(|(held, _)| held == name).count());
        ["alg", "kid", "typ", "crit"].iter().all(|name| count(name) < 2)
    }
}
