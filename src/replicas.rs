//! Replicas of one gateway on one database. Each owns the state in its memory: sessions, and calls that wait for their
//! client. A request that arrives at another replica is carried to the owner; if the owner is gone, another takes over
//! (design rule 9). Requests are known here only by the ids in them.
//!
//! | File | Content |
//! |---|---|
//! | `membership` | the lease of this replica, and the other replicas |
//! | `clocks` | comparison of this machine's clock with the others' |
//! | `identity` | keys by which replicas recognize each other |
//! | `door` | the listener for other replicas |
//! | `connector`, `hop`, `lent_body`, `carried_body` | a request on its way to another replica, and its answer |
//! | `late_answers` | answers of clients that could not be carried in time |
//! | `tunnel` | a WebSocket on its way to another replica |
//! | `fenced_body` | an answer that stops with the lease |
//! | `home` | which replica runs the servers that all share |

mod carried_body;
mod clocks;
mod connector;
mod door;
mod fenced_body;
mod home;
mod hop;
mod identity;
mod late_answers;
mod lent_body;
mod membership;
#[cfg(test)]
mod tests;
mod tunnel;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::{
    Extension,
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use futures_util::StreamExt as _;
use http::{HeaderMap, Method, StatusCode, Uri, header, request::Parts};
use moka::sync::Cache;
use tokio::{
    net::TcpListener,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    door::{CarriedRequests, PeerStream, ReplicaDoor},
    identity::IdentityError,
    membership::{Deposed, JoinError, Unready},
};
use self::{
    fenced_body::FencedBody,
    hop::{Carried, Carrier},
    late_answers::LateAnswers,
    membership::{LEASE, Membership, RENEWED_EVERY},
    tunnel::Tunnels,
};
use crate::{
    model::{OwnedElsewhere, ReplicaAddress, ReplicaNumber, RequestPlace, Target},
    storage::{RESTARTS_WITHIN, Storage},
    support::{Clock, Fence, Latch, MemoryBudget},
    wire::headers::SESSION_ID,
};

/// Maximum time for a request to find the replica that answers it: until the lease of a lost replica is over, and
/// another has taken its place.
const PATIENCE: Duration = LEASE.saturating_mul(2);
/// The same for a request that the home answers. The old home may have to end its servers first, before another starts
/// them.
const PATIENCE_AT_HOME: Duration = Duration::from_mins(1);
/// Wait before the next attempt at a replica that cannot be reached.
const RETRIED_AFTER: Duration = Duration::from_millis(250);
/// Wait before the next look for the owner of something a replica has just given up.
const LOOKED_AFTER: Duration = Duration::from_millis(20);
/// After this time all others know that a replica has left: each looks once in [`RENEWED_EVERY`].
const KNOWN_TO_ALL: Duration = RENEWED_EVERY.saturating_add(Duration::from_millis(500));
/// How many sessions this replica remembers as taken over by another owner, and for how long without use.
const MOVED: (u64, Duration) = (100_000, Duration::from_mins(10));

/// This replica among the others. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Replicas {
    membership: Membership,
    carrier: Carrier,
    late: LateAnswers,
    moved: Cache<String, ReplicaNumber>,
    /// Other replicas' requests being answered here.
    guests: TaskTracker,
    tunnels: Tunnels,
    /// Cancelled when this replica is about to stop: idle streams are ended.
    draining: CancellationToken,
    /// Cancelled when this replica stops serving.
    stopping: CancellationToken,
}

/// The replica to try for a request.
enum Place {
    This,
    Other(ReplicaNumber),
    /// It needs the home, and there is none.
    NoHome,
}

/// The parts of the gateway that replicas need.
pub struct ReplicaDeps {
    /// The shared database.
    pub storage: Storage,
    /// Compared with the database's.
    pub clock: Arc<dyn Clock>,
    /// The budget for bodies in transit to another replica.
    pub budget: MemoryBudget,
}

/// A request that was not answered at the tried replica.
struct Untaken {
    body: Body,
    /// The replica to try next.
    next: Option<ReplicaNumber>,
}

// === impl Replicas ===

