//! The resource server (RFC 6750, RFC 9728): authentication and authorization of requests to protected endpoints.
//!
//! An authorized request goes on with its [`Authorized`]; behind a router, as a request extension. The code that serves
//! it never sees a token.

mod credential;
mod refusal;
mod ticket;

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse as _, Redirect, Response},
};
use credential::{Arrived, Credential, without_key};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use refusal::{Challenge, ResourceRefusal};
pub use ticket::MessageTicket;
use ticket::Tickets;
use tokio_util::sync::CancellationToken;

use crate::{
    audit::RefusalEvent,
    listener::ConnectionPlace,
    model::{
        Binding, Caller, ClientIp, Direct, Endpoint, EndpointVerdict, ParentAudience, QueryKey, RequestPlace, Scope,
        Scopes, Target,
    },
    oauth::{CredentialAccess, KeyRefusal, OAuth, VerifiedCredential, cors, policy},
    support::Timestamp,
};

/// Middleware that protects the endpoints. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Gate {
    oauth: OAuth,
    settings: GateSettings,
    tickets: Arc<Tickets>,
}

/// Settings of the resource server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateSettings {
    /// Use of an API key in the query of `/sse` and `/messages` (`OA-124`).
    pub query_key: QueryKey,
}

/// The caller of an authorized request, and how long its streams may run.
#[derive(Debug, Clone)]
pub struct Authorized {
    /// Caller.
    pub caller: Arc<Caller>,
    /// Life of its streams.
    pub lease: StreamLease,
}

/// The caller of a refused request, in which a pending request may find its answer.
#[derive(Debug, Clone)]
pub enum Unheard {
    /// The credential was valid before. Nothing may be done for this caller, except to report the refusal to pending
    /// requests.
    Unchecked(Arc<Caller>),
    /// The credential is valid, and the request was refused at another replica. Only this caller's answers are of use
    /// now.
    Late(Arc<Caller>),
}

/// Life of the streams of an authorized request. A running call may finish after its end, unless it was revoked.
#[derive(Debug, Clone)]
pub struct StreamLease {
    /// Expiry of the credential; `None` if it does not expire.
    pub expires: Option<Timestamp>,
    /// Cancelled within a second of the revocation of the credential, its grant, its key or its user.
    pub revoked: Arc<CancellationToken>,
}

/// The endpoints whose messages may be posted with the credential of a request to `/messages`; as its extension.
#[derive(Debug, Clone)]
pub struct MessagesReach {
    verified: Arc<VerifiedCredential>,
    parent: ParentAudience,
}

/// The credential of a request to `/sse` opens only the HTTP+SSE stream (`OA-120`); as its extension.
#[derive(Debug, Clone, Copy)]
pub struct OpensStreamAlone;

/// The path of a request was `/`, meaning `/mcp`; as its extension.
#[derive(Debug, Clone, Copy)]
pub struct MeantMcp;

/// Verifies the credential of a connection again, for the messages on it; as a request extension of WebSocket.
#[derive(Debug, Clone)]
pub struct ConnectionCredential {
    oauth: OAuth,
    verified: Arc<VerifiedCredential>,
    from: IpAddr,
}

// === impl Gate ===

impl Gate {
    /// A resource server that verifies credentials with `oauth`.
    pub fn new(oauth: OAuth, settings: GateSettings) -> Self {
        Self { oauth, settings, tickets: Arc::default() }
    }

    /// Handles a request for a protected endpoint: an authorized one goes to `handler` with its [`Authorized`]; any
    /// other gets 400, 401, 403, 429 or 503 with its challenge (`OA-106` to `OA-124`). `OPTIONS` gets 204 without
    /// authentication; every response has CORS headers (`OA-23`, `OA-24`). The handler never sees a credential: in
    /// place of an API key in the query, the request carries an `Arc<`[`MessageTicket`]`>`. Reads [`ClientIp`] from the
    /// request extensions.
    ///
    /// A request whose credential cannot be checked, since the database is away, is refused with 503. If the credential
    /// was valid before, `unheard` gets the request, as it does if another replica could not carry the request here in
    /// time.
    pub async fn answer<F, G>(
        &self,
        request: Request,
        handler: impl FnOnce(Request, Authorized) -> F + Send,
        unheard: impl FnOnce(Request, Unheard) -> G + Send,
    ) -> Response
    where
        F: Future<Output = Response> + Send,
        G: Future<Output = ()> + Send,
    {
        cors::around(request, |request| self.admit(request, handler, unheard)).await
    }

