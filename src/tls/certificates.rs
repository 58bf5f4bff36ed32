//! The certificate presented now. Connections ask for it at each handshake, so a new one needs no restart.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use super::{certificate::ServedCertificate, challenges::ChallengeAnswers};
use crate::model::ACME_TLS;

/// HTTP/2 is not offered, since admission, pace and limits count connections.
const HTTP: &[u8] = b"http/1.1";

/// The certificate, and the answers to challenges.
#[derive(Debug, Default)]
pub struct Certificates {
    served: ArcSwapOption<ServedCertificate>,
    pub(super) challenges: ChallengeAnswers,
}

/// TLS 1.2 and 1.3 with these certificates.
///
/// # Errors
///
/// If this machine provides no randomness for session tickets.
pub fn server_config(certificates: Arc<Certificates>) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = config.with_no_client_auth().with_cert_resolver(certificates);
    config.alpn_protocols = vec![HTTP.to_vec(), ACME_TLS.to_vec()];
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    Ok(config)
}

impl Certificates {
    /// The certificate presented now.
    pub fn served(&self) -> Option<Arc<ServedCertificate>> {
        self.served.load_full()
    }

    /// Presents this one from the next handshake on.
    pub(super) fn serve(&self, certificate: ServedCertificate) {
        self.served.store(Some(Arc::new(certificate)));
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if hello.alpn().is_some_and(|offered| offered.eq([ACME_TLS])) {
            return self.challenges.certificate(hello.server_name()?);
        }
        // even for an unknown name: a client that connects by address then sees which name to use
        Some(Arc::clone(&self.served.load().as_ref()?.key))
    }
}