impl Replicas {
    /// Joins the replicas on this database. Others reach this one at `address`, where `listener` listens. Only the home
    /// answers the endpoints `at_home`.
    ///
    /// # Errors
    ///
    /// [`JoinError`].
    pub async fn join(
        deps: ReplicaDeps,
        address: &ReplicaAddress,
        listener: TcpListener,
        at_home: BTreeSet<Target>,
    ) -> Result<(Self, ReplicaDoor), JoinError> {
        let ReplicaDeps { storage, clock, budget } = deps;
        let membership = Membership::join(storage, clock, address, at_home).await?;
        let door = ReplicaDoor::new(listener, membership.clone()).map_err(IdentityError::from)?;
        let moved = Cache::builder().max_capacity(MOVED.0).time_to_idle(MOVED.1).build();
        let (tunnels, guests) = (Tunnels::default(), TaskTracker::new());
        let carrier = Carrier::new(membership.clone(), tunnels.clone(), budget);
        let (draining, stopping) = (CancellationToken::new(), CancellationToken::new());
        let late = LateAnswers::new(membership.clone(), carrier.clone(), stopping.clone());
        Ok((Self { membership, carrier, late, moved, guests, tunnels, draining, stopping }, door))
    }

    /// The number of this replica.
    pub fn number(&self) -> ReplicaNumber {
        self.membership.number()
    }

    /// Why this replica should get no requests at the moment, if so.
    pub fn unready(&self) -> Option<Unready> {
        self.membership.unready()
    }

    /// Open while this replica owns its state.
    pub fn fence(&self) -> Fence {
        self.membership.fence().clone()
    }

    /// Open once this replica is the home, which runs the shared servers.
    pub fn home(&self) -> Latch {
        self.membership.home().here().clone()
    }

    /// The home answers requests for these endpoints, since their servers run there.
    pub fn serve_at_home(&self, endpoints: BTreeSet<Target>) {
        self.membership.home().set_targets(endpoints);
    }

    /// Renews the lease until `stop`.
    ///
    /// # Errors
    ///
    /// [`Deposed`].
    pub async fn keep(&self, stop: CancellationToken) -> Result<(), Deposed> {
        self.membership.keep(&stop).await
    }

    /// Gives up the role of home, since this replica is about to stop, and ends carried streams without a running call:
    /// their clients open them again elsewhere.
    pub fn drain(&self) {
        self.membership.home().close();
        self.draining.cancel();
    }

    /// Waits until this replica answers no other replica's request, and carries no WebSocket.
    pub async fn quiet(&self) {
        for tasks in [&self.guests, &self.tunnels.tasks] {
            tasks.close();
            tasks.wait().await;
        }
    }

    /// Stops answering others' requests, once they are quiet.
    pub async fn finished(&self) {
        self.quiet().await;
        self.stopping.cancel();
        self.guests.wait().await;
    }

    /// Stops serving others' requests: they wait until this replica has left.
    pub fn stop(&self) {
        self.stopping.cancel();
        self.tunnels.end.cancel();
    }

    /// Leaves the others, after it stopped serving. Until all of them know, it returns the requests they carry here:
    /// closing a connection early would leave open whether a call ran.
    pub async fn leave(&self) {
        self.membership.leave().await;
        if self.membership.has_others() {
            sleep(KNOWN_TO_ALL).await;
        }
    }

    /// Answers a request for an MCP endpoint: by `here`, or by the replica that has the session or the call. A request
    /// refused because the database is away goes `here` as [`RequestPlace::Refused`].
    pub async fn answer<F>(&self, request: Request, here: impl Fn(Request) -> F + Send + Sync) -> Response
    where
        F: Future<Output = Response> + Send,
    {
        let place: RequestPlace = request.extensions().get().copied().unwrap_or_default();
        let is_carried = matches!(place, RequestPlace::Carried | RequestPlace::Late);
        // counted before the check for the end, which waits for counted requests
        let running = is_carried.then(|| self.guests.token());
        if is_carried && self.stopping.is_cancelled() {
            return not_there();
        }
        if place == RequestPlace::Refused {
            return here(request).await;
        }
        if !self.membership.fence().is_open() {
            if is_carried {
                // another may have it by now
                return not_there();
            }
            if timeout(RESTARTS_WITHIN, self.membership.fence().opened()).await.is_err() {
                return self.refuse(request, here).await;
            }
        }
        let answer = if is_carried { self.receive(request, here).await } else { self.find(request, here).await };
        if answer.status().is_server_error() {
            // an error reveals nothing of this replica's state
            return answer;
        }
        self.membership.fence().opened().await;
        answer.map(|body| Body::new(FencedBody::new(body, self.fence(), running)))
    }

