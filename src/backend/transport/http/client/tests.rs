//! The client, with scripted servers and proxies.

mod frames;
mod kept;

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderName, Method, StatusCode, Version};
use http_body_util::BodyExt as _;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
    sync::mpsc,
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use self::frames::{CANCEL, REFUSED_STREAM, Refusal, Refusals};
use super::{super::target::HttpTarget, *};
use crate::{
    fetch::connector::proxies,
    model::{BackendId, HttpSpec, ProxyChoice, TlsIdentity},
    support::Secret,
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Behaviour of a peer after a request.
#[derive(Clone)]
enum Then {
    /// Answers, and waits for the next request.
    Answers(&'static str),
    /// Answers, and closes the connection.
    AnswersOnce(&'static str),
    /// Closes the connection.
    Closes,
    /// Stays silent.
    Hangs,
    /// Opens the requested tunnel to a TLS server with these protocols.
    Tunnels(&'static [&'static [u8]]),
    /// Opens the tunnel to a TLS server of HTTP/1.1 that announces an idle time of 3 s.
    TunnelsBriefly,
    /// Opens the tunnel to a TLS server that asks for a certificate.
    TunnelsForKnown,
    /// Opens the tunnel to an HTTP/2 server that refuses requests.
    Refuses(Arc<Refusals>),
}

/// A server or a proxy.
struct Peer {
    port: u16,
    /// The number of the connection and the head of each request.
    heads: mpsc::UnboundedReceiver<(usize, String)>,
    _task: JoinSet<()>,
}

impl Peer {
    async fn start(then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, heads) = mpsc::unbounded_channel();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, then.clone(), number, sender.clone()));
            }
        });
        Self { port, heads, _task: task }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// The next request.
    fn head(&mut self) -> (usize, String) {
        self.heads.try_recv().expect("a request")
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    then: Then,
    number: usize,
    heads: mpsc::UnboundedSender<(usize, String)>,
) {
    let mut read = Vec::new();
    loop {
        while !read.windows(4).any(|end| end == b"\r\n\r\n") {
            if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                return;
            }
        }
        heads.send((number, String::from_utf8(std::mem::take(&mut read)).unwrap().to_ascii_lowercase())).unwrap();
        match &then {
            Then::Answers(answer) => stream.write_all(answer.as_bytes()).await.unwrap(),
            Then::AnswersOnce(answer) => return stream.write_all(answer.as_bytes()).await.unwrap(),
            Then::Closes => return,
            Then::Hangs => std::future::pending().await,
            Then::Tunnels(protocols) => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                return serve_tls(stream, tls_server(protocols, Visitors::Anybody), None).await;
            }
            Then::TunnelsBriefly => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                return serve_tls(stream, tls_server(&[], Visitors::Anybody), Some("timeout=3")).await;
            }
            Then::TunnelsForKnown => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                return serve_tls(stream, tls_server(&[], Visitors::Known), None).await;
            }
            Then::Refuses(refusals) => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                return refusals.serve(accept_tls(stream, &[b"h2"]).await).await;
            }
        }
    }
}

async fn accept_tls<T: AsyncRead + AsyncWrite + Unpin>(stream: T, protocols: &[&[u8]]) -> TlsStream<T> {
    TlsAcceptor::from(Arc::new(tls_server(protocols, Visitors::Anybody))).accept(stream).await.unwrap()
}

/// Clients that a TLS server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visitors {
    Anybody,
    /// Clients with [`certificate`].
    Known,
}

fn tls_server(protocols: &[&[u8]], visitors: Visitors) -> ServerConfig {
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
    let config = match visitors {
        Visitors::Anybody => config.with_no_client_auth(),
        Visitors::Known => {
            let mut roots = RootCertStore::empty();
            roots.add(certificate()).unwrap();
            let known = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            config.with_client_cert_verifier(known)
        }
    };
    let mut config = config.with_single_cert(vec![certificate()], key).unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    config
}

