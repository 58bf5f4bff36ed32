//! Text form of opaque secrets: API keys, codes, refresh tokens (`OA-103`, `OA-125`).
//!
//! A base62 body of 43 characters holds 256 bits. The checksum lets scanners find leaks, and lets the gateway refuse
//! malformed input without a look-up.

use crate::{
    model::KeyId,
    support::{Random, Secret},
};

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Prefix of API keys.
pub const KEY_PREFIX: &str = "lkk_";
/// Prefix of refresh tokens.
pub const REFRESH_PREFIX: &str = "lkr_";
/// Prefix of initial access tokens.
const INITIAL_ACCESS_PREFIX: &str = "lki_";
/// Prefix of the secrets in links of invitations.
const INVITATION_PREFIX: &str = "lkv_";

const KEY_ID_LENGTH: usize = 10;

/// The length of a client id in base62: 131 bits (`OA-39`).
pub(in crate::oauth) const CLIENT_ID_LENGTH: usize = 22;
const BODY_LENGTH: usize = 43;
const CHECKSUM_LENGTH: usize = 6;

/// A well-formed API key: `lkk_<id>_<secret>_<checksum>`.
#[derive(Debug, Clone)]
pub struct KeyText {
    /// Public part, used for look-ups.
    pub id: KeyId,
    /// Its secret part.
    pub secret: Secret,
}

/// `length` random characters of base62, each equally likely.
pub fn base62(random: &dyn Random, length: usize) -> String {
    let mut text = String::with_capacity(length);
    while text.len() < length {
        // 248 is the largest multiple of 62 in a byte; larger values would bias the result
        let fair = random.bytes::<64>().into_iter().filter(|byte| *byte < 248);
        let chars = fair.map(|byte| char::from(BASE62[usize::from(byte) % 62]));
        text.extend(chars.take(length - text.len()));
    }
    text
}

/// Creates an API key: its whole text and its parts.
pub fn mint_key(random: &dyn Random) -> (Secret, KeyText) {
    let (id, secret) = (base62(random, KEY_ID_LENGTH), base62(random, BODY_LENGTH));
    let text = with_checksum(&format!("{KEY_PREFIX}{id}_{secret}"));
    (Secret::new(text), KeyText { id: KeyId::new(id), secret: Secret::new(secret) })
}

/// Parses an API key; `None` if its form or checksum is wrong.
pub fn parse_key(text: &str) -> Option<KeyText> {
    let body = without_checksum(text)?;
    let (id, secret) = body.strip_prefix(KEY_PREFIX)?.split_once('_')?;
    let fits = (8..=32).contains(&id.len()) && secret.len() == BODY_LENGTH && is_base62(id) && is_base62(secret);
    fits.then(|| KeyText { id: KeyId::new(id), secret: Secret::new(secret) })
}

/// Creates a refresh token: `lkr_<body>_<checksum>`.
pub fn mint_refresh(random: &dyn Random) -> Secret {
    mint(REFRESH_PREFIX, random)
}

/// Creates an initial access token: `lki_<body>_<checksum>`.
pub(in crate::oauth) fn mint_initial_access(random: &dyn Random) -> Secret {
    mint(INITIAL_ACCESS_PREFIX, random)
}

/// Creates the secret of an invitation's link: `lkv_<body>_<checksum>`.
pub(in crate::oauth) fn mint_invitation(random: &dyn Random) -> Secret {
    mint(INVITATION_PREFIX, random)
}

/// True if the text has the form and checksum of the secret of an invitation.
pub(in crate::oauth) fn is_invitation(text: &str) -> bool {
    is_of(INVITATION_PREFIX, text)
}

/// True if the text has the form and checksum of a refresh token.
pub fn is_refresh(text: &str) -> bool {
    is_of(REFRESH_PREFIX, text)
}

/// True if the text has the form and checksum of an initial access token.
pub(in crate::oauth) fn is_initial_access(text: &str) -> bool {
    is_of(INITIAL_ACCESS_PREFIX, text)
}

fn mint(prefix: &str, random: &dyn Random) -> Secret {
    Secret::new(with_checksum(&format!("{prefix}{}", base62(random, BODY_LENGTH))))
}

fn is_of(prefix: &str, text: &str) -> bool {
    without_checksum(text)
        .and_then(|body| body.strip_prefix(prefix))
        .is_some_and(|body| body.len() == BODY_LENGTH && is_base62(body))
}

fn with_checksum(body: &str) -> String {
    format!("{body}_{}", checksum(body))
}

fn without_checksum(text: &str) -> Option<&str> {
    let (body, given) = text.rsplit_once('_')?;
    (given == checksum(body)).then_some(body)
}

/// The CRC32 in base62, most significant character first.
fn checksum(body: &str) -> String {
    let mut rest = crc32fast::hash(body.as_bytes()) as usize;
    let mut digits = [b'0'; CHECKSUM_LENGTH];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[rest % 62];
        rest /= 62;
    }
    digits.map(char::from).iter().collect()
}

fn is_base62(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::SeededRandom;

    #[test]
    fn a_key_parses_and_a_changed_key_does_not() {
        let (text, made) = mint_key(&SeededRandom::new(1));
        let read = parse_key(text.expose()).unwrap();
        assert_eq!((read.id, read.secret.expose()), (made.id, made.secret.expose()));
        assert_eq!(text.expose().len(), 4 + KEY_ID_LENGTH + 1 + 43 + 1 + 6);
        for at in 0..text.expose().len() {
            let mut bytes = text.expose().as_bytes().to_vec();
            bytes[at] = if bytes[at] == b'x' { b'y' } else { b'x' };
            assert!(parse_key(str::from_utf8(&bytes).unwrap()).is_none(), "changed at {at}");
        }
        for wrong in ["", "lkk_", "lkk_a_b_c", &text.expose()[..60]] {
            assert!(parse_key(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_refresh_token_is_not_a_key_and_a_key_is_not_a_refresh_token() {
        let refresh = mint_refresh(&SeededRandom::new(2));
        assert!(is_refresh(refresh.expose()));
        assert!(parse_key(refresh.expose()).is_none());
        let (key, _) = mint_key(&SeededRandom::new(3));
        assert!(!is_refresh(key.expose()));
    }
}