    /// Refuses a request: a pending request may wait for its content, here or at the replica with its session.
    async fn refuse<F>(&self, mut request: Request, here: impl Fn(Request) -> F) -> Response
    where
        F: Future<Output = Response> + Send,
    {
        let Some(number) = session(request.headers(), request.uri()).and_then(|id| self.owner(id)) else {
            request.extensions_mut().insert(RequestPlace::Refused);
            return here(request).await;
        };
        let (parts, body) = request.into_parts();
        self.late.keep(number, &parts, body);
        unavailable(NO_LEASE)
    }

    /// Answers a request that another replica carried here. That replica may know before this one that this is the
    /// home.
    async fn receive<F>(&self, request: Request, here: impl Fn(Request) -> F + Send + Sync) -> Response
    where
        F: Future<Output = Response> + Send,
    {
        if self.needs_home(request.headers(), request.uri()) && !self.membership.home().here().is_open() {
            self.membership.look_again().await;
        }
        here(request).await
    }

    async fn find<F>(&self, request: Request, here: impl Fn(Request) -> F + Send + Sync) -> Response
    where
        F: Future<Output = Response> + Send,
    {
        let (mut parts, mut body) = request.into_parts();
        let id = session(&parts.headers, &parts.uri).map(str::to_owned);
        let needs_home = self.needs_home(&parts.headers, &parts.uri);
        let until = Instant::now() + if needs_home { PATIENCE_AT_HOME } else { PATIENCE };
        let mut owner = id.as_deref().and_then(|id| self.owner(id));
        if let Some(id) = id.as_deref().filter(|_| owner.is_none() && is_of_connection(&parts.uri)) {
            // no row names its owner, and its replica may have joined a moment ago
            self.membership.find(ReplicaNumber::unmark(id).1).await;
            owner = self.owner(id);
        }
        while Instant::now() < until {
            let place = match owner {
                Some(number) => Place::Other(number),
                None if needs_home => self.home_place(),
                None => Place::This,
            };
            let tried = match place {
                Place::This => self.try_here(&mut parts, body, id.as_ref(), &here).await,
                Place::Other(number) => self.try_at(number, &mut parts, body, id.as_ref()).await,
                Place::NoHome => Err(Untaken { body, next: None }),
            };
            let untaken = match tried {
                Ok(answer) => return answer,
                Err(untaken) => untaken,
            };
            (body, owner) = (untaken.body, untaken.next);
            if needs_home && owner.is_none() {
                self.membership.look_again().await;
            }
        }
        if let Some(number) = id.as_deref().and_then(|id| self.owner(id)) {
            self.late.keep(number, &parts, body);
        }
        count("not_found");
        unavailable(RETRY_LATER)
    }

    async fn try_here<F>(
        &self,
        parts: &mut Parts,
        body: Body,
        session: Option<&String>,
        here: impl Fn(Request) -> F,
    ) -> Result<Response, Untaken>
    where
        F: Future<Output = Response> + Send,
    {
        let mut answer = here(Request::from_parts(parts.clone(), body)).await;
        let Some(elsewhere) = answer.extensions_mut().remove::<OwnedElsewhere>() else { return Ok(answer) };
        let body = Body::from(elsewhere.body);
        if self.membership.find(elsewhere.owner).await.is_some() {
            if let Some(id) = session {
                self.moved.insert(id.clone(), elsewhere.owner);
            }
            return Err(Untaken { body, next: Some(elsewhere.owner) });
        }
        // it is gone, or was when this replica looked
        if parts.extensions.insert(RequestPlace::Here).is_some() {
            sleep(RETRIED_AFTER).await;
        }
        Err(Untaken { body, next: None })
    }

    async fn try_at(
        &self,
        number: ReplicaNumber,
        parts: &mut Parts,
        body: Body,
        session: Option<&String>,
    ) -> Result<Response, Untaken> {
        let Some(peer) = self.membership.known(number) else { return Err(Untaken { body, next: None }) };
        if peer.is_late() {
            self.membership.gone(number, RETRIED_AFTER).await;
            return Err(Untaken { body, next: Some(number) });
        }
        let (body, wait, next) = match self.carrier.carry(number, &peer, parts, body).await {
            Carried::Answered(answer) => {
                count("answered");
                return Ok(if is_only_waiting(parts, &answer) { self.until_drained(answer) } else { answer });
            }
            // a session that is its connection has no other owner
            Carried::NotThere(back) => {
                let wait = if self.membership.fence().is_open() { LOOKED_AFTER } else { RETRIED_AFTER };
                (back, wait, is_of_connection(&parts.uri).then_some(number))
            }
            // no other replica can have the session before that one is gone: no need to ask the store
            Carried::Unreachable(back) => (back, RETRIED_AFTER, session.is_some().then_some(number)),
            Carried::Forgotten => {
                count("forgotten");
                return Ok(unavailable(NO_MEMORY));
            }
            Carried::Lost(back) => {
                count("lost");
                // only a message has an effect that must not happen twice; an accepted answer is accepted once
                let is_message = parts.method == Method::POST;
                if let Some(back) = back {
                    self.late.keep(number, parts, back);
                }
                return Ok(if is_message { lost() } else { unavailable(RETRY_LATER) });
            }
        };
        if let Some(id) = session {
            self.moved.invalidate(id);
        }
        self.membership.gone(number, wait).await;
        Err(Untaken { body, next })
    }

