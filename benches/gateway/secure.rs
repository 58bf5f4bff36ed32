//! TLS: the bench's own certificates, clients that trust one, and the fast backend behind HTTPS, with HTTP/2 for
//! clients that offer it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Result;
use axum::Router;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer},
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::peers::{Era, router};

/// A certificate for this machine, as files for servers.
pub(crate) struct Certificate {
    pub(crate) pem: PathBuf,
    pub(crate) key: PathBuf,
    der: CertificateDer<'static>,
}

/// Serves the older version on a loopback port until it is killed; first writes the certificate to this file.
pub(crate) async fn serve(port: u16, certificate: &Path) -> Result<()> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    fs::write(certificate, pem("CERTIFICATE", made.cert.der()))?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions()?.with_no_client_auth();
    let mut config = config.with_single_cert(vec![made.cert.der().clone()], key.into())?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));

    let app = router(Era::Legacy);
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        connections.spawn(connection(acceptor.clone(), stream, app.clone()));
    }
}

async fn connection(acceptor: TlsAcceptor, stream: TcpStream, app: Router) {
    // Best effort: without it, small messages wait for each other.
    let _ = stream.set_nodelay(true);
    // A client that went away or does not trust it ends here.
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = TowerToHyperService::new(app);
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

// === impl Certificate ===

impl Certificate {
    /// Creates one, with its files in this folder.
    pub(crate) fn make(folder: &Path) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let der = made.cert.der().clone();
        let (file, key) = (folder.join("tls.pem"), folder.join("tls.key"));
        fs::write(&file, pem("CERTIFICATE", &der))?;
        fs::write(&key, pem("PRIVATE KEY", &made.signing_key.serialize_der()))?;
        Ok(Self { pem: file, key, der })
    }

    /// A client that trusts it and uses HTTP/1.1.
    pub(crate) fn trusting(&self) -> Result<TlsConnector> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone())?;
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let config = config.with_safe_default_protocol_versions()?.with_root_certificates(roots);
        Ok(TlsConnector::from(Arc::new(config.with_no_client_auth())))
    }
}
