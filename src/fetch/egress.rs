//! Detects faults of this gateway's own network, as opposed to faults of a host that a stranger chose.

use std::net::{IpAddr, SocketAddr};

use futures_util::future::join_all;
use tokio::time::timeout;
use url::Url;

use super::{
    address::{is_fake, is_public},
    error::ProxyFailure,
    fetcher::{Fetcher, LOOKUP_TIMEOUT},
};
use crate::model::EgressNames;

/// The answer of a proxy that asks for credentials (RFC 9110 15.5.8).
const PROXY_AUTHENTICATION_REQUIRED: u16 = 407;

/// Why this gateway reaches no host. The text is part of a sentence about the gateway, and reveals nothing about single
/// hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EgressFault {
    /// No name server answers.
    #[error("no name server resolves any host for it")]
    NoNameServer,
    /// The addresses of all names are special, as with a fake-IP resolver.
    #[error("its name server gives every host a special address, as fake-IP resolvers do")]
    SpecialAddresses,
    /// There is no route to public addresses.
    #[error("it has no route to other networks")]
    NoRoute,
    /// The proxy makes no connections.
    #[error("its proxy makes no connections for it")]
    Proxy,
}

// === impl Fetcher ===

impl Fetcher {
    /// The fault of this gateway's own network, as shown by names and routes. It is judged by `hosts`, which no
    /// stranger chose: their names are looked up, and nothing is sent to them.
    pub async fn own_fault(&self, hosts: &[String]) -> Option<EgressFault> {
        if hosts.is_empty() || self.names == EgressNames::ByProxy {
            return None;
        }
        let lookups = hosts.iter().map(|host| timeout(LOOKUP_TIMEOUT, self.network.resolve_known(host)));
        let found = join_all(lookups).await.into_iter().filter_map(|lookup| lookup.ok()?.ok());
        let found: Vec<Vec<IpAddr>> = found.filter(|addresses| !addresses.is_empty()).collect();
        if found.is_empty() {
            return Some(EgressFault::NoNameServer);
        }
        let is_usable = |address: &IpAddr| is_public(*address) || self.names == EgressNames::Fake && is_fake(*address);
        let mut usable = found.iter().filter(|addresses| addresses.iter().all(is_usable)).peekable();
        if usable.peek().is_none() {
            return Some(EgressFault::SpecialAddresses);
        }
        let has_route = usable.flatten().any(|address| self.network.has_route(SocketAddr::new(*address, 443)));
        (!has_route).then_some(EgressFault::NoRoute)
    }
}

/// The fault of this gateway's own network behind a failure of the proxy to connect to `url`. A refusal may be due to
/// the host, so it counts only for `hosts`, which no stranger chose.
pub fn own_proxy_fault(url: &Url, failure: &ProxyFailure, hosts: &[String]) -> Option<EgressFault> {
    let is_own = match failure {
        ProxyFailure::Unreachable(_) | ProxyFailure::NotHttp | ProxyFailure::Refused(PROXY_AUTHENTICATION_REQUIRED) => {
            true
        }
        ProxyFailure::Refused(_) => hosts.iter().any(|host| url.host_str() == Some(host.as_str())),
    };
    is_own.then_some(EgressFault::Proxy)
}