    /// The answer, until this replica is about to stop.
    fn until_drained(&self, answer: Response) -> Response {
        let draining = self.draining.clone();
        answer.map(|body| Body::from_stream(body.into_data_stream().take_until(draining.cancelled_owned())))
    }

    /// True for a request that the home answers. A session opened by this replica is here, wherever the home is now.
    fn needs_home(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        let is_own = session(headers, uri).is_some_and(|id| ReplicaNumber::unmark(id).1 == self.number());
        !is_own && self.membership.home().serves(uri.path())
    }

    fn home_place(&self) -> Place {
        let home = self.membership.home();
        match home.other() {
            _ if home.here().is_open() => Place::This,
            Some(other) if self.membership.known(other).is_some() => Place::Other(other),
            _ => Place::NoHome,
        }
    }

    /// The other replica with this session, according to the id and the remembered moves.
    fn owner(&self, id: &str) -> Option<ReplicaNumber> {
        let (_, first) = ReplicaNumber::unmark(id);
        if first == self.number() || first == ReplicaNumber::SOLE {
            return None;
        }
        if self.membership.known(first).is_some() {
            return Some(first);
        }
        self.moved.get(id).filter(|number| self.membership.known(*number).is_some())
    }
}

/// The session named in a request: in its header, or in the query of `/messages`.
fn session<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    if let Some(named) = headers.get(SESSION_ID) {
        return named.to_str().ok();
    }
    let query = uri.query().filter(|_| is_of_connection(uri))?;
    query.split('&').find_map(|pair| pair.strip_prefix("session_id="))
}

/// True for a message of a session that is its connection.
fn is_of_connection(uri: &Uri) -> bool {
    uri.path().starts_with("/messages")
}

/// True for a stream that a client can open again elsewhere without a loss. A stream without a session id is its own
/// session.
fn is_only_waiting(parts: &Parts, answer: &Response) -> bool {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    parts.method == Method::GET
        && parts.headers.contains_key(SESSION_ID)
        && kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// The answer of a replica that lacks what a carried request names.
fn not_there() -> Response {
    (StatusCode::MISDIRECTED_REQUEST, Extension(RequestPlace::Carried)).into_response()
}

const RETRY_LATER: &str = "The replica of this gateway that has the session or the server cannot be reached, and its lease \
                           still runs: try again in a few seconds";
const NO_LEASE: &str = "The database of this gateway does not answer: try again in a few seconds";
const NO_MEMORY: &str = "The replica of this gateway that was asked first does not have the session or the server, and this \
                         one had no memory to keep the message for another: try again";
const LOST: &str = "The replica of this gateway that has the session or the server was lost before it answered: the call may \
                    have run";

/// 503, as for any request that did not run and may be retried.
fn unavailable(message: &str) -> Response {
    let answer = refused(StatusCode::SERVICE_UNAVAILABLE, message, r#"{"retryable":true}"#);
    ([(header::RETRY_AFTER, "3")], answer).into_response()
}

/// 502, meaning that the call may have run, as for a lost server.
fn lost() -> Response {
    refused(StatusCode::BAD_GATEWAY, LOST, r#"{"retryable":false,"mayHaveRun":true}"#)
}

/// An error of JSON-RPC.
fn refused(status: StatusCode, message: &str, data: &str) -> Response {
    let error = format!(r#"{{"code":-32603,"message":"{message}","data":{data}}}"#);
    let text = format!(r#"{{"jsonrpc":"2.0","id":null,"error":{error}}}"#);
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn count(outcome: &'static str) {
    metrics::counter!("lockkeeper_replica_hops_total", "outcome" => outcome).increment(1);
}
