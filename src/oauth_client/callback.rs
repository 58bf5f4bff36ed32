//! Redirect URI on this machine (RFC 8252 7.3): receives the response to one authorization request.

use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    net::{IpAddr, Ipv4Addr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use futures_util::{Stream, StreamExt as _, stream};
use http::{StatusCode, Uri};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use url::{Host, Url};

use super::{
    authorization_request::{CodeOutcome, ExpectedResponse},
    endpoint::is_loopback,
    error::LoginError,
};

/// The default redirect URI; a port is added.
const REDIRECT_URI: &str = "http://127.0.0.1/callback";
/// Maximum time for sending the page to the browser.
const FAREWELL: Duration = Duration::from_secs(2);
/// Maximum number of open connections: any program or web page on this machine can open some. A further one closes the
/// oldest.
const MAX_CONNECTIONS: usize = 16;
/// Maximum time of one connection. The page shows how the token request ended, so this is longer than that request may
/// take.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause after an accept error: it concerns one connection, or lasts until a descriptor is closed.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Redirect URI on this machine: `http` with a loopback host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopbackUri(Url);

/// A port on the loopback interface, for the redirect URI.
#[derive(Debug)]
pub(super) struct Callback {
    listener: TcpListener,
    uri: LoopbackUri,
}

#[derive(Template)]
#[template(path = "login_result.html")]
struct ResultPage<'a> {
    title: &'a str,
    text: &'a str,
}

// === impl LoopbackUri ===

impl LoopbackUri {
    /// Parses a redirect URI, which must be `http` on this machine.
    pub fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        let is_plain = url.fragment().is_none() && url.query().is_none() && url.username().is_empty();
        (url.scheme() == "http" && is_loopback(&url) && is_plain).then_some(Self(url))
    }

    /// True if a client is registered with this URI; one without a port matches any port.
    pub(super) fn is(&self, registered: &str) -> bool {
        let Ok(mut registered) = Url::parse(registered) else { return false };
        if self.0.port().is_none() {
            let _ = registered.set_port(None);
        }
        registered == self.0
    }

    pub(super) fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl Default for LoopbackUri {
    #[expect(clippy::expect_used, reason = "a constant")]
    fn default() -> Self {
        Self::parse(REDIRECT_URI).expect("a loopback URI")
    }
}

// === impl Callback ===

impl Callback {
    /// Listens on the port of `uri`, or on any free one if it has none.
    pub(super) async fn bind(uri: &LoopbackUri) -> io::Result<Self> {
        let address = match uri.0.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            Some(Host::Domain(_)) | None => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let listener = TcpListener::bind((address, uri.0.port().unwrap_or(0))).await?;
        let mut uri = uri.clone();
        let _ = uri.0.set_port(Some(listener.local_addr()?.port()));
        Ok(Self { listener, uri })
    }

    pub(super) fn redirect_uri(&self) -> &LoopbackUri {
        &self.uri
    }

    /// Waits for the response to the request, completes the login with its code by calling `finish`, and shows the
    /// outcome in the browser. `None` if no response came within `patience`.
    pub(super) async fn answered<T, F: Future<Output = Result<T, LoginError>>>(
        self,
        expected: ExpectedResponse,
        patience: Duration,
        finish: impl FnOnce(String) -> F,
    ) -> Option<Result<T, LoginError>> {
        let (sender, mut outcomes) = mpsc::channel(1);
        let end = watch::Sender::new(None);
        let path = self.uri.0.path().to_owned();
        let page = Arc::new(RedirectPage { path, expected, outcomes: sender, end: end.subscribe() });
        let mut connections = BrowserConnections::new(page);
        let login = async {
            let outcome = match timeout(patience, outcomes.recv()).await.ok()? {
                Some(Ok(code)) => finish(code).await,
                Some(Err(error)) => Err(error),
                None => Err(LoginError::Unavailable("the redirect URI of the login cannot be served".to_owned())),
            };
            let shown = outcome.as_ref().map(drop).map_err(ToString::to_string);
            let _ = end.send(Some(shown));
            Some(outcome)
        };
        let outcome = tokio::select! {
            outcome = login => outcome,
            never = connections.accept(arrivals(&self.listener)) => match never {},
        };
        connections.end().await;
        outcome
    }
}

fn arrivals(listener: &TcpListener) -> impl Stream<Item = io::Result<TcpStream>> {
    stream::poll_fn(|cx| listener.poll_accept(cx).map_ok(|(stream, _)| stream).map(Some))
}

