//! Entry points for the fuzz targets in `fuzz/`, replayed by `tests/it/fuzz.rs`: parsers and transformers that are
//! otherwise called only from inside. Not an interface, and without logic of its own.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::Full;
use ipnet::IpNet;
use jsonwebtoken::Algorithm;
use url::Url;

use crate::{
    backend::transport::http::Client,
    crossing::{
        repeat::round::Round,
        suspend::request_state::{CallId, Sealer, ServerState, State, StateBinding},
    },
    gateway::{cursor::Cursors, rewrite::Rewriter},
    http::client_ip,
    layers::result_size,
    mcp::{
        ErrorObject, Event, Method, Notification, Outcome, Payload, control,
        json::{self, check::check},
    },
    model::{BackendId, Caller, Client as OAuthClient, LimitsConfig, ReplicaNumber, Target},
    oauth::{client_assertion::ClientAssertion, client_documents::ClientDocument},
    openid::signed_token::{TokenHead, claimed_issuer},
    support::{Clock, Live, Random, SealingKey, Timestamp},
    web::{WebSettings, login_cookie::LoginCookies},
    wire::{
        body,
        websocket::frame_reader::{FrameReader, Seen},
    },
};

/// The members of the outermost object of a valid JSON text; `None` if it is invalid.
pub fn checked_members(text: &str) -> Option<Vec<(&str, &str)>> {
    let mut members = Vec::new();
    check(text, |name, value| members.push((name, value))).then_some(members)
}

/// True if the text is valid JSON. Stores nothing.
pub fn is_json(text: &str) -> bool {
    check(text, |_, _| {})
}

/// The name written like this, in quotes.
pub fn name_of(written: &str) -> String {
    json::name_of(written).into_owned()
}

/// True if the name written like this, in quotes, is `name`.
pub fn is_named(written: &str, name: &str) -> bool {
    json::is_named(written, name)
}

/// True if a parameter that the gateway acts on can be read in two ways.
pub fn is_ambiguous(method: &Method, params: &Payload) -> bool {
    control::is_ambiguous(method, params)
}

/// A result or notification of `server` at the merged endpoint. Its requests name the server if `names_server`.
pub fn shown_merged(server: &str, names_server: bool, method: Method, payload: Payload, is_result: bool) -> Payload {
    let Ok(backend) = BackendId::parse(server) else { return payload };
    let rewriter = Rewriter { backend, names_server };
    if !is_result {
        return rewriter.notification(Notification { method, params: payload }).params;
    }
    match rewriter.event(&method, Event::Done(Outcome::Complete(payload.clone()))) {
        Event::Done(Outcome::Complete(shown)) => shown,
        _ => payload,
    }
}

/// Server requests that end a call, at the merged endpoint.
pub fn questions_merged(server: &str, payload: Payload) -> Payload {
    let Ok(backend) = BackendId::parse(server) else { return payload };
    let rewriter = Rewriter { backend, names_server: true };
    match rewriter.event(&Method::ToolsCall, Event::Done(Outcome::InputRequired(payload.clone()))) {
        Event::Done(Outcome::InputRequired(shown)) => shown,
        _ => payload,
    }
}

/// The result with at most `max` bytes of text.
pub fn bounded_result(result: &Payload, max: usize) -> Payload {
    result_size::bounded(result, max).unwrap_or_else(|| result.clone())
}

/// The number of requests in a round.
pub fn round(ended: &Payload) -> Result<usize, &'static str> {
    Round::read(ended).map(|round| round.entries.len())
}

/// The bytes on a WebSocket, examined as they arrive.
#[derive(Debug)]
pub struct WebSocketBytes(FrameReader);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FramesSeen {
    /// Number of control frames begun.
    pub control: u32,
    /// True if a control frame is a ping.
    pub ping: bool,
    /// Number of message bytes.
    pub data: usize,
    /// True if a message ended.
    pub ended: bool,
}

impl WebSocketBytes {
    /// A connection that has been upgraded.
    pub const fn upgraded() -> Self {
        Self(FrameReader::upgraded())
    }

    /// A connection that still waits for the response to the upgrade.
    pub const fn upgrading() -> Self {
        Self(FrameReader::upgrading())
    }

    pub fn feed(&mut self, bytes: &[u8]) -> FramesSeen {
        let Seen { control, ping, data, ended } = self.0.feed(bytes);
        FramesSeen { control, ping, data, ended }
    }

    /// True inside a message or a frame.
    pub const fn is_unfinished(&self) -> bool {
        self.0.is_unfinished()
    }
}

/// The HTTP client for connections to servers.
#[derive(Clone)]
pub struct HttpClient(Client);