async fn serve_tls(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    config: ServerConfig,
    keep_alive: Option<&'static str>,
) {
    // a client that does not trust this server, or is not accepted, ends here
    let Ok(stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await else { return };
    let answer = hyper::service::service_fn(move |_| async move {
        let mut response = Response::new(Full::new(Bytes::from("ok")));
        response
            .headers_mut()
            .extend(keep_alive.map(|told| (HeaderName::from_static("keep-alive"), told.parse().unwrap())));
        Ok::<_, hyper::Error>(response)
    });
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await;
}

fn certificate() -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(include_bytes!("certificate.pem")).unwrap()
}

/// A client with this environment that trusts only [`certificate`].
fn client(environment: &[(&str, String)]) -> Client {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let mut roots = RootCertStore::empty();
    roots.add(certificate()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let tls = tls.with_root_certificates(roots).with_no_client_auth();
    Client::over(ServerConnector::with_tls(tls, proxies(&environment).unwrap()))
}

/// A client with the network settings of one server, and a proxy.
fn own_client(proxy: &Peer, network: NetworkSpec) -> Client {
    let proxy = Secret::new(format!("http://user:pw@127.0.0.1:{}", proxy.port));
    let network = NetworkSpec { proxy: Some(ProxyChoice::Through(proxy)), ..network };
    Client::of_server(&network, &BTreeMap::from([("https_proxy".to_owned(), "http://127.0.0.1:1".to_owned())])).unwrap()
}

fn pem(text: &[u8]) -> String {
    String::from_utf8(text.to_vec()).unwrap()
}

fn target(client: &Client, url: &str) -> HttpTarget {
    HttpTarget::new(&BackendId::parse("s").unwrap(), client, &HttpSpec::new(url.parse().unwrap())).unwrap()
}

/// Posts to `url`.
async fn send(client: &Client, url: &str) -> Result<Response<ReadableBody<IncomingBody>>, TransportError> {
    let target = target(client, url);
    let mut request = Request::new(Full::default());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = target.uri().clone();
    *request.headers_mut() = target.headers().clone();
    client.send(request).await
}

/// Posts to `url`, and reads the whole response.
async fn post(client: &Client, url: &str) -> Result<(StatusCode, Version), TransportError> {
    let response = send(client, url).await?;
    let head = (response.status(), response.version());
    response.into_body().collect().await.map_err(|error| TransportError::Lost(error.to_string()))?;
    Ok(head)
}

#[tokio::test]
async fn a_request_that_is_dropped_takes_its_connection_along() {
    let mut peer = Peer::start(Then::Hangs).await;
    let (client, url) = (client(&[]), peer.url());
    for number in 0..2 {
        tokio::select! {
            _ = send(&client, &url) => panic!("it was answered"),
            head = peer.heads.recv() => assert_eq!(head.unwrap().0, number),
        }
    }
}

#[tokio::test]
async fn a_request_that_may_have_run_is_lost_and_never_sent_again() {
    let mut peer = Peer::start(Then::Closes).await;
    let error = post(&client(&[]), &peer.url()).await.unwrap_err();
    assert!(matches!(error, TransportError::Lost(_)), "{error:?}");
    peer.head();
    assert!(peer.heads.try_recv().is_err(), "it was sent twice");
}

#[tokio::test]
async fn a_server_that_cannot_be_connected_to_is_unreachable() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = post(&client(&[]), &format!("http://{closed}/")).await.unwrap_err();
    assert!(matches!(error, TransportError::Unreachable(_)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_takes_ten_seconds_at_most() {
    let peer = Peer::start(Then::Hangs).await;
    let client = client(&[("https_proxy", peer.url())]);
    let start = tokio::time::Instant::now();
    let error = post(&client, "https://server.test/").await.unwrap_err();
    assert!(matches!(error, TransportError::Unreachable(_)), "{error:?}");
    assert_eq!(start.elapsed().as_secs(), 10);
}

#[tokio::test]
async fn all_addresses_of_a_name_are_tried() {
    // `localhost` is also ::1, without a listener
    let peer = Peer::start(Then::Answers(OK)).await;
    let url = format!("http://localhost:{}/", peer.port);
    assert_eq!(post(&client(&[]), &url).await.unwrap().0, StatusCode::OK);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    const REDIRECT: &str = "HTTP/1.1 307 Temporary Redirect\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n";
    let mut peer = Peer::start(Then::Answers(REDIRECT)).await;
    assert_eq!(post(&client(&[]), &peer.url()).await.unwrap().0, StatusCode::TEMPORARY_REDIRECT);
    peer.head();
    assert!(peer.heads.try_recv().is_err(), "it was followed");
}

#[tokio::test]
async fn a_proxy_for_http_forwards_requests() {
    let mut proxy = Peer::start(Then::Answers(OK)).await;
    let client = client(&[("http_proxy", format!("http://user:p%20w@127.0.0.1:{}", proxy.port))]);
    assert_eq!(post(&client, "http://server.test/mcp").await.unwrap().0, StatusCode::OK);
    let (_, head) = proxy.head();
    assert!(head.starts_with("post http://server.test/mcp http/1.1\r\n"), "{head}");
    let credentials = STANDARD.encode("user:p w").to_ascii_lowercase();
    assert!(head.contains(&format!("proxy-authorization: basic {credentials}\r\n")), "{head}");
}

#[tokio::test]
async fn a_proxy_for_https_opens_a_tunnel() {
    let mut proxy = Peer::start(Then::Tunnels(&[])).await;
    let client = client(&[("HTTPS_PROXY", format!("http://user:pw@127.0.0.1:{}", proxy.port))]);
    assert_eq!(post(&client, "https://server.test/mcp").await.unwrap(), (StatusCode::OK, Version::HTTP_11));
    let (_, head) = proxy.head();
    assert!(head.starts_with("connect server.test:443 http/1.1\r\n"), "{head}");
    let credentials = STANDARD.encode("user:pw").to_ascii_lowercase();
    assert!(head.contains(&format!("proxy-authorization: basic {credentials}\r\n")), "{head}");
}

#[tokio::test]
async fn an_upgrade_goes_through_a_tunnel_and_speaks_http_1() {
    let mut proxy = Peer::start(Then::Tunnels(&[b"h2", b"http/1.1"])).await;
    let client = client(&[("https_proxy", proxy.url())]);
    let mut stream = client.connect_for_upgrade(&Uri::from_static("wss://server.test/mcp")).await.unwrap();
    let (_, head) = proxy.head();
    assert!(head.starts_with("connect server.test:443 http/1.1\r\n"), "{head}");
    stream.write_all(b"GET /mcp HTTP/1.1\r\nhost: server.test\r\n\r\n").await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

#[tokio::test]
async fn an_upgrade_without_tls_goes_through_a_tunnel_too() {
    let mut proxy = Peer::start(Then::AnswersOnce(OK)).await;
    let client = client(&[("http_proxy", proxy.url())]);
    let _ = client.connect_for_upgrade(&Uri::from_static("ws://server.test:8000/mcp")).await;
    let (_, head) = proxy.head();
    assert!(head.starts_with("connect server.test:8000 http/1.1\r\n"), "{head}");
}

#[tokio::test]
async fn http_2_is_negotiated_by_tls() {
    let proxy = Peer::start(Then::Tunnels(&[b"h2", b"http/1.1"])).await;
    let client = client(&[("https_proxy", proxy.url())]);
    assert_eq!(post(&client, "https://server.test/mcp").await.unwrap(), (StatusCode::OK, Version::HTTP_2));
}

#[tokio::test]
async fn loopback_is_reached_directly() {
    let mut proxy = Peer::start(Then::Answers(OK)).await;
    let server = Peer::start(Then::Answers(OK)).await;
    let client = client(&[("http_proxy", proxy.url())]);
    assert_eq!(post(&client, &server.url()).await.unwrap().0, StatusCode::OK);
    assert!(proxy.heads.try_recv().is_err(), "the proxy was used");
}

#[test]
fn a_proxy_that_is_no_url_is_an_error() {
    for url in ["http://", "socks5://127.0.0.1:1", "ftp://proxy"] {
        let environment = BTreeMap::from([("https_proxy".to_owned(), url.to_owned())]);
        assert!(matches!(Client::new(&environment), Err(ClientError::Proxy("https_proxy"))), "{url}");
    }
}

#[tokio::test]
async fn credentials_in_the_url_become_a_header() {
    let target = target(&client(&[]), "http://user:p%20w@server.test/mcp?a=b#c");
    assert_eq!(target.uri(), "http://server.test/mcp?a=b");
    assert_eq!(target.headers()["authorization"], format!("Basic {}", STANDARD.encode("user:p w")));
}

/// The outcome of a request, and the number of times that it arrived.
async fn post_refused(times: usize, by: Refusal) -> (Result<StatusCode, TransportError>, usize) {
    let refusals = Refusals::new(times, by);
    let proxy = Peer::start(Then::Refuses(Arc::clone(&refusals))).await;
    let client = client(&[("https_proxy", proxy.url())]);
    let sent = post(&client, "https://server.test/").await;
    (sent.map(|(status, _)| status), refusals.requests())
}

#[tokio::test]
async fn a_request_that_was_refused_is_sent_again() {
    for by in [Refusal::Reset(REFUSED_STREAM), Refusal::Drain] {
        let (sent, requests) = post_refused(2, by).await;
        assert_eq!((sent.unwrap(), requests), (StatusCode::OK, 3), "{by:?}");
    }
}

#[tokio::test]
async fn a_request_that_is_always_refused_is_sent_three_times() {
    for by in [Refusal::Reset(REFUSED_STREAM), Refusal::Drain] {
        let (sent, requests) = post_refused(usize::MAX, by).await;
        assert!(matches!(sent, Err(TransportError::Lost(_))), "{by:?}: {sent:?}");
        assert_eq!(requests, 3, "{by:?}");
    }
}

#[tokio::test]
async fn a_request_that_may_have_run_when_its_stream_was_reset_is_not_sent_again() {
    let (sent, requests) = post_refused(1, Refusal::Reset(CANCEL)).await;
    assert!(matches!(sent, Err(TransportError::Lost(_))), "{sent:?}");
    assert_eq!(requests, 1);
}

#[tokio::test]
async fn a_server_of_an_own_authority_is_trusted_where_that_is_configured() {
    let mut proxy = Peer::start(Then::Tunnels(&[])).await;
    let stranger = own_client(&proxy, NetworkSpec::default());
    let error = post(&stranger, "https://server.test/mcp").await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    proxy.head();
    let authorities = Some(pem(include_bytes!("certificate.pem")));
    let client = own_client(&proxy, NetworkSpec { authorities, ..NetworkSpec::default() });
    assert_eq!(post(&client, "https://server.test/mcp").await.unwrap().0, StatusCode::OK);
    let (_, head) = proxy.head();
    let credentials = STANDARD.encode("user:pw").to_ascii_lowercase();
    assert!(head.contains(&format!("proxy-authorization: basic {credentials}\r\n")), "{head}");
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_the_configured_one() {
    let proxy = Peer::start(Then::TunnelsForKnown).await;
    let certificates = pem(include_bytes!("certificate.pem"));
    let trusting = NetworkSpec { authorities: Some(certificates.clone()), ..NetworkSpec::default() };
    assert!(post(&own_client(&proxy, trusting.clone()), "https://server.test/mcp").await.is_err());
    let identity = TlsIdentity { certificates, key: Secret::new(pem(include_bytes!("key.pem"))) };
    let client = own_client(&proxy, NetworkSpec { identity: Some(identity), ..trusting });
    assert_eq!(post(&client, "https://server.test/mcp").await.unwrap().0, StatusCode::OK);
}

#[tokio::test]
async fn a_server_without_a_proxy_is_reached_past_that_of_the_environment() {
    let mut peer = Peer::start(Then::Answers(OK)).await;
    let direct = NetworkSpec { proxy: Some(ProxyChoice::Direct), ..NetworkSpec::default() };
    let environment = BTreeMap::from([("http_proxy".to_owned(), "http://127.0.0.1:1".to_owned())]);
    let client = Client::of_server(&direct, &environment).unwrap();
    assert!(client.proxy_authorization(&Uri::from_static("http://server.test/")).is_none());
    assert_eq!(post(&client, &peer.url()).await.unwrap().0, StatusCode::OK);
    assert!(peer.head().1.starts_with("post /mcp "));
}
