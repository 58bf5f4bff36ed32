//! Connections through a proxy of the operator, for networks that block direct connections (`OA-47`).
//!
//! The proxy gets an address, so it connects to what was resolved and checked, even if it would resolve the name
//! differently. It gets a name only where the operator lets the proxy resolve names (`egress_proxy_resolves`). TLS is
//! end to end with the host.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{
    address::is_public,
    error::ProxyFailure,
    network::{Network, NetworkStream},
};
use crate::model::EgressProxy;

/// Maximum time to connect to the proxy: shorter than for the host, so that the failure is attributed to the proxy.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
/// Maximum size of the head of the proxy's answer, in bytes.
const MAX_HEAD: usize = 8 * 1024;

/// A network that reaches public addresses through a proxy. Other addresses, such as this machine, are reached
/// directly, where the rules of a request allow them at all.
pub struct ProxiedNetwork {
    proxy: EgressProxy,
    direct: Arc<dyn Network>,
    carries_all: bool,
}

// === impl ProxiedNetwork ===

impl ProxiedNetwork {
    /// Reaches the proxy over `direct`.
    pub fn new(proxy: EgressProxy, direct: Arc<dyn Network>) -> Self {
        Self { proxy, direct, carries_all: false }
    }

    /// The same for all addresses.
    pub fn for_all(proxy: EgressProxy, direct: Arc<dyn Network>) -> Self {
        Self { proxy, direct, carries_all: true }
    }

    /// A connection to the proxy. The operator names it, so any address will do.
    async fn connect_to_proxy(&self) -> io::Result<Box<dyn NetworkStream>> {
        let addresses = match self.proxy.host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => self.direct.resolve(&self.proxy.host).await?,
        };
        let mut failure = io::Error::other("its name has no addresses");
        for address in addresses {
            match self.direct.connect(SocketAddr::new(address, self.proxy.port)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// A connection through the proxy to `target`, an address or a name with a port.
    async fn tunnel(&self, target: &str) -> Result<Box<dyn NetworkStream>, ProxyFailure> {
        let connecting = timeout(CONNECT_TIMEOUT, self.connect_to_proxy()).await;
        let connected =
            connecting.map_err(|_| ProxyFailure::Unreachable(format!("no connection after {CONNECT_TIMEOUT:?}")))?;
        let mut stream = connected.map_err(|error| ProxyFailure::Unreachable(error.to_string()))?;
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some(authorization) = &self.proxy.authorization {
            request.extend(["Proxy-Authorization: ", authorization.expose(), "\r\n"]);
        }
        request.push_str("\r\n");
        let broken = |error: io::Error| ProxyFailure::Unreachable(error.to_string());
        stream.write_all(request.as_bytes()).await.map_err(broken)?;
        stream.flush().await.map_err(broken)?;
        match read_status(&mut *stream).await? {
            200..300 => Ok(stream),
            // it may say more, but not to strangers
            status => Err(ProxyFailure::Refused(status)),
        }
    }
}

#[async_trait]
impl Network for ProxiedNetwork {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.direct.resolve(host).await
    }

    async fn resolve_known(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.direct.resolve_known(host).await
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<Box<dyn NetworkStream>> {
        if !self.carries_all && !is_public(address.ip()) {
            return self.direct.connect(address).await;
        }
        self.tunnel(&address.to_string()).await.map_err(io::Error::other)
    }

    async fn connect_by_name(&self, host: &str, port: u16) -> io::Result<Box<dyn NetworkStream>> {
        self.tunnel(&format!("{host}:{port}")).await.map_err(io::Error::other)
    }
}

/// The status of the proxy's answer. Afterwards the stream holds only what the host sends.
async fn read_status(stream: &mut dyn NetworkStream) -> Result<u16, ProxyFailure> {
    let not_http = || ProxyFailure::NotHttp;
    let mut head = Vec::new();
    // a byte at a time, since everything after the head is the host's
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_HEAD {
            return Err(not_http());
        }
        head.push(stream.read_u8().await.map_err(|error| ProxyFailure::Unreachable(error.to_string()))?);
    }
    let head = std::str::from_utf8(&head).map_err(|_| not_http())?;
    let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).ok_or_else(not_http)?;
    let status = status.bytes().all(|byte| byte.is_ascii_digit()).then_some(status);
    status.and_then(|status| status.parse().ok()).ok_or_else(not_http)
}
