//! Connector to servers over HTTP from the configuration: directly or through a proxy, with TLS for `https`. Accepts
//! any address.

use std::{
    collections::BTreeMap,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use http::{HeaderValue, Uri, uri::Scheme};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::{
    client::{
        legacy::connect::{Connected, Connection, HttpConnector, proxy::Tunnel},
        proxy::matcher::{Intercept, Matcher},
    },
    rt::TokioIo,
};
use rustls::ClientConfig;
use tokio::{net::TcpStream, time::timeout};
use tower::Service;

use super::tls::{self, TlsSetupError};
use crate::model::{NetworkSpec, ProxyChoice};

/// Maximum time to connect: all addresses of the name, the proxy and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// TCP keep-alive: idle time, and interval of probes.
const KEEPALIVE: (Duration, Duration) = (Duration::from_mins(1), Duration::from_secs(15));
/// Maximum number of unanswered probes.
const KEEPALIVE_RETRIES: u32 = 3;
/// Sent data may stay unacknowledged for at most this long.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(30);

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Tcp = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Connector to servers. Cheap to clone.
#[derive(Clone)]
pub struct ServerConnector {
    direct: HttpsConnector<HttpConnector>,
    /// HTTP/1.1 only: for proxies, and for upgrades to another protocol.
    http1: HttpsConnector<HttpConnector>,
    tls: Arc<ClientConfig>,
    tls_http1: Arc<ClientConfig>,
    proxies: Arc<Matcher>,
}

/// An open connection.
pub struct ServerStream {
    io: MaybeHttpsStream<Tcp>,
    route: ConnectRoute,
}

/// Peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectRoute {
    /// The server, directly or by a tunnel.
    Server,
    /// A proxy that forwards requests, which then carry the whole URL.
    ForwardingProxy,
}

/// Failure to create a client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Certificates cannot be used.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] TlsSetupError),
    /// An environment variable or a setting names an invalid proxy.
    #[error("`{0}` is not the URL of an HTTP proxy")]
    Proxy(&'static str),
}

/// No connection within [`CONNECT_TIMEOUT`].
#[derive(Debug, thiserror::Error)]
#[error("no connection after {CONNECT_TIMEOUT:?}")]
struct ConnectTimeout;

// === impl ServerConnector ===

impl ServerConnector {
    /// Creates a connector with the proxies of `environment`.
    pub fn new(environment: &BTreeMap<String, String>) -> Result<Self, ClientError> {
        Self::of_server(&NetworkSpec::default(), environment)
    }

    /// Creates a connector with the settings of one server.
    pub fn of_server(network: &NetworkSpec, environment: &BTreeMap<String, String>) -> Result<Self, ClientError> {
        let proxies = match &network.proxy {
            None => proxies(environment)?,
            Some(choice) => chosen(choice),
        };
        Ok(Self::with_tls(tls::client_config(network)?, proxies))
    }

    /// The same with the settings of one server.
    pub fn with_network(&self, network: &NetworkSpec) -> Result<Self, ClientError> {
        let tls = tls::client_config(network)?;
        Ok(match &network.proxy {
            Some(choice) => Self::with_tls(tls, chosen(choice)),
            None => Self { proxies: Arc::clone(&self.proxies), ..Self::with_tls(tls, Matcher::builder().build()) },
        })
    }

    /// Creates a connector with the certificate checks of `tls`, which must not name protocols.
    pub fn with_tls(tls: ClientConfig, proxies: Matcher) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_keepalive(Some(KEEPALIVE.0));
        tcp.set_keepalive_interval(Some(KEEPALIVE.1));
        tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIMEOUT));
        let tls_http1 = Arc::new(tls.clone());
        let mut tls = tls;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let tls = Arc::new(tls);
        Self {
            direct: HttpsConnector::from((tcp.clone(), Arc::clone(&tls))),
            http1: HttpsConnector::from((tcp, Arc::clone(&tls_http1))),
            tls,
            tls_http1,
            proxies: Arc::new(proxies),
        }
    }

    /// The proxy credentials of a request for `uri`, if a proxy forwards it.
    pub fn proxy_authorization(&self, uri: &Uri) -> Option<HeaderValue> {
        if uri.scheme() != Some(&Scheme::HTTP) {
            return None;
        }
        self.proxies.intercept(uri)?.basic_auth().cloned()
    }

    async fn connect(mut self, uri: Uri) -> Result<ServerStream, BoxError> {
        let Some(proxy) = self.proxies.intercept(&uri) else {
            let io = MaybeHttpsStream::Http(self.direct.call(uri).await?);
            return Ok(ServerStream { io, route: ConnectRoute::Server });
        };
        if uri.scheme() != Some(&Scheme::HTTPS) {
            let io = MaybeHttpsStream::Http(self.http1.call(proxy.uri().clone()).await?);
            return Ok(ServerStream { io, route: ConnectRoute::ForwardingProxy });
        }
        let io = HttpsConnector::from((tunnel(&proxy, self.http1), self.tls)).call(uri).await?;
        Ok(ServerStream { io, route: ConnectRoute::Server })
    }

    /// Connects for an upgrade to another protocol, in a tunnel if there is a proxy. `uri` must name its port.
    pub async fn connect_for_upgrade(mut self, uri: Uri) -> Result<ServerStream, BoxError> {
        let connecting = async {
            let io = match self.proxies.intercept(&uri) {
                None => MaybeHttpsStream::Http(self.http1.call(uri).await?),
                Some(proxy) => HttpsConnector::from((tunnel(&proxy, self.http1), self.tls_http1)).call(uri).await?,
            };
            Ok(ServerStream { io, route: ConnectRoute::Server })
        };
        timeout(CONNECT_TIMEOUT, connecting).await.map_err(|_| ConnectTimeout)?
    }

    /// Connects to a port directly.
    pub async fn connect_tcp(mut self, uri: Uri) -> Result<TcpStream, BoxError> {
        match timeout(CONNECT_TIMEOUT, self.http1.call(uri)).await.map_err(|_| ConnectTimeout)?? {
            MaybeHttpsStream::Http(io) => Ok(io.into_inner()),
            MaybeHttpsStream::Https(_) => Err("the port is not one of TLS".into()),
        }
    }
}

