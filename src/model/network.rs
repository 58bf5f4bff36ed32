//! Settings of the connections to one server, in addition to the settings for all.

use crate::support::Secret;

/// Settings of the connections to one server, in addition to the settings for all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkSpec {
    /// Certificates of authorities to trust in addition to the system's, in PEM.
    pub authorities: Option<String>,
    /// What the gateway shows to a server that asks for a certificate.
    pub identity: Option<TlsIdentity>,
    /// The way to the server; `None`: as the environment of the gateway says.
    pub proxy: Option<ProxyChoice>,
}

/// A certificate of the gateway with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsIdentity {
    /// The certificate, and those up to its authority, in PEM.
    pub certificates: String,
    /// The private key, in PEM.
    pub key: Secret,
}

/// The way to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyChoice {
    Direct,
    /// Through the HTTP proxy at this URL, which may hold a password.
    Through(Secret),
}
