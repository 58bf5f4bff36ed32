//! Redirect URI on this machine (RFC 8252 7.3): takes the response to one authorization request. Knows nothing of tokens.

use std::{collections::VecDeque, convert::Infallible, io, net::Ipv4Addr, pin::pin, sync::Arc, time::Duration};

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use futures_util::{Stream, StreamExt as _, stream};
use http::{StatusCode, Uri};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    authorization_request::{CodeOutcome, ExpectedResponse},
    endpoint::is_loopback,
    error::LoginError,
};

/// The redirect URI if none is given; a port is added.
const REDIRECT_URI: &str = "http://127.0.0.1/callback";
/// Maximum time for the page to reach the browser.
const FAREWELL: Duration = Duration::from_secs(2);
/// Maximum number of open connections: every program and web page on this machine can open some. One more ends the oldest.
const MAX_CONNECTIONS: usize = 16;
/// Maximum time of one connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after an accept error: it lasts until a descriptor is closed, or concerns one connection.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Redirect URI on this machine: `http`, a loopback host.
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

    /// The text.
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
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, uri.0.port().unwrap_or(0))).await?;
        let mut uri = uri.clone();
        let _ = uri.0.set_port(Some(listener.local_addr()?.port()));
        Ok(Self { listener, uri })
    }

    /// The redirect URI.
    pub(super) fn redirect_uri(&self) -> &LoopbackUri {
        &self.uri
    }

    /// Waits for the response to the request, shows its outcome in the browser, and returns the authorization code.
    pub(super) async fn code(self, expected: ExpectedResponse) -> CodeOutcome {
        let (sender, mut outcomes) = mpsc::channel(1);
        let page = Arc::new(RedirectPage { path: self.uri.0.path().to_owned(), expected, outcomes: sender });
        let mut connections = BrowserConnections::new(page);
        let outcome = tokio::select! {
            outcome = outcomes.recv() => outcome,
            never = connections.accept(arrivals(&self.listener)) => match never {},
        };
        connections.end().await;
        outcome.unwrap_or_else(|| {
            Err(LoginError::Unavailable("the redirect URI of the login cannot be served".to_owned()))
        })
    }
}

/// What `listener` accepts.
fn arrivals(listener: &TcpListener) -> impl Stream<Item = io::Result<TcpStream>> {
    stream::poll_fn(|cx| listener.poll_accept(cx).map_ok(|(stream, _)| stream).map(Some))
}

/// The connections of browsers, and of anything else on this machine.
struct BrowserConnections {
    page: Arc<RedirectPage>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    /// The oldest first.
    open: VecDeque<AbortHandle>,
}

// === impl BrowserConnections ===

impl BrowserConnections {
    fn new(page: Arc<RedirectPage>) -> Self {
        Self { page, stop: CancellationToken::new(), tasks: JoinSet::new(), open: VecDeque::new() }
    }

    /// Serves connections. Never ends by itself.
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

    /// Ends idle connections, which browsers keep, at once, and the one with the page when it is sent.
    async fn end(mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        let _ = timeout(FAREWELL, ended).await;
    }
}

/// The page of the redirect URI, while it waits for the response.
struct RedirectPage {
    path: String,
    expected: ExpectedResponse,
    outcomes: mpsc::Sender<CodeOutcome>,
}

/// Serves one connection of a browser until it ends, or until `stop` and the end of its response.
async fn serve(stream: TcpStream, page: Arc<RedirectPage>, stop: CancellationToken) {
    let service = service_fn(async |request: Request<Incoming>| Ok::<_, Infallible>(page.receive(request.uri())));
    let mut connection = pin!(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

// === impl RedirectPage ===

impl RedirectPage {
    fn receive(&self, uri: &Uri) -> Response {
        if uri.path() != self.path {
            return page(StatusCode::NOT_FOUND, "No such page", "This address takes the end of a login alone.");
        }
        let Some(outcome) = self.expected.read(uri.query().unwrap_or_default()) else {
            let text =
                "This page belongs to another login. Go back to the application that needs you, and log in there.";
            return page(StatusCode::BAD_REQUEST, "Not this login", text);
        };
        let answer = match &outcome {
            Ok(_) => {
                page(StatusCode::OK, "You are logged in", "You can close this page and go back to your application.")
            }
            Err(error) => {
                let text = format!("Your application got no access: {error}. You can close this page.");
                page(StatusCode::BAD_REQUEST, "You are not logged in", &text)
            }
        };
        // a second response changes nothing
        let _ = self.outcomes.try_send(outcome);
        answer
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
    async fn waiting() -> (std::net::SocketAddr, JoinSet<CodeOutcome>) {
        let callback = Callback::bind(&LoopbackUri::default()).await.unwrap();
        let address = callback.listener.local_addr().unwrap();
        let (state, issuer) = ("s".to_owned(), "https://as.example".to_owned());
        let mut outcome = JoinSet::new();
        outcome.spawn(callback.code(ExpectedResponse { state, issuer, returns_issuer: false }));
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
        let mut browser = TcpStream::connect(address).await.unwrap();
        browser.write_all(b"GET /callback?code=c&state=s HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut page = String::new();
        browser.read_to_string(&mut page).await.unwrap();
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        assert_eq!(outcome.join_next().await.unwrap().unwrap(), Ok("c".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn errors_of_accept_end_no_login() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (outcomes, mut outcome) = mpsc::channel(1);
        let expected =
            ExpectedResponse { state: "s".to_owned(), issuer: "https://as.example".to_owned(), returns_issuer: false };
        let page = Arc::new(RedirectPage { path: "/callback".to_owned(), expected, outcomes });
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
        for text in ["https://localhost/", "http://a.example/", "http://localhost/#x", "http://u@localhost/", "x"] {
            assert_eq!(LoopbackUri::parse(text), None, "{text}");
        }
    }
}
