//! A new signing key, and the private key of a stored one. Private keys are stored encrypted under the master key, each
//! bound to its id.

use aws_lc_rs::{
    encoding::AsBigEndian as _,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use crate::{
    oauth::error::OAuthError,
    storage::SigningKeyRow,
    support::{Digest, Random, SealingKey, Timestamp},
};

/// Generates a key pair. It is the only value that does not come from the given randomness, because the library
/// generates it.
pub(super) fn generate(
    master: &SealingKey,
    random: &dyn Random,
    signs_from: Timestamp,
) -> Result<SigningKeyRow, OAuthError> {
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).map_err(|_| OAuthError::SigningKey)?;
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref()).map_err(|_| OAuthError::SigningKey)?;
    let point: aws_lc_rs::encoding::EcPublicKeyUncompressedBin<'_> =
        pair.public_key().as_be_bytes().map_err(|_| OAuthError::SigningKey)?;
    // SEC 1 2.3.3: 0x04, then both coordinates, 32 bytes each
    let coordinates = point.as_ref().get(1..65).ok_or(OAuthError::SigningKey)?;
    let (x, y) = (URL_SAFE_NO_PAD.encode(&coordinates[..32]), URL_SAFE_NO_PAD.encode(&coordinates[32..]));
    // RFC 7638 3.2: only the required members, in lexicographic order, without spaces
    let kid = Digest::sha256(format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#)).to_base64url();
    let sealed = master.seal(pkcs8.as_ref(), sealing_context(&kid).as_bytes(), random)?;
    Ok(SigningKeyRow { kid, x, y, sealed, signs_from, withdrawn: None })
}

/// The private key of a row, as PKCS #8.
pub(super) fn open(row: &SigningKeyRow, master: &SealingKey) -> Result<Zeroizing<Vec<u8>>, OAuthError> {
    Ok(master.open(&row.sealed, sealing_context(&row.kid).as_bytes())?)
}

/// The context for sealing the private part of this key.
pub fn sealing_context(kid: &str) -> String {
    format!("signing-key|{kid}")
}
