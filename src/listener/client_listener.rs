//! The socket that clients connect to: TCP, TCP with TLS, or a Unix socket. One type covers all three, so that the code
//! for a connection is compiled only once.

use std::{
    io::{self, IoSlice},
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
};

use super::{socket::Accept, tls::TlsConnection};

#[derive(Debug)]
pub enum ClientListener {
    Tcp(TcpListener),
    Tls(TcpListener, Arc<ServerConfig>),
    /// A Unix socket, for anyone who may open its file. Its clients count as loopback.
    Local(UnixListener),
}

/// A connection accepted by a [`ClientListener`].
#[derive(Debug)]
pub enum ClientStream {
    Tcp(TcpStream),
    Tls(Box<TlsConnection>),
    Local(UnixStream),
}

impl Accept for ClientListener {
    type Stream = ClientStream;

    async fn accept(&mut self) -> io::Result<(ClientStream, SocketAddr)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = Accept::accept(listener).await?;
                Ok((ClientStream::Tcp(stream), peer))
            }
            Self::Tls(listener, config) => {
                let (stream, peer) = Accept::accept(listener).await?;
                Ok((ClientStream::Tls(Box::new(TlsConnection::new(stream, Arc::clone(config)))), peer))
            }
            Self::Local(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((ClientStream::Local(stream), (Ipv4Addr::LOCALHOST, 0).into()))
            }
        }
    }

    fn attach(stream: ClientStream) -> io::Result<ClientStream> {
        Ok(match stream {
            ClientStream::Tcp(stream) => ClientStream::Tcp(TcpListener::attach(stream)?),
            ClientStream::Tls(stream) => ClientStream::Tls(Box::new(stream.attach()?)),
            ClientStream::Local(stream) => ClientStream::Local(UnixStream::from_std(stream.into_std()?)?),
        })
    }
}

/// Calls a method of the stream, of any variant.
macro_rules! of_each {
    ($stream:expr, $inner:ident => $call:expr) => {
        match &mut *$stream {
            ClientStream::Tcp($inner) => $call,
            ClientStream::Tls($inner) => $call,
            ClientStream::Local($inner) => $call,
        }
    };
}

impl AsyncRead for ClientStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        of_each!(self, stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        of_each!(self, stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        of_each!(self, stream => Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
            Self::Local(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_each!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
