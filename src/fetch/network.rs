//! Names and connections, as a dependency. Accepts any address.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _},
    sync::Arc,
};

use async_trait::async_trait;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Semaphore,
    task::spawn_blocking,
};

/// Maximum number of look-ups at once. The system's resolver blocks a thread for as long as a name server of a stranger
/// stays silent.
const MAX_LOOKUPS: usize = 16;

/// Names and connections. Implementations: the system's, the one with a proxy, and doubles for tests.
#[async_trait]
pub trait Network: Send + Sync {
    /// The addresses of a host name.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;

    /// The addresses of a host that no stranger chose: unanswered look-ups for strangers do not delay it.
    async fn resolve_known(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.resolve(host).await
    }

    /// A connection to exactly this address.
    async fn connect(&self, address: SocketAddr) -> io::Result<Box<dyn NetworkStream>>;

    /// A connection to a host by name, which is looked up by the proxy.
    async fn connect_by_name(&self, _host: &str, _port: u16) -> io::Result<Box<dyn NetworkStream>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// False if this address is unreachable from here. Sends nothing to find out.
    fn has_route(&self, _address: SocketAddr) -> bool {
        true
    }
}

pub trait NetworkStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> NetworkStream for S {}

/// The network of the system. Ignores proxies in the environment.
pub struct SystemNetwork {
    lookups: Arc<Semaphore>,
    known_lookups: Arc<Semaphore>,
}

impl Default for SystemNetwork {
    fn default() -> Self {
        let lookups = || Arc::new(Semaphore::new(MAX_LOOKUPS));
        Self { lookups: lookups(), known_lookups: lookups() }
    }
}

#[async_trait]
impl Network for SystemNetwork {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        look_up(host, &self.lookups).await
    }

    async fn resolve_known(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        look_up(host, &self.known_lookups).await
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<Box<dyn NetworkStream>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }

    fn has_route(&self, address: SocketAddr) -> bool {
        let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        // only selects a route; nothing is sent
        std::net::UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(address)).is_ok()
    }
}

/// Asks the resolver of the system. The permit is held until the thread is free, which may be long after the caller has
/// given up.
async fn look_up(host: &str, permits: &Arc<Semaphore>) -> io::Result<Vec<IpAddr>> {
    let permit = Arc::clone(permits).acquire_owned().await.map_err(io::Error::other)?;
    let host = host.to_owned();
    let lookup = spawn_blocking(move || {
        let _permit = permit;
        (host.as_str(), 0).to_socket_addrs().map(|found| found.map(|found| found.ip()).collect())
    });
    lookup.await?
}
