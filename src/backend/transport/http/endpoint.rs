//! One Streamable HTTP endpoint: its requests, with their headers after the handshake.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method as Verb, StatusCode, header};

use super::{
    cookies::CookieJar,
    mirrored_headers,
    refusal::{self, Refused},
    response::Response,
    standalone::{LateStreams, Opening},
    target::{HttpTarget, RequestContent},
};
use crate::{
    backend::transport::interface::TransportError,
    mcp::{Feature, Message, Method, Revision, mirrored_params::Mirror},
    model::BackendId,
    wire::headers::{JSON_AND_EVENTS, LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID},
};

/// Capacity that fits the headers of most requests.
const HEADERS: usize = 16;

pub(super) struct HttpEndpoint {
    target: HttpTarget,
    pub(super) session: OnceLock<HeaderValue>,
    pub(super) revision: OnceLock<Revision>,
    pub(super) opening: Opening,
    /// True if the server refused `initialize` as one over HTTP+SSE would.
    may_be_http_sse: AtomicBool,
    /// Result of [`HttpEndpoint::headers_of_posts`], once the handshake is complete.
    of_posts: OnceLock<HeaderMap>,
    /// Cookies of the session.
    cookies: CookieJar,
}

// === impl HttpEndpoint ===

impl HttpEndpoint {
    /// Creates the endpoint. `late` is shared by all connections to this server.
    pub(super) fn new(target: HttpTarget, late: &LateStreams) -> Self {
        let (session, revision, of_posts) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (opening, may_be_http_sse) = (Opening::new(late), AtomicBool::new(false));
        Self { target, session, revision, opening, may_be_http_sse, of_posts, cookies: CookieJar::default() }
    }

    /// Headers of every request, with the given `Accept`.
    pub(super) fn headers(&self, accept: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(HEADERS);
        headers.extend(self.target.headers().clone());
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        if let Some(session) = self.session.get() {
            headers.insert(SESSION_ID, session.clone());
        }
        if let Some(revision) = self.revision.get().filter(|revision| revision.has(Feature::ProtocolVersionHeader)) {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
        }
        headers
    }

    fn headers_of_posts(&self) -> HeaderMap {
        let mut headers = self.headers(JSON_AND_EVENTS);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers
    }

    /// Sends a request, with cookies and, if there is a login, its token.
    pub(super) async fn send(&self, verb: Verb, content: &RequestContent<'_>) -> Result<Response, TransportError> {
        let with_cookies = || {
            let (mut headers, body) = content();
            // a configured `Cookie` header takes precedence
            if let Some(cookies) = self.cookies.header(self.target.uri())
                && !headers.contains_key(header::COOKIE)
            {
                headers.insert(header::COOKIE, cookies);
            }
            (headers, body)
        };
        let response = self.target.send(verb, &with_cookies).await?;
        if self.session.get().is_some() {
            self.cookies.keep(response.headers(), self.target.uri());
        }
        Ok(response)
    }

    /// Posts one message; returns the response if the server accepted it.
    pub(super) async fn post(&self, message: &Message, mirror: Option<&Mirror>) -> Result<Response, Refused> {
        let content = || {
            let mut headers = match self.revision.get() {
                Some(_) => self.of_posts.get_or_init(|| self.headers_of_posts()).clone(),
                None => self.headers_of_posts(),
            };
            if self.is_sessionless() {
                mirrored_headers::insert(&mut headers, message, mirror);
            }
            (headers, message.encode())
        };
        let response = self.send(Verb::POST, &content).await.map_err(Refused::Error)?;
        let is_handshake = matches!(message, Message::Request { method: Method::Initialize, .. });
        if response.status().is_success() {
            if is_handshake {
                self.keep_session(&response);
            }
            return Ok(response);
        }
        if is_handshake {
            self.may_be_http_sse.store(is_of_http_sse(response.status()), Ordering::Release);
        }
        Err(refusal::read(response, self.server(), self.session.get().is_some()).await)
    }

    pub(super) const fn server(&self) -> &BackendId {
        self.target.server()
    }

    /// True if the server refused `initialize` with a status that one over HTTP+SSE would send.
    pub(super) fn may_be_http_sse(&self) -> bool {
        self.may_be_http_sse.load(Ordering::Acquire)
    }

    /// True if every request is self-contained (2026-07-28).
    pub(super) fn is_sessionless(&self) -> bool {
        self.revision.get().is_some_and(|revision| !revision.has(Feature::Sessions))
    }

    /// Opens an event stream: the standalone stream, or the rest of a broken one, after the event id `after`.
    pub(super) async fn stream(&self, after: Option<&str>) -> Result<Response, Refused> {
        let content = || {
            let mut headers = self.headers("text/event-stream");
            if let Some(id) = after.and_then(|id| HeaderValue::from_str(id).ok()) {
                headers.insert(LAST_EVENT_ID, id);
            }
            (headers, Bytes::new())
        };
        let response = self.send(Verb::GET, &content).await.map_err(Refused::Error)?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(refusal::read(response, self.server(), self.session.get().is_some()).await)
    }

    /// Stores the session id of a 2xx response to `initialize`. It must be visible ASCII (2025-03-26 and later,
    /// transports).
    fn keep_session(&self, response: &Response) {
        let id = response.headers().get(SESSION_ID);
        if let Some(id) = id.filter(|id| !id.is_empty() && id.as_bytes().iter().all(u8::is_ascii_graphic)) {
            let _ = self.session.set(id.clone());
            // only with a session: a connection without one may serve several users
            self.cookies.keep(response.headers(), self.target.uri());
        }
    }
}

/// True for a status with which a server over HTTP+SSE may refuse `initialize` (2025-03-26 and later, transports,
/// *Backwards Compatibility*): any 4xx, except those about credentials and load.
fn is_of_http_sse(status: StatusCode) -> bool {
    let is_about_the_caller =
        matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
    status.is_client_error() && !is_about_the_caller
}