/// The connections of browsers, and of anything else on this machine.
struct BrowserConnections {
    page: Arc<RedirectPage>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    open: VecDeque<AbortHandle>,
}

// === impl BrowserConnections ===

impl BrowserConnections {
    fn new(page: Arc<RedirectPage>) -> Self {
        Self { page, stop: CancellationToken::new(), tasks: JoinSet::new(), open: VecDeque::new() }
    }

    /// Serves connections. Never returns.
    async fn accept(&mut self, arrivals: impl Stream<Item = io::Result<TcpStream>>) -> Infallible {
        let mut arrivals = pin!(arrivals);
        loop {
            match arrivals.next().await {
                Some(Ok(stream)) => self.serve(stream),
                Some(Err(_)) | None => sleep(ERROR_PAUSE).await,
            }
        }
    }

    fn serve(&mut self, stream: TcpStream) {
        while self.tasks.try_join_next().is_some() {}
        self.open.retain(|connection| !connection.is_finished());
        if self.open.len() >= MAX_CONNECTIONS
            && let Some(oldest) = self.open.pop_front()
        {
            oldest.abort();
        }
        let connection = serve(stream, Arc::clone(&self.page), self.stop.clone());
        self.open.push_back(self.tasks.spawn(async { drop(timeout(CONNECTION_TIMEOUT, connection).await) }));
    }

    /// Closes idle connections, which browsers keep open, at once, and the one with the page as soon as it is sent.
    async fn end(mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        let _ = timeout(FAREWELL, ended).await;
    }
}

/// The page at the redirect URI, while the login waits for its response.
struct RedirectPage {
    path: String,
    expected: ExpectedResponse,
    outcomes: mpsc::Sender<CodeOutcome>,
    /// End of the login, with the reason if it failed.
    end: watch::Receiver<Option<Result<(), String>>>,
}

