//! TLS toward clients, as configured: names, and where their certificate comes from.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use super::NetworkSpec;
use crate::support::Secret;

/// The protocol of authorities checking a challenge: such a connection gets a certificate and carries no HTTP (RFC 8737
/// 4).
pub const ACME_TLS: &[u8] = b"acme-tls/1";

/// TLS toward clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSpec {
    /// The names of the gateway, the public URL's first, in lower case and in their DNS form. Without names the
    /// certificate is in files.
    pub names: Vec<String>,
    /// The origin of the certificate.
    pub source: CertificateSource,
    /// The address of the listener without TLS, which answers challenges and redirects people; `None` without one.
    pub plain_listen: Option<SocketAddr>,
}

/// The origin of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// Two files, renewed by someone else.
    Files(CertificateFiles),
    /// An authority that speaks ACME (RFC 8555).
    Authority(AuthoritySpec),
}

/// The files of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and those up to its authority, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}

/// An authority that issues certificates by ACME.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthoritySpec {
    /// The URL of its directory.
    pub directory: String,
    /// The address it writes to.
    pub email: Option<String>,
    /// The authorities that sign *its* certificate, in addition to the system's.
    pub network: Arc<NetworkSpec>,
    /// The operator's account at the authority that the gateway's account belongs to.
    pub external_account: Option<ExternalAccount>,
    /// The allowed challenges, the preferred one first; not empty.
    pub challenges: Vec<AcmeChallenge>,
}

/// An account that already exists at an authority (RFC 8555 7.3.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// Its id.
    pub id: String,
    /// Its key, as base64url.
    pub key: Secret,
}

/// How an authority checks that a name is the gateway's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// By a file at port 80 (RFC 8555 8.3).
    Http01,
    /// By a certificate at port 443 (RFC 8737).
    TlsAlpn01,
}

// === impl TlsSpec ===

impl TlsSpec {
    /// Text that distinguishes the certificate from those of other settings: its authority and its names.
    pub fn place(&self, directory: &str) -> String {
        format!("{directory} {}", self.names.join(" "))
    }
}
