//! The configured servers where each user logs in.

use std::collections::BTreeMap;

use parking_lot::RwLock;
use tokio::sync::watch;
use url::Url;

use super::context::UpstreamContext;
use crate::{
    model::{BackendId, BackendSpec, HttpSpec, OAuthClientSpec, ServerAuth},
    oauth_client::{LoginError, LoginTransport, OAuthHttp, ResourceServer, fits},
    storage::UpstreamTokenRow,
    support::Digest,
};

pub(super) struct ProtectedServers {
    servers: RwLock<BTreeMap<BackendId, ProtectedServer>>,
    generation: watch::Sender<u64>,
}

/// A server where each user logs in.
#[derive(Debug, Clone)]
pub(super) struct ProtectedServer {
    pub(super) url: Url,
    /// Digest of its address.
    pub(super) digest: Digest,
    transport: HttpSpec,
    /// The gateway as its client.
    pub(super) client: OAuthClientSpec,
    /// The reason why no login works there, as configured.
    pub(super) fault: Option<&'static str>,
}

// === impl ProtectedServers ===

impl ProtectedServers {
    pub(super) fn new(specs: &[BackendSpec]) -> Self {
        Self { servers: RwLock::new(protected(specs)), generation: watch::Sender::new(0) }
    }

    pub(super) fn replace(&self, specs: &[BackendSpec]) {
        *self.servers.write() = protected(specs);
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// Notifies of replacements, the first time at once.
    pub(super) fn generations(&self) -> watch::Receiver<u64> {
        let mut generations = self.generation.subscribe();
        generations.mark_changed();
        generations
    }

    pub(super) fn find(&self, backend: &BackendId) -> Option<ProtectedServer> {
        self.servers.read().get(backend).cloned()
    }

    /// The names of all servers, with the digests of their addresses.
    pub(super) fn all(&self) -> Vec<(BackendId, Digest)> {
        self.servers.read().iter().map(|(id, server)| (id.clone(), server.digest)).collect()
    }
}

// === impl ProtectedServer ===

impl ProtectedServer {
    /// The HTTP client for requests to the server and to URLs that it names.
    pub(super) fn http(&self, context: &UpstreamContext) -> Result<OAuthHttp, LoginError> {
        let HttpSpec { url, headers, network, .. } = &self.transport;
        let issuer = self.client.settings.issuer.as_deref();
        let transport = LoginTransport { server: url, issuer, headers, network: network.as_deref() };
        context.http(url, self.client.network).of_server(transport)
    }

    /// True if stored tokens are for the server as it is configured now.
    pub(super) fn takes(&self, row: &UpstreamTokenRow) -> bool {
        row.server == self.digest && fits(self.target(), &row.issuer, row.resource.as_deref())
    }

    /// The URL and the settings, for discovery.
    pub(super) const fn target(&self) -> ResourceServer<'_> {
        ResourceServer { url: &self.url, settings: &self.client.settings }
    }

    /// The server of this configuration; `None` if users do not log in there.
    pub(super) fn of(spec: &BackendSpec) -> Option<Self> {
        match &spec.auth {
            ServerAuth::User(client) => Self::with(spec, client),
            ServerAuth::None | ServerAuth::Gateway(_) => None,
        }
    }

    /// The server of this configuration, with the gateway as this client.
    pub(super) fn with(spec: &BackendSpec, client: &OAuthClientSpec) -> Option<Self> {
        let http = spec.transport.http()?;
        let digest = spec.transport.server()?;
        let (transport, client) = (http.clone(), client.clone());
        Some(Self { url: http.url.clone(), digest, transport, client, fault: spec.auth.fault() })
    }
}

fn protected(specs: &[BackendSpec]) -> BTreeMap<BackendId, ProtectedServer> {
    specs.iter().filter_map(|spec| Some((spec.id.clone(), ProtectedServer::of(spec)?))).collect()
}
