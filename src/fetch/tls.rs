//! TLS toward other hosts: which authorities are trusted, and which certificate is shown. Knows nothing of connections.

use std::sync::Arc;

use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName, UnixTime,
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

/// Checks of certificates on a machine without authorities: programs and plain HTTP need none, so each is refused only when
/// it is shown.
#[derive(Debug)]
struct NoAuthorities(Arc<CryptoProvider>);

/// TLS that trusts the authorities of the system and those of `network`, and shows its certificate to who asks.
pub fn client_config(network: &NetworkSpec) -> Result<ClientConfig, TlsSetupError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let authorities = certificates(network.authorities.as_deref().unwrap_or_default())?;
    let verifier: Arc<dyn ServerCertVerifier> = match Verifier::new_with_extra_roots(authorities, Arc::clone(&provider))
    {
        Ok(verifier) => Arc::new(verifier),
        // the only error of this kind
        Err(rustls::Error::General(_)) => Arc::new(NoAuthorities(Arc::clone(&provider))),
        Err(error) => return Err(error.into()),
    };
    let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let tls = tls.dangerous().with_custom_certificate_verifier(verifier);
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

// === impl NoAuthorities ===

impl NoAuthorities {
    fn refuse<T>() -> Result<T, rustls::Error> {
        let advice = "install `ca-certificates`, or name a file of them in SSL_CERT_FILE";
        Err(rustls::Error::General(format!("this machine has no certificates of authorities: {advice}")))
    }
}

impl ServerCertVerifier for NoAuthorities {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Self::refuse()
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Self::refuse()
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Self::refuse()
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