    async fn admit<F, G>(
        &self,
        mut request: Request,
        handler: impl FnOnce(Request, Authorized) -> F + Send,
        unheard: impl FnOnce(Request, Unheard) -> G + Send,
    ) -> Response
    where
        F: Future<Output = Response> + Send,
        G: Future<Output = ()> + Send,
    {
        let Some(endpoint) = endpoint_of(request.uri().path()) else { return ResourceRefusal::no_endpoint() };
        let credential = Credential::of(request.headers(), request.uri(), &endpoint, self.settings.query_key);
        if matches!(credential, Credential::Absent) && is_visit(&request) {
            // a person who pasted the address into a browser
            return Redirect::to("/").into_response();
        }
        let by_query = matches!(credential, Credential::Query(_));
        let is_of_stream = by_query || credential::has_ticket(request.uri());
        let place = request.extensions().get().copied().unwrap_or_default();
        let arrived = credential.place_taker(request.headers(), request.uri());
        let checked = match place {
            RequestPlace::Refused => Err(ResourceRefusal::Unavailable),
            _ => self.check(&credential, client_ip(&request), arrived).await,
        };
        let checked = checked.and_then(|verified| {
            self.opened(&verified, &endpoint, is_messages(&request))?;
            has_place(&request, &verified.caller).then_some(verified).ok_or(ResourceRefusal::TooManyConnections)
        });
        if let Some(uri) = without_key(request.uri()) {
            *request.uri_mut() = uri;
        }
        let mut response = match checked {
            Ok(verified) if place == RequestPlace::Late => {
                Box::pin(unheard(request, Unheard::Late(Arc::clone(&verified.caller)))).await;
                StatusCode::ACCEPTED.into_response()
            }
            Ok(verified) => {
                // handlers do not need credentials (OA-117), and never read cookies (OA-25)
                request.headers_mut().remove(header::AUTHORIZATION);
                request.headers_mut().remove(header::COOKIE);
                if endpoint.binding == Binding::WebSocket {
                    credential::remove_from_protocols(request.headers_mut());
                    let (oauth, from) = (self.oauth.clone(), client_ip(&request));
                    let credential = ConnectionCredential { oauth, verified: Arc::clone(&verified), from };
                    request.extensions_mut().insert(credential);
                }
                if endpoint.binding == Binding::Sse {
                    self.note_reach(&mut request, &verified, is_of_stream);
                }
                let authorized = Authorized::of(&verified);
                if by_query {
                    let ticket = self.tickets.issue(self.oauth.nonce(), verified);
                    request.extensions_mut().insert(Arc::new(ticket));
                }
                handler(request, authorized).await
            }
            Err(refusal) => {
                let meant = request.extensions().get::<MeantMcp>().map(|_| self.oauth.settings().resource(&endpoint));
                if matches!(refusal, ResourceRefusal::Unavailable)
                    && let Some(known) = self.remembered(&credential)
                {
                    Box::pin(unheard(request, Unheard::Unchecked(Arc::clone(&known.caller)))).await;
                }
                refusal.answer(&Challenge { meant, ..self.challenge(&endpoint, policy::baseline(&endpoint)) })
            }
        };
        if by_query {
            mark_query_key(&mut response);
        }
        response
    }

    /// Passes the reach of its credential to the handler of an HTTP+SSE request. The credential of a stream may be in
    /// the URL.
    fn note_reach(&self, request: &mut Request, verified: &Arc<VerifiedCredential>, is_of_stream: bool) {
        if is_messages(request) == Messages::Yes {
            let reach = MessagesReach { verified: Arc::clone(verified), parent: self.parent_audience() };
            request.extensions_mut().insert(reach);
        } else if is_of_stream || matches!(verified.opens, CredentialAccess::Key(Direct::Refused)) {
            request.extensions_mut().insert(OpensStreamAlone);
        }
    }

    /// The credential as last checked.
    fn remembered(&self, credential: &Credential) -> Option<Arc<VerifiedCredential>> {
        match credential {
            Credential::Header(presented) | Credential::Query(presented) => self.oauth.remembered(presented.expose()),
            Credential::Ticket(ticket) => self.tickets.find(ticket),
            Credential::Absent | Credential::Malformed | Credential::Ambiguous => None,
        }
    }

    async fn check(
        &self,
        credential: &Credential,
        from: IpAddr,
        arrived: Arrived,
    ) -> Result<Arc<VerifiedCredential>, ResourceRefusal> {
        let presented = match credential {
            Credential::Header(presented) | Credential::Query(presented) => presented,
            Credential::Ticket(ticket) => {
                let found = self.tickets.find(ticket).ok_or(ResourceRefusal::EndedStream)?;
                return self.oauth.verify_again(&found, from).await.map(|()| found).map_err(refused);
            }
            Credential::Absent => return Err(ResourceRefusal::NoCredential(arrived)),
            Credential::Malformed => return Err(ResourceRefusal::Malformed),
            Credential::Ambiguous => return Err(ResourceRefusal::Ambiguous),
        };
        self.oauth.verify(presented.expose(), from).await.map_err(refused)
    }

