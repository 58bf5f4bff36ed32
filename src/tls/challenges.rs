//! Answers to the challenges of an authority, which prove that a name is the gateway's: at port 80 a text, at port 443
//! a certificate.

use std::sync::Arc;

use parking_lot::RwLock;
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    sign::CertifiedKey,
};

use crate::{storage::ChallengeRow, support::Digest};

/// The present answers: a few while an order runs, and none otherwise.
#[derive(Debug, Default)]
pub(super) struct ChallengeAnswers(RwLock<Vec<ChallengeAnswer>>);

#[derive(Debug)]
struct ChallengeAnswer {
    row: ChallengeRow,
    certificate: Option<Arc<CertifiedKey>>,
}

impl ChallengeAnswers {
    /// Answers with these from now on.
    pub(super) fn replace(&self, rows: Vec<ChallengeRow>) {
        if self.0.read().iter().map(|answer| &answer.row).eq(&rows) {
            return;
        }
        let answers = rows.into_iter().map(|row| {
            let made = certificate(&row);
            let certificate = made.inspect_err(|error| tracing::warn!(%error, "a challenge has no certificate")).ok();
            ChallengeAnswer { row, certificate }
        });
        let answers = answers.collect();
        *self.0.write() = answers;
    }

    /// The text for this token (RFC 8555 8.3).
    pub(super) fn text(&self, token: &str) -> Option<String> {
        let answers = self.0.read();
        Some(answers.iter().find(|answer| answer.row.token == token)?.row.key_authorization.clone())
    }

    /// The certificate for this name (RFC 8737 3).
    pub(super) fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let answers = self.0.read();
        answers.iter().find(|answer| answer.row.name.eq_ignore_ascii_case(name))?.certificate.clone()
    }
}

fn certificate(row: &ChallengeRow) -> Result<Arc<CertifiedKey>, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec![row.name.clone()])?;
    let digest = Digest::sha256(&row.key_authorization);
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest.as_bytes())];
    let certificate = params.self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let key = aws_lc_rs::sign::any_supported_type(&key).map_err(|_| rcgen::Error::KeyGenerationUnavailable)?;
    Ok(Arc::new(CertifiedKey::new(vec![certificate.der().clone()], key)))
}
