//! Settings of the authorization server.

use std::path::PathBuf;

use super::backend_names::BackendNames;
use crate::{
    fetch::{Exception, Fetcher, Ports, Reach},
    model::{AssertionVerifier, AuthPolicy, DocumentTrust, GrantType},
    support::{Live, Secret},
};

/// Settings of the authorization server.
#[derive(Debug, Clone)]
pub struct OAuthSettings {
    /// The public URL without a trailing slash: the issuer, and the base of every other URL (`OA-137`).
    pub issuer: String,
    /// Policy.
    pub policy: Live<AuthPolicy>,
    /// Existing backends and groups.
    pub backends: BackendNames,
    /// Source of the master key.
    pub master_key: MasterKeySource,
    /// True if private networks are trusted to claim any client address. Then keys cannot be bound to networks.
    pub private_proxies: bool,
    /// Makes requests to URLs that clients name; `None` if the gateway cannot make any.
    pub fetcher: Option<Fetcher>,
    /// Hosts of well-known clients' documents. If none can be reached, the gateway's own network is at fault
    /// (`OA-149`).
    pub document_hosts: Vec<String>,
    /// Verifies identity assertions; `None` if no provider's assertions are accepted (`OA-145`).
    pub assertions: Option<AssertionVerifier>,
    /// The operating system's user who runs a command; `None` for the gateway itself.
    pub operator: Option<String>,
}

/// Source of the 256-bit key that encrypts secrets in the database.
#[derive(Debug, Clone)]
pub enum MasterKeySource {
    /// A file next to the database; created with mode 0600 if missing.
    File(PathBuf),
    /// A file provided by the operator; only read.
    Named(PathBuf),
    /// Configured: 32 bytes in base64url without padding.
    Given(Secret),
    /// A new key at each start, for databases in memory.
    Ephemeral,
}

impl OAuthSettings {
    /// True if metadata documents may describe clients (`OA-11`).
    pub fn reads_client_documents(&self) -> bool {
        self.fetcher.is_some() && self.policy.get().client_documents.trust != DocumentTrust::Off
    }

    /// The offered grant types.
    pub(super) fn grant_types(&self) -> impl Iterator<Item = GrantType> {
        GrantType::ALL.into_iter().filter(|offered| *offered != GrantType::JwtBearer || self.assertions.is_some())
    }

    /// The allowed destinations for URLs that clients name: public addresses, and also this machine while the gateway
    /// itself can be reached only from there (`OA-47`).
    pub(super) fn reach(&self) -> Reach {
        let is_local = url::Url::parse(&self.issuer).is_ok_and(|issuer| issuer.scheme() == "http");
        Reach { ports: Ports::Https, exceptions: is_local.then_some(Exception::Loopback).into_iter().collect() }
    }

    /// Settings of the gateway at `issuer`, with the default policy; a trailing slash is removed.
    pub fn new(issuer: impl Into<String>) -> Self {
        let mut issuer = issuer.into();
        issuer.truncate(issuer.trim_end_matches('/').len());
        Self {
            issuer,
            policy: Live::default(),
            backends: BackendNames::default(),
            master_key: MasterKeySource::Ephemeral,
            private_proxies: false,
            fetcher: None,
            document_hosts: Vec::new(),
            assertions: None,
            operator: None,
        }
    }
}