    /// Checks that the credential opens the endpoint. `/messages` belongs to the `/sse` endpoint where the session was
    /// opened, kept in [`MessagesReach`].
    fn opened(
        &self,
        verified: &VerifiedCredential,
        endpoint: &Endpoint,
        messages: Messages,
    ) -> Result<(), ResourceRefusal> {
        let fits = match &verified.opens {
            CredentialAccess::Endpoint(own, _) if messages == Messages::Yes => own.binding != Binding::WebSocket,
            opens => reaches(opens, endpoint, || self.parent_audience()),
        };
        if !fits {
            return Err(self.misplaced(verified));
        }
        if messages == Messages::Yes {
            return Ok(());
        }
        let existing = &self.oauth.settings().backends;
        match existing.verdict(verified.caller.subject(), &endpoint.target, verified.opens.scopes()) {
            EndpointVerdict::Open => Ok(()),
            // what a person left out does not exist for the app
            EndpointVerdict::BeyondScopes => Err(ResourceRefusal::NoSuchServer),
            EndpointVerdict::BeyondRights => Err(ResourceRefusal::NotAllowed),
        }
    }

    fn parent_audience(&self) -> ParentAudience {
        self.oauth.settings().policy.get().aud_parent_ok
    }

    /// Refuses a valid credential that does not open the endpoint: the reason is only recorded (`OA-108`).
    fn misplaced(&self, verified: &VerifiedCredential) -> ResourceRefusal {
        let Caller { grant, key, .. } = &*verified.caller;
        self.oauth.audit().record(match &verified.opens {
            CredentialAccess::Endpoint(own, _) => {
                RefusalEvent::Token { grant: grant.clone(), reason: format!("it is for {own} only") }
            }
            CredentialAccess::Key(_) => RefusalEvent::KeyMisplaced {
                key: key.clone(),
                reason: "it is for the login page and `/sse` only: `lockkeeper keys create NAME --direct` makes a key for \
                         a program",
            },
        });
        ResourceRefusal::InvalidToken
    }

    fn challenge(&self, endpoint: &Endpoint, scopes: Scopes) -> Challenge {
        Challenge { metadata: self.oauth.settings().resource_metadata(endpoint), scopes, meant: None }
    }
}

// === impl MessagesReach ===

impl MessagesReach {
    /// True if the credential opens this endpoint.
    pub fn opens(&self, endpoint: &Endpoint) -> bool {
        reaches(&self.verified.opens, endpoint, || self.parent)
    }
}

// === impl ConnectionCredential ===

impl ConnectionCredential {
    /// True if it is still valid; false also if that cannot be checked.
    pub async fn is_valid(&self) -> bool {
        self.oauth.verify_again(&self.verified, self.from).await.is_ok()
    }
}

// === impl Authorized ===

impl Authorized {
    fn of(verified: &VerifiedCredential) -> Self {
        let lease = StreamLease { expires: verified.expires, revoked: Arc::clone(&verified.revoked) };
        Self { caller: Arc::clone(&verified.caller), lease }
    }
}

/// Counts the connection of a request as its caller's; `false` if the caller's user has reached the maximum.
fn has_place(request: &Request, caller: &Caller) -> bool {
    request.extensions().get::<ConnectionPlace>().is_none_or(|place| place.hold_for(&caller.user))
}

/// True for the path of a protected endpoint: `/mcp`, `/mcp/{backend}`, with or without a trailing slash; `/sse`,
/// `/sse/{backend}`, `/messages`, `/ws`, `/ws/{backend}`. The documents below them need no credential (`OA-16`), nor
/// does the Server Card at `/mcp/server-card` (SEP-2127).
pub fn is_protected(path: &str) -> bool {
    let Some(path) = path.strip_prefix('/') else { return false };
    let Some((root, below)) = path.split_once('/') else { return matches!(path, "mcp" | "sse" | "messages" | "ws") };
    let is_segment = |text: &str| !text.is_empty() && !text.contains('/');
    match root {
        "mcp" if below == "server-card" => false,
        "mcp" => below.is_empty() || is_segment(below.strip_suffix('/').unwrap_or(below)),
        "sse" | "ws" => is_segment(below),
        _ => false,
    }
}

/// Protects routes of `router` that administer the gateway, such as `/api/status`: they need an access token for the
/// merged endpoint with `mcp:admin`, or an API key with admin rights and direct use (`OA-118`), in the `Authorization`
/// header.
pub fn protect_administration(router: Router, gate: Gate) -> Router {
    router.route_layer(middleware::from_fn_with_state(gate, admit_administrator))
}

