//! Settings of the connections to one server, in addition to the settings for all.

use crate::support::Secret;

/// Settings of the connections to one server, in addition to the settings for all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkSpec {
    /// Certificates of authorities to trust in addition to the system's, in PEM.
    pub authorities: Option<String>,
    /// The certificate presented to a server that asks for one.
    pub identity: Option<TlsIdentity>,
    /// Proxy to the server; `None`: according to the gateway's environment.
    pub proxy: Option<ProxyChoice>,
}

/// A certificate of the gateway with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsIdentity {
    /// The certificate, with the certificates up to its authority, in PEM.
    pub certificates: String,
    /// The private key, in PEM.
    pub key: Secret,
}

/// Proxy to a server, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyChoice {
    Direct,
    /// Through the HTTP proxy at this URL, which may hold a password.
    Through(Secret),
}