/// The proxy of one server, for all requests.
fn chosen(choice: &ProxyChoice) -> Matcher {
    match choice {
        ProxyChoice::Direct => Matcher::builder().build(),
        ProxyChoice::Through(url) => Matcher::builder().all(url.expose().to_owned()).build(),
    }
}

/// A tunnel through `proxy`.
fn tunnel(proxy: &Intercept, connector: HttpsConnector<HttpConnector>) -> Tunnel<HttpsConnector<HttpConnector>> {
    let tunnel = Tunnel::new(proxy.uri().clone(), connector);
    match proxy.basic_auth() {
        Some(authorization) => tunnel.with_auth(authorization.clone()),
        None => tunnel,
    }
}

/// The proxies of `environment`; loopback addresses are always reached directly.
pub fn proxies(environment: &BTreeMap<String, String>) -> Result<Matcher, ClientError> {
    let variable = |name: &str| environment.get(name).map(String::as_str).filter(|value| !value.is_empty());
    // clients of a CGI program can set `HTTP_PROXY` in capitals, so programs ignore it
    let http = variable("http_proxy").map(|url| ("http_proxy", url));
    let https = ["https_proxy", "HTTPS_PROXY"].into_iter().find_map(|name| Some((name, variable(name)?)));
    for (name, url) in http.into_iter().chain(https) {
        let probe = Matcher::builder().all(url.to_owned()).build().intercept(&Uri::from_static("http://a"));
        let is_http = |proxy: &Uri| matches!(proxy.scheme_str(), Some("http" | "https"));
        if !probe.is_some_and(|proxy| is_http(proxy.uri())) {
            return Err(ClientError::Proxy(name));
        }
    }
    let url = |variable: Option<(_, &str)>| variable.map_or(String::new(), |(_, url)| url.to_owned());
    let direct = environment.get("no_proxy").or_else(|| environment.get("NO_PROXY")).map_or("", String::as_str);
    let direct = format!("localhost,127.0.0.0/8,::1,{direct}");
    Ok(Matcher::builder().http(url(http)).https(url(https)).no(direct).build())
}

impl Service<Uri> for ServerConnector {
    type Response = ServerStream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<ServerStream, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.clone().connect(uri);
        async move { timeout(CONNECT_TIMEOUT, connecting).await.map_err(|_| ConnectTimeout)? }.boxed()
    }
}

// === impl ServerStream ===

impl ServerStream {
    /// The peer.
    pub const fn route(&self) -> ConnectRoute {
        self.route
    }
}

impl Connection for ServerStream {
    fn connected(&self) -> Connected {
        let connected = match &self.io {
            MaybeHttpsStream::Http(io) => io.connected(),
            MaybeHttpsStream::Https(_) => self.io.connected(),
        };
        // without the addresses, which would be copied to every response
        let own = if connected.is_negotiated_h2() { Connected::new().negotiated_h2() } else { Connected::new() };
        own.proxy(self.route == ConnectRoute::ForwardingProxy)
    }
}

impl Read for ServerStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl Write for ServerStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The proxy for `uri` in this environment.
    fn proxy(uri: &'static str, environment: &[(&str, &str)]) -> Option<String> {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let proxy = proxies(&environment).unwrap().intercept(&Uri::from_static(uri))?;
        Some(proxy.uri().to_string())
    }

    #[test]
    fn each_scheme_has_its_proxy_and_exceptions_have_none() {
        let environment =
            [("http_proxy", "a:1"), ("https_proxy", "https://b:2"), ("no_proxy", ".direct.test,192.0.2.0/24")];
        let cases = [
            ("http://server.test/", Some("http://a:1/")),
            ("https://server.test/", Some("https://b:2/")),
            ("https://server.direct.test/", None),
            ("https://192.0.2.7/", None),
            ("http://localhost:1/", None),
            ("https://127.8.8.8/", None),
            ("http://[::1]:8080/", None),
        ];
        for (uri, expected) in cases {
            assert_eq!(proxy(uri, &environment).as_deref(), expected, "{uri}");
        }
    }

    #[test]
    fn capitals_are_read_but_for_http() {
        assert_eq!(proxy("http://server.test/", &[("HTTP_PROXY", "http://a:1")]), None);
        let environment = [("HTTPS_PROXY", "http://a:1"), ("NO_PROXY", "direct.test")];
        assert_eq!(proxy("https://server.test/", &environment).as_deref(), Some("http://a:1/"));
        assert_eq!(proxy("https://direct.test/", &environment), None);
    }
}