async fn admit_administrator(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let endpoint = Endpoint::MERGED;
    let credential = Credential::of(request.headers(), request.uri(), &endpoint, QueryKey::Ignored);
    let needed: Scopes = policy::baseline(&endpoint).iter().cloned().chain([Scope::Admin]).collect();
    let arrived = credential.place_taker(request.headers(), request.uri());
    let refused = match gate.check(&credential, client_ip(&request), arrived).await {
        Ok(verified) => match &verified.opens {
            CredentialAccess::Endpoint(own, _) if *own != endpoint => Some(gate.misplaced(&verified)),
            CredentialAccess::Key(Direct::Refused) => Some(gate.misplaced(&verified)),
            opens => {
                let verdict = verified.caller.subject().administration(opens.scopes());
                let admitted = admitted(verdict, || needed.clone());
                admitted.map(|()| request.extensions_mut().insert(Authorized::of(&verified))).err()
            }
        },
        Err(refusal) => Some(refusal),
    };
    match refused {
        None => next.run(request).await,
        Some(refusal) => refusal.answer(&gate.challenge(&endpoint, needed)),
    }
}

fn refused(refusal: KeyRefusal) -> ResourceRefusal {
    match refusal {
        KeyRefusal::Unknown => ResourceRefusal::InvalidToken,
        KeyRefusal::Limited { retry_after } => ResourceRefusal::Limited(retry_after),
        KeyRefusal::Unavailable(error) => {
            tracing::error!(%error, "a credential cannot be checked");
            ResourceRefusal::Unavailable
        }
    }
}

/// Lets a credential in, or returns why not, with the scopes that another login would need (`needed`).
fn admitted(verdict: EndpointVerdict, needed: impl FnOnce() -> Scopes) -> Result<(), ResourceRefusal> {
    match verdict {
        EndpointVerdict::Open => Ok(()),
        EndpointVerdict::BeyondScopes => Err(ResourceRefusal::InsufficientScope(needed())),
        EndpointVerdict::BeyondRights => Err(ResourceRefusal::NotAllowed),
    }
}

/// True if a credential opens the endpoint. A key opens `/sse`, and the others if direct use is allowed. A token opens
/// its own endpoint (`OA-114`), and a token for `/mcp` or `/mcp/{backend}` also the `/sse` endpoint of the same
/// servers, since old clients log in there without naming a resource. If the operator allows it, a token for `/mcp`
/// also opens the endpoints below.
fn reaches(opens: &CredentialAccess, endpoint: &Endpoint, parent: impl FnOnce() -> ParentAudience) -> bool {
    match opens {
        CredentialAccess::Key(direct) => endpoint.binding == Binding::Sse || *direct == Direct::Allowed,
        CredentialAccess::Endpoint(own, _) if own.binding == Binding::Mcp => {
            matches!(endpoint.binding, Binding::Mcp | Binding::Sse)
                && (own.target == endpoint.target
                    || own.target == Target::Merged && parent() == ParentAudience::Accepted)
        }
        CredentialAccess::Endpoint(own, _) => own == endpoint,
    }
}

/// True for a browser's request for a page: it prefers HTML. Clients accept events or JSON.
fn is_visit(request: &Request) -> bool {
    let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let accepts =
        |kind: &str| accept.split(',').any(|range| range.split(';').next().unwrap_or_default().trim() == kind);
    request.method() == Method::GET
        && !request.headers().contains_key(header::UPGRADE)
        && accept.split([',', ';']).next().is_some_and(|first| first.trim() == "text/html")
        && !accepts("text/event-stream")
}

/// True for a request to `/messages`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Messages {
    Yes,
    No,
}

fn is_messages(request: &Request) -> Messages {
    if request.uri().path().starts_with("/messages") { Messages::Yes } else { Messages::No }
}

fn endpoint_of(path: &str) -> Option<Endpoint> {
    match path {
        "/messages" | "/messages/" => Some(Endpoint { binding: Binding::Sse, target: Target::Merged }),
        path => Endpoint::from_path(path),
    }
}

fn client_ip(request: &Request) -> IpAddr {
    request.extensions().get().map_or(Ipv4Addr::LOCALHOST.into(), |ClientIp(ip)| *ip)
}

/// A key in a URL leaks through caches and referrers and is deprecated (`OA-124`; RFC 9745, from the date when
/// 2025-03-26 replaced HTTP+SSE).
fn mark_query_key(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(HeaderName::from_static("deprecation"), HeaderValue::from_static("@1742947200"));
}
