//! TLS toward other hosts: the trusted authorities, and the certificate to present.

use std::{io, sync::Arc};

use parking_lot::Mutex;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName, UnixTime,
        pem::{self, PemObject as _},
    },
};
use rustls_platform_verifier::Verifier;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::{model::NetworkSpec, support::Timestamp};

/// Failure to set up TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsSetupError {
    /// A certificate of an authority cannot be read, or a key belongs to another certificate.
    #[error(transparent)]
    Unusable(#[from] rustls::Error),
    /// A certificate or a key is not PEM.
    #[error("a certificate or its key cannot be read: {0}")]
    Pem(#[from] pem::Error),
}

/// The system's authorities and further certificates: each is an authority, and also a pin if a server presents it
/// itself. The system's, some hundred files, are read when the first certificate is checked: programs and plain HTTP do
/// not need them, and a gateway starts without them.
#[derive(Debug)]
struct Authorities {
    further: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
    verifier: Mutex<Option<Arc<Verifier>>>,
}

/// The end of the certificate that a server presents for a trusted name. No proxy is used.
///
/// # Errors
///
/// If there is no connection, or the certificate is refused.
pub async fn certificate_end(host: &str, port: u16) -> io::Result<Timestamp> {
    let config = client_config(&NetworkSpec::default()).map_err(io::Error::other)?;
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let stream = TcpStream::connect((host, port)).await?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    shown.and_then(end).ok_or_else(|| io::Error::other("it shows no certificate that can be read"))
}

/// TLS that trusts the system's authorities and those in `network`, and presents its certificate on request.
pub fn client_config(network: &NetworkSpec) -> Result<ClientConfig, TlsSetupError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let further = certificates(network.authorities.as_deref().unwrap_or_default())?;
    let verifier = Arc::new(Authorities::new(further, Arc::clone(&provider))?);
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

/// The time until which a certificate is valid; `None` if it cannot be read.
fn end(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(Timestamp::from_seconds(certificate.validity().not_after.timestamp()))
}

// === impl Authorities ===

impl Authorities {
    /// # Errors
    ///
    /// If one of the further authorities is unreadable.
    fn new(further: Vec<CertificateDer<'static>>, provider: Arc<CryptoProvider>) -> Result<Self, rustls::Error> {
        let mut readable = RootCertStore::empty();
        further.iter().try_for_each(|authority| readable.add(authority.clone()))?;
        Ok(Self { further, provider, verifier: Mutex::default() })
    }

    /// # Errors
    ///
    /// If there are no authorities: the certificate is refused, and they are searched again for the next one.
    fn verifier(&self) -> Result<Arc<Verifier>, rustls::Error> {
        let mut loaded = self.verifier.lock();
        if let Some(verifier) = &*loaded {
            return Ok(Arc::clone(verifier));
        }
        let verifier = Verifier::new_with_extra_roots(self.further.iter().cloned(), Arc::clone(&self.provider));
        let verifier = verifier.map_err(|error| match error {
            // the only error of this kind
            rustls::Error::General(_) => {
                let advice = "install `ca-certificates`, or name a file of them in SSL_CERT_FILE";
                rustls::Error::General(format!("this machine has no certificates of authorities: {advice}"))
            }
            error => error,
        })?;
        Ok(Arc::clone(loaded.insert(Arc::new(verifier))))
    }
}

impl ServerCertVerifier for Authorities {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if !self.further.iter().any(|pinned| pinned == end_entity) {
            let verifier = self.verifier()?;
            return verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        }
        // a pin: the signature proves that the server has its key, and nothing else counts
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if end(end_entity).is_some_and(|end| end.as_seconds() < now) {
            tracing::warn!(server = %server_name.to_str(), "the certificate in the file of authorities, which the server shows, has expired");
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;

    /// A certificate that nobody else signed, as `openssl req -x509` makes it.
    fn own_certificate() -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn is_trusted(further: &CertificateDer<'static>, shown: &CertificateDer<'_>, name: &'static str, at: u64) -> bool {
        let authorities = Authorities::new(vec![further.clone()], Arc::new(aws_lc_rs::default_provider())).unwrap();
        let (name, now) = (ServerName::try_from(name).unwrap(), UnixTime::since_unix_epoch(Duration::from_secs(at)));
        authorities.verify_server_cert(shown, &[], &name, &[], now).is_ok()
    }

    #[test]
    fn a_certificate_of_the_file_that_a_server_shows_itself_is_a_pin() {
        const NOW: u64 = 1_800_000_000;
        let (pinned, other) = (own_certificate(), own_certificate());
        assert!(is_trusted(&pinned, &pinned, "a.example", NOW));
        // neither name nor time counts
        assert!(is_trusted(&pinned, &pinned, "b.example", NOW));
        assert!(is_trusted(&pinned, &pinned, "a.example", 100_000_000_000));
        // the same names, and another key
        assert!(!is_trusted(&pinned, &other, "a.example", NOW));
    }
}
