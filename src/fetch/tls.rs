//! TLS toward other hosts: which authorities are trusted, and which certificate is shown. Knows nothing of connections.

use std::sync::Arc;

use rustls::{
    ClientConfig,
    crypto::aws_lc_rs,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject as _},
    },
};
use rustls_platform_verifier::Verifier;

use crate::model::NetworkSpec;

/// Failure to set up TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsSetupError {
    /// The certificates of the system cannot be read, or a key belongs to another certificate.
    #[error(transparent)]
    Unusable(#[from] rustls::Error),
    /// A certificate or a key is not PEM.
    #[error("a certificate or its key cannot be read: {0}")]
    Pem(#[from] pem::Error),
}

/// TLS that trusts the authorities of the system and those of `network`, and shows its certificate to who asks.
pub fn client_config(network: &NetworkSpec) -> Result<ClientConfig, TlsSetupError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let authorities = certificates(network.authorities.as_deref().unwrap_or_default())?;
    let verifier = Verifier::new_with_extra_roots(authorities, Arc::clone(&provider))?;
    let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let tls = tls.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(match &network.identity {
        None => tls.with_no_client_auth(),
        Some(identity) => {
            let key = PrivateKeyDer::from_pem_slice(identity.key.expose().as_bytes())?;
            tls.with_client_auth_cert(certificates(&identity.certificates)?, key)?
        }
    })
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect()
}