/// Serves one connection of a browser until it ends, or until `stop` once its response is sent.
async fn serve(stream: TcpStream, page: Arc<RedirectPage>, stop: CancellationToken) {
    let service = service_fn(async |request: Request<Incoming>| Ok::<_, Infallible>(page.receive(request.uri()).await));
    let mut connection = pin!(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

// === impl RedirectPage ===

impl RedirectPage {
    /// The page for a request. One with the response of this login waits for the login to end: the page says that the
    /// person is logged in only once there is a token.
    async fn receive(&self, uri: &Uri) -> Response {
        if uri.path() != self.path {
            return page(StatusCode::NOT_FOUND, "No such page", "This address is only for the end of a login.");
        }
        let Some(outcome) = self.expected.read(uri.query().unwrap_or_default()) else {
            let text =
                "This page belongs to another login. Go back to the application that needs you, and log in there.";
            return page(StatusCode::BAD_REQUEST, "Not this login", text);
        };
        // a second response changes nothing
        let _ = self.outcomes.try_send(outcome);
        let mut end = self.end.clone();
        let ended = end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        match ended.unwrap_or_else(|| Err("the application has ended".to_owned())) {
            Ok(()) => {
                page(StatusCode::OK, "You are logged in", "You can close this page and go back to your application.")
            }
            Err(reason) => {
                let text = format!("Your application got no access: {reason}. You can close this page.");
                page(StatusCode::BAD_REQUEST, "You are not logged in", &text)
            }
        }
    }
}

fn page(status: StatusCode, title: &str, text: &str) -> Response {
    let body = ResultPage { title, text }.render().unwrap_or_default();
    let headers = [("cache-control", "no-store"), ("referrer-policy", "no-referrer"), ("connection", "close")];
    (status, headers, Html(body)).into_response()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A redirect URI that waits for the response with the state `s`.
    async fn waiting() -> (std::net::SocketAddr, JoinSet<Option<CodeOutcome>>) {
        login(Ok).await
    }

    /// A login that ends in this way with its code.
    async fn login(
        finish: impl Fn(String) -> CodeOutcome + Send + 'static,
    ) -> (std::net::SocketAddr, JoinSet<Option<CodeOutcome>>) {
        let callback = Callback::bind(&LoopbackUri::default()).await.unwrap();
        let address = callback.listener.local_addr().unwrap();
        let (state, issuer) = ("s".to_owned(), "https://as.example".to_owned());
        let mut outcome = JoinSet::new();
        let expected = ExpectedResponse { state, issuer, returns_issuer: false };
        outcome.spawn(callback.answered(expected, Duration::from_mins(10), async move |code| finish(code)));
        (address, outcome)
    }

    /// The end of a connection, which gets nothing.
    async fn end(mut silent: TcpStream) {
        assert_eq!(silent.read(&mut [0]).await.unwrap_or(0), 0);
    }

    #[tokio::test]
    async fn a_program_that_opens_connections_keeps_no_browser_out() {
        let (address, mut outcome) = waiting().await;
        let mut silent = VecDeque::new();
        for _ in 0..=MAX_CONNECTIONS {
            silent.push_back(TcpStream::connect(address).await.unwrap());
        }
        end(silent.pop_front().unwrap()).await;
        let page = visit(address, "code=c&state=s").await;
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        assert_eq!(outcome.join_next().await.unwrap().unwrap(), Some(Ok("c".to_owned())));
    }

    async fn visit(address: std::net::SocketAddr, query: &str) -> String {
        let mut browser = TcpStream::connect(address).await.unwrap();
        let request = format!("GET /callback?{query} HTTP/1.1\r\nhost: a\r\n\r\n");
        browser.write_all(request.as_bytes()).await.unwrap();
        let mut page = String::new();
        browser.read_to_string(&mut page).await.unwrap();
        page
    }

    #[tokio::test]
    async fn up_027_a_page_says_logged_in_only_once_there_is_a_token() {
        let failed = || LoginError::Unavailable("no token came".to_owned());
        let (address, mut outcome) = login(move |_| Err(failed())).await;
        // the same response in two tabs: both wait for the one login
        let (first, second) = tokio::join!(visit(address, "code=c&state=s"), visit(address, "code=c&state=s"));
        for page in [first, second] {
            assert!(page.contains("You are not logged in") && page.contains("no token came"), "{page}");
        }
        assert_eq!(outcome.join_next().await.unwrap().unwrap(), Some(Err(failed())));
    }

    #[tokio::test]
    async fn up_027_the_text_of_a_server_is_shown_only_with_its_state_and_issuer() {
        let (address, mut outcome) = waiting().await;
        let page = visit(address, "error=access_denied&error_description=forged&state=other").await;
        assert!(page.contains("Not this login") && !page.contains("forged"), "{page}");
        let page = visit(address, "error=access_denied&error_description=forged&state=s&iss=https%3A%2F%2Fevil").await;
        assert!(page.contains("another authorization server") && !page.contains("forged"), "{page}");
        assert!(matches!(outcome.join_next().await.unwrap().unwrap(), Some(Err(LoginError::Untrusted(_)))));
    }

    #[tokio::test(start_paused = true)]
    async fn errors_of_accept_end_no_login() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (outcomes, mut outcome) = mpsc::channel(1);
        let expected =
            ExpectedResponse { state: "s".to_owned(), issuer: "https://as.example".to_owned(), returns_issuer: false };
        let end = watch::Sender::new(None);
        let page = Arc::new(RedirectPage { path: "/callback".to_owned(), expected, outcomes, end: end.subscribe() });
        let mut connections = BrowserConnections::new(page);
        let mut browser = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        browser.write_all(b"GET /callback?code=c&state=s HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        // no descriptor is free for three seconds
        let failures = stream::iter(0..30).map(|_| Err(io::Error::from_raw_os_error(24)));
        let code = tokio::select! {
            code = outcome.recv() => code.unwrap(),
            never = connections.accept(failures.chain(arrivals(&listener))) => match never {},
        };
        assert_eq!(code, Ok("c".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_ends_and_the_login_goes_on() {
        let (address, mut outcome) = waiting().await;
        end(TcpStream::connect(address).await.unwrap()).await;
        assert!(outcome.try_join_next().is_none());
    }

    #[test]
    fn a_redirect_uri_stays_on_this_machine() {
        for text in ["http://localhost:3118/oauth/callback", "http://127.0.0.1/", "http://[::1]:1/x"] {
            assert_eq!(LoopbackUri::parse(text).unwrap().as_str(), text);
        }
        let any_port = LoopbackUri::parse("http://localhost/cb").unwrap();
        assert!(any_port.is("http://localhost:3118/cb") && !any_port.is("http://127.0.0.1:3118/cb"));
        let one_port = LoopbackUri::parse("http://localhost:1/cb").unwrap();
        assert!(one_port.is("http://localhost:1/cb") && !one_port.is("http://localhost:2/cb"));
        for text in ["https://localhost/", "http://a.example/", "http://localhost/#x", "http://u@localhost/", "x"] {
            assert_eq!(LoopbackUri::parse(text), None, "{text}");
        }
    }
}