impl HttpClient {
    /// A client without proxies.
    pub fn new() -> Option<Self> {
        Client::new(&BTreeMap::new()).ok().map(Self)
    }

    /// Sends a request, and reads a response of at most `most` bytes. The outer error concerns the head, the inner one
    /// the body.
    pub async fn send(
        &self,
        request: Request<Full<Bytes>>,
        most: usize,
    ) -> Result<Response<Result<Bytes, String>>, String> {
        let (head, body) = self.0.send(request).await.map_err(|error| error.to_string())?.into_parts();
        let body = body::read_small(body, most).await.map_err(|error| format!("{error:?}"));
        Ok(Response::from_parts(head, body))
    }
}

/// The address of the client behind trusted proxies.
pub fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    client_ip::behind(peer, headers, trusted)
}

/// The content of the login cookies.
pub fn login_cookie(headers: &HeaderMap, public_url: &Url, state: &str) -> String {
    LoginCookies::read(headers, &WebSettings::new(public_url.clone())).content(state)
}

/// The headers that set these cookies.
pub fn set_login_cookie(headers: &HeaderMap, public_url: &Url, state: &str, content: &str) -> Option<Vec<HeaderValue>> {
    LoginCookies::read(headers, &WebSettings::new(public_url.clone())).set(state, content)
}

/// The client described by a metadata document.
pub fn client_document(url: &Url, body: &[u8], schemes: &[String]) -> Result<OAuthClient, String> {
    Ok(ClientDocument::parse(url, body, schemes)?.client(Timestamp::from_seconds(0)))
}

/// The head of a provider's token: algorithm, key and type.
pub fn token_head(token: &str, accepted: &[Algorithm]) -> Option<(Algorithm, Option<String>, Option<String>)> {
    let TokenHead { algorithm, key_id, kind } = TokenHead::read(token, accepted).ok()?;
    Some((algorithm, key_id, kind))
}

/// The issuer named in a token.
pub fn token_issuer(token: &str) -> Option<String> {
    claimed_issuer(token)
}

/// The client named in an assertion, and the id of its key.
pub fn client_assertion(text: &str) -> Result<(String, Option<String>), &'static str> {
    ClientAssertion::parse(text).map(|read| (read.client, read.kid))
}

/// Cursors of merged lists.
pub struct ListCursors(Cursors);

impl ListCursors {
    /// Cursors with a key of their own.
    pub fn new(random: &dyn Random) -> Self {
        Self(Cursors::new(random))
    }

    /// A cursor for the entry at `position`, valid only in the same `setting`.
    pub fn seal(&self, position: u64, setting: &[u8], random: &dyn Random) -> String {
        self.0.seal(position, setting, random)
    }

    /// The position in a cursor.
    pub fn open(&self, cursor: &str, setting: &[u8]) -> Result<u64, ErrorObject> {
        self.0.open(cursor, setting)
    }
}

/// States carried by 2026-07-28 clients.
pub struct RequestStates(Sealer);

/// A state before sealing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CarriedState {
    /// A suspended call: its process, and its id there.
    Waiting([u8; 8], [u8; 16]),
    /// The text of a server's own state, and the server.
    OfServer(String, Option<BackendId>),
}

impl RequestStates {
    /// States of the replica `replica`, valid for `lifetime`.
    pub fn new(
        key: [u8; 32],
        replica: i64,
        random: Arc<dyn Random>,
        clock: Arc<dyn Clock>,
        lifetime: Duration,
    ) -> Self {
        let limits = LimitsConfig { server_request_timeout: lifetime, ..LimitsConfig::default() };
        Self(Sealer::new(SealingKey::new(key), ReplicaNumber::new(replica), random, clock, Live::new(limits)))
    }

    /// The sealed state for requests like this one.
    pub fn seal(&self, state: &CarriedState, caller: &Caller, target: &Target, params: &Payload) -> Option<String> {
        let state = match state.clone() {
            CarriedState::Waiting(process, wait) => State::Suspended(CallId { process, wait }),
            CarriedState::OfServer(text, backend) => State::OfServer(ServerState { text, backend }),
        };
        self.0.seal(&state, &StateBinding::new(caller, target, &Method::ToolsCall, params))
    }

    /// Opens a sealed state.
    pub fn open(&self, text: &str, caller: &Caller, target: &Target, params: &Payload) -> Option<CarriedState> {
        let binding = StateBinding::new(caller, target, &Method::ToolsCall, params);
        Some(match self.0.open(text, &binding).ok()? {
            State::Suspended(CallId { process, wait }) => CarriedState::Waiting(process, wait),
            State::OfServer(ServerState { text, backend }) => CarriedState::OfServer(text, backend),
        })
    }
}
