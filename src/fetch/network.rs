//! Names and connections, as a dependency. Knows nothing of which addresses are allowed, and of TLS.

use std::{
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
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

/// Names and connections. Implementations: the system's, the one with a proxy, and the doubles of tests.
#[async_trait]
pub trait Network: Send + Sync {
    /// The addresses of a host name.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;

    /// A connection to this very address.
    async fn connect(&self, address: SocketAddr) -> io::Result<Box<dyn NetworkStream>>;
}

/// A connection.
pub trait NetworkStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> NetworkStream for S {}

/// The network of the system. It reads no proxies from the environment.
pub struct SystemNetwork {
    lookups: Arc<Semaphore>,
}

impl Default for SystemNetwork {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }
}

#[async_trait]
impl Network for SystemNetwork {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let permit = Arc::clone(&self.lookups).acquire_owned().await.map_err(io::Error::other)?;
        let host = host.to_owned();
        // the permit is held until the thread is free, which may be long after the caller has given up
        let lookup = spawn_blocking(move || {
            let _permit = permit;
            (host.as_str(), 0).to_socket_addrs().map(|found| found.map(|found| found.ip()).collect())
        });
        lookup.await?
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<Box<dyn NetworkStream>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }
}
