//! Connections that begin with a protocol other than HTTP/1.1, for example from a misconfigured proxy. Their first
//! bytes are examined once the HTTP parser has given up.

use std::{net::SocketAddr, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Interval between two log lines about the same protocol, because anyone can send any bytes.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// Protocols recognised by their first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ForeignProtocol {
    Proxy,
    Tls,
    Http2,
}

/// The log lines about such connections.
#[derive(Debug, Default)]
pub(super) struct ForeignProtocols {
    logged: Mutex<[Option<Instant>; 3]>,
}

// === impl ForeignProtocol ===

impl ForeignProtocol {
    /// The protocol of a connection that begins with these bytes. The parser skips empty lines, and PROXY version 2
    /// begins with some.
    fn of(first: &[u8]) -> Option<Self> {
        let begins = |with: &[u8]| first.starts_with(with);
        if begins(b"PROXY ") || begins(b"\r\n\r\n\0\r\nQUIT\n") || begins(b"\0\r\nQUIT\n") {
            Some(Self::Proxy)
        } else if begins(&[0x16, 0x03]) {
            Some(Self::Tls)
        } else if begins(b"PRI * HTTP/2.0") {
            Some(Self::Http2)
        } else {
            None
        }
    }

    const fn sentence(self) -> &'static str {
        match self {
            Self::Proxy => {
                "a connection begins with a PROXY protocol header, which the gateway does not read: switch it off in the proxy \
                 (HAProxy: no `send-proxy`; AWS: target group attribute), and let the proxy set X-Forwarded-For"
            }
            Self::Tls => {
                "a connection begins with TLS, and this address speaks plain HTTP: let the proxy connect with http://, and \
                 clients to the https URL of the proxy"
            }
            Self::Http2 => {
                "a connection begins with HTTP/2, and the gateway speaks HTTP/1.1: set the protocol of the proxy toward the \
                 gateway to HTTP/1.1 (Cloud Run: no `--use-http2`; Caddy: no `h2c://`)"
            }
        }
    }
}

// === impl ForeignProtocols ===

impl ForeignProtocols {
    /// Logs a connection that cannot be parsed as HTTP, if its first bytes belong to another protocol and no such line
    /// was logged for a minute.
    pub(super) fn note(&self, first: &[u8], peer: SocketAddr) {
        let Some(protocol) = ForeignProtocol::of(first) else { return };
        if self.may_log(protocol) {
            tracing::warn!(peer = %peer.ip().to_canonical(), "{}", protocol.sentence());
        }
    }

    fn may_log(&self, protocol: ForeignProtocol) -> bool {
        let (mut logged, now) = (self.logged.lock(), Instant::now());
        let last = &mut logged[protocol as usize];
        let may = last.is_none_or(|last| now - last >= LOGGED_EVERY);
        if may {
            *last = Some(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_protocol_is_told_from_its_first_bytes_and_logged_once_a_minute() {
        let protocols = ForeignProtocols::default();
        for (first, expected) in [
            (&b"PROXY TCP4 192.0.2.1 192.0.2.2 4711 443\r\nGET"[..], Some(ForeignProtocol::Proxy)),
            (b"\r\n\r\n\0\r\nQUIT\n\x21\x11", Some(ForeignProtocol::Proxy)),
            (b"\0\r\nQUIT\n\x21\x11", Some(ForeignProtocol::Proxy)),
            (b"\x16\x03\x01\x02\0", Some(ForeignProtocol::Tls)),
            (b"PRI * HTTP/2.0\r\n\r\nSM", Some(ForeignProtocol::Http2)),
            (b"GET / HTTP/1.1\r\n", None),
            (b"\x16", None),
            (b"", None),
        ] {
            assert_eq!(ForeignProtocol::of(first), expected, "{first:?}");
        }
        let tls = ForeignProtocol::Tls;
        assert_eq!((protocols.may_log(tls), protocols.may_log(tls)), (true, false));
        assert!(protocols.may_log(ForeignProtocol::Http2), "each has its own line");
        tokio::time::advance(LOGGED_EVERY).await;
        assert!(protocols.may_log(tls));
    }
}
