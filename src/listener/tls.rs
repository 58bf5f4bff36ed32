//! A connection with TLS. The worker that serves the connection performs the handshake, at the first read.
//!
//! The time limit for a connection's first request includes the handshake, and the connection counts for its address
//! from its first byte on.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{Accept, TlsAcceptor, server::TlsStream};

use crate::model::ACME_TLS;

/// The first byte of a handshake (RFC 8446 5.1).
const HANDSHAKE: u8 = 22;
const NO_TLS: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: 46\r\n\r\n\
    This port speaks TLS: use a URL with https://\n";

#[derive(Debug)]
pub struct TlsConnection(TlsState);

/// A connection whose handshake has not begun.
#[derive(Debug)]
struct Greeting {
    stream: TcpStream,
    config: Arc<ServerConfig>,
}

enum TlsState {
    Greeting(Greeting),
    Shaking(Accept<TcpStream>),
    Open(TlsStream<TcpStream>),
    /// The peer only wanted to see the certificate, and has seen it.
    Seen(TlsStream<TcpStream>),
    /// Nothing more is read or written.
    Ended,
}

impl TlsConnection {
    /// Expects the peer to begin a handshake.
    pub(super) const fn new(stream: TcpStream, config: Arc<ServerConfig>) -> Self {
        Self(TlsState::Greeting(Greeting { stream, config }))
    }

    /// Moves a connection that was just accepted to the current runtime.
    pub(super) fn attach(self) -> io::Result<Self> {
        match self.0 {
            TlsState::Greeting(Greeting { stream, config }) => {
                Ok(Self::new(TcpStream::from_std(stream.into_std()?)?, config))
            }
            begun => Ok(Self(begun)),
        }
    }

    /// Waits for the handshake; `None` if there is nothing to read on this connection.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<&mut TlsStream<TcpStream>>>> {
        loop {
            let next = match &mut self.0 {
                TlsState::Open(_) => break,
                TlsState::Seen(_) | TlsState::Ended => return Poll::Ready(Ok(None)),
                TlsState::Greeting(greeting) => {
                    let is_handshake = ready!(greeting.poll_is_handshake(cx))?;
                    match std::mem::replace(&mut self.0, TlsState::Ended) {
                        TlsState::Greeting(Greeting { stream, config }) if is_handshake => {
                            TlsState::Shaking(TlsAcceptor::from(config).accept(stream))
                        }
                        _ => TlsState::Ended,
                    }
                }
                TlsState::Shaking(accept) => match ready!(Pin::new(accept).poll(cx)) {
                    Ok(stream) if stream.get_ref().1.alpn_protocol() == Some(ACME_TLS) => TlsState::Seen(stream),
                    Ok(stream) => TlsState::Open(stream),
                    Err(error) => {
                        self.0 = TlsState::Ended;
                        count("handshake");
                        tracing::debug!(%error, "a TLS handshake failed");
                        return Poll::Ready(Err(error));
                    }
                },
            };
            self.0 = next;
        }
        let TlsState::Open(stream) = &mut self.0 else { return Poll::Ready(Ok(None)) };
        Poll::Ready(Ok(Some(stream)))
    }

    /// The stream for writing, which happens only after a request.
    fn open(&mut self) -> io::Result<Pin<&mut TlsStream<TcpStream>>> {
        match &mut self.0 {
            TlsState::Open(stream) => Ok(Pin::new(stream)),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Greeting {
    /// Looks at the first byte. Plain HTTP gets an HTTP answer.
    fn poll_is_handshake(&self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut first = [0; 1];
        let mut buffer = ReadBuf::new(&mut first);
        ready!(self.stream.poll_peek(cx, &mut buffer))?;
        match buffer.filled().first() {
            Some(&HANDSHAKE) => return Poll::Ready(Ok(true)),
            Some(byte) if byte.is_ascii_alphabetic() => {
                // unread bytes would turn the close into a reset, which would destroy the answer
                let mut unread = [0; 4096];
                while matches!(self.stream.try_read(&mut unread), Ok(bytes) if bytes > 0) {}
                let _ = self.stream.try_write(NO_TLS);
                count("no_tls");
            }
            Some(_) => count("no_tls"),
            None => {}
        }
        Poll::Ready(Ok(false))
    }
}

impl AsyncRead for TlsConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match ready!(self.poll_open(cx))? {
            Some(stream) => Pin::new(stream).poll_read(cx, buf),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for TlsConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.open()?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.open()?.poll_write_vectored(cx, bufs)
    }

    // called before the handshake
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open().map_or(Poll::Ready(Ok(())), |stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            TlsState::Open(stream) | TlsState::Seen(stream) => Pin::new(stream).poll_shutdown(cx),
            TlsState::Greeting(_) | TlsState::Shaking(_) | TlsState::Ended => Poll::Ready(Ok(())),
        }
    }
}

impl std::fmt::Debug for TlsState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Greeting(_) => "Greeting",
            Self::Shaking(_) => "Shaking",
            Self::Open(_) => "Open",
            Self::Seen(_) => "Seen",
            Self::Ended => "Ended",
        })
    }
}

fn count(reason: &'static str) {
    metrics::counter!("lockkeeper_tls_handshakes_failed_total", "reason" => reason).increment(1);
}
