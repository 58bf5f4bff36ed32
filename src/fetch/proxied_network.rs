//! Connections through a proxy of the operator, for networks that let nothing else out (`OA-47`). Knows nothing of which
//! addresses are allowed.
//!
//! The proxy is asked for an address, never for a name: what was resolved and checked is what is connected to, whatever the
//! proxy would find under the name. TLS goes through to the host.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    address::is_public,
    network::{Network, NetworkStream},
};
use crate::model::EgressProxy;

/// Maximum size of the head of the proxy's answer, in bytes.
const MAX_HEAD: usize = 8 * 1024;

/// A network in which public addresses are reached through a proxy. Others, such as this machine, are reached directly,
/// where the rules of a request allow them at all.
pub struct ProxiedNetwork {
    proxy: EgressProxy,
    direct: Arc<dyn Network>,
}

// === impl ProxiedNetwork ===

impl ProxiedNetwork {
    /// Reaches the proxy over `direct`.
    pub fn new(proxy: EgressProxy, direct: Arc<dyn Network>) -> Self {
        Self { proxy, direct }
    }

    /// A connection to the proxy. The operator names it, so any address will do.
    async fn connect_to_proxy(&self) -> io::Result<Box<dyn NetworkStream>> {
        let addresses = match self.proxy.host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => self.direct.resolve(&self.proxy.host).await?,
        };
        let mut failure = io::Error::other("the name of the proxy has no addresses");
        for address in addresses {
            match self.direct.connect(SocketAddr::new(address, self.proxy.port)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            }
        }
        Err(io::Error::other(format!("the proxy cannot be reached ({failure})")))
    }
}

#[async_trait]
impl Network for ProxiedNetwork {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.direct.resolve(host).await
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<Box<dyn NetworkStream>> {
        if !is_public(address.ip()) {
            return self.direct.connect(address).await;
        }
        let mut stream = self.connect_to_proxy().await?;
        let mut request = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n");
        if let Some(authorization) = &self.proxy.authorization {
            request.extend(["Proxy-Authorization: ", authorization.expose(), "\r\n"]);
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let status = read_status(&mut *stream).await?;
        // it may say more, but not to strangers
        if status.starts_with('2') { Ok(stream) } else { Err(io::Error::other(format!("the proxy answered {status}"))) }
    }
}

/// The status of the proxy's answer, of which nothing is left in the stream but what the host sends.
async fn read_status(stream: &mut dyn NetworkStream) -> io::Result<String> {
    let not_http = || io::Error::other("the proxy did not answer in HTTP");
    let mut head = Vec::new();
    // a byte at a time: what follows the head is the host's
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_HEAD {
            return Err(not_http());
        }
        head.push(stream.read_u8().await?);
    }
    let head = std::str::from_utf8(&head).map_err(|_| not_http())?;
    let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).ok_or_else(not_http)?;
    if status.bytes().all(|byte| byte.is_ascii_digit()) { Ok(status.to_owned()) } else { Err(not_http()) }
}
