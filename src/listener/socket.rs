//! Accepts TCP connections and sets the options of their sockets.

use std::{io, net::SocketAddr, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};

/// Idle time before TCP keep-alive probes, and the interval between probes.
const KEEPALIVE_TIME: Duration = Duration::from_mins(1);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Maximum time that bytes may stay unacknowledged, a probe unanswered or the other side's window closed. Then the
/// kernel ends the connection (RFC 5482).
#[cfg(target_os = "linux")]
const USER_TIMEOUT: Duration = Duration::from_secs(90);

/// Maximum number of bytes that the kernel accepts before it can send them. Without a limit, it takes megabytes for a
/// client that reads nothing, which no budget counts and which take time to copy.
#[cfg(target_os = "linux")]
const MAX_UNSENT: u32 = 32 * 1024;

/// A source of connections: a listening socket, or streams in memory.
pub trait Accept {
    /// The byte stream of a connection.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The next connection. Cancel safe.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;

    /// Moves a connection accepted on another runtime to the current one.
    fn attach(stream: Self::Stream) -> io::Result<Self::Stream> {
        Ok(stream)
    }
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = Self::accept(self).await?;
        if let Err(error) = set_options(&stream) {
            // the client may have disconnected already; the first read reports that
            tracing::debug!(%error, "the options of an accepted socket cannot be set");
        }
        Ok((stream, peer))
    }

    fn attach(stream: TcpStream) -> io::Result<TcpStream> {
        TcpStream::from_std(stream.into_std()?)
    }
}

/// Bytes are sent as soon as they are written, because an event must not wait until the one before it is acknowledged
/// (RFC 9293 3.7.4). The kernel notices a client that has disappeared or reads nothing.
fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_TIME).with_interval(KEEPALIVE_INTERVAL);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    {
        socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
        socket.set_tcp_notsent_lowat(MAX_UNSENT)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_accepted_socket_sends_at_once_and_notices_a_peer_that_is_gone() {
        let mut listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (accepted, _client) = tokio::join!(Accept::accept(&mut listener), TcpStream::connect(address));
        let (stream, _) = accepted.unwrap();
        assert!(stream.nodelay().unwrap());
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(USER_TIMEOUT));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_kernel_takes_little_for_a_peer_that_reads_nothing() {
        let mut listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        client.set_recv_buffer_size(4096).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = tokio::task::spawn_blocking(move || {
            client.connect(&address.into()).unwrap();
            client
        });
        let (accepted, _client) = tokio::join!(Accept::accept(&mut listener), connect);
        let (stream, _) = accepted.unwrap();
        let mut taken = 0;
        while let Ok(bytes) = stream.try_write(&[0; 16 * 1024]) {
            taken += bytes;
        }
        assert!(taken > 0 && taken <= 4 * MAX_UNSENT as usize, "{taken}");
    }
}
