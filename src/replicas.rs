//! Replicas of one gateway on one database. Each owns what is in its memory: sessions, and calls that wait for their client.
//! A request that comes to another replica is carried to the owner; an owner that is gone is succeeded (design rule 9).
//! Knows requests only by the ids in them, and nothing of MCP.
//!
//! | File | Content |
//! |---|---|
//! | `membership` | the lease of this replica, and who the others are |
//! | `identity` | the keys by which replicas know each other |
//! | `door` | the listener for other replicas |
//! | `connector`, `hop`, `lent_body`, `carried_body` | a request on its way to another replica, and its answer |
//! | `fenced_body` | an answer that stops with the lease |

mod carried_body;
mod connector;
mod door;
mod fenced_body;
mod hop;
mod identity;
mod lent_body;
mod membership;
#[cfg(test)]
mod tests;

use std::time::Duration;

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use http::{StatusCode, header, request::Parts};
use moka::sync::Cache;
use tokio::{
    net::TcpListener,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

pub use self::{
    door::{CarriedRequests, PeerStream, ReplicaDoor},
    identity::IdentityError,
    membership::{Deposed, JoinError},
};
use self::{
    fenced_body::FencedBody,
    hop::{Carried, Carrier},
    membership::{LEASE, Membership},
};
use crate::{
    model::{OwnedElsewhere, ReplicaAddress, ReplicaNumber, RequestPlace},
    storage::Storage,
    support::Fence,
    wire::headers,
};

/// Maximum time in which a request finds the replica that answers it: until the lease of one that was lost is over, and
/// another has succeeded it.
const PATIENCE: Duration = LEASE.saturating_mul(2);
/// Wait before the next attempt at a replica that cannot be reached.
const RETRIED_AFTER: Duration = Duration::from_millis(250);
/// Wait before the next look for the owner of what a replica has just given up.
const LOOKED_AFTER: Duration = Duration::from_millis(20);
/// Sessions of which this replica remembers who has succeeded their first owner, and for how long without use.
const MOVED: (u64, Duration) = (100_000, Duration::from_mins(10));

/// This replica among the others. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Replicas {
    membership: Membership,
    carrier: Carrier,
    moved: Cache<String, ReplicaNumber>,
    /// Cancelled when this replica serves nothing any more.
    stopping: CancellationToken,
}

// === impl Replicas ===

impl Replicas {
    /// Joins the replicas on this database. Others reach this one at `address`, where `listener` listens.
    ///
    /// # Errors
    ///
    /// [`JoinError`].
    pub async fn join(
        storage: Storage,
        address: &ReplicaAddress,
        listener: TcpListener,
    ) -> Result<(Self, ReplicaDoor), JoinError> {
        let membership = Membership::join(storage, address).await?;
        let door = ReplicaDoor::new(listener, membership.clone()).map_err(IdentityError::from)?;
        let moved = Cache::builder().max_capacity(MOVED.0).time_to_idle(MOVED.1).build();
        let (carrier, stopping) = (Carrier::new(membership.clone()), CancellationToken::new());
        Ok((Self { membership, carrier, moved, stopping }, door))
    }

    /// The number of this replica.
    pub fn number(&self) -> ReplicaNumber {
        self.membership.number()
    }

    /// Open while this replica owns what it has.
    pub fn fence(&self) -> Fence {
        self.membership.fence().clone()
    }

    /// Renews the lease until `stop`.
    ///
    /// # Errors
    ///
    /// [`Deposed`].
    pub async fn keep(&self, stop: CancellationToken) -> Result<(), Deposed> {
        self.membership.keep(&stop).await
    }

    /// Serves no more requests of others: they wait until this replica has left.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// Leaves the others, when nothing is served any more.
    pub async fn leave(&self) {
        self.membership.leave().await;
    }

    /// Answers a request for an MCP endpoint: by `here`, or by the replica that has the session or the call.
    pub async fn answer<F>(&self, request: Request, here: impl Fn(Request) -> F + Send + Sync) -> Response
    where
        F: Future<Output = Response> + Send,
    {
        let is_carried = request.extensions().get() == Some(&RequestPlace::Carried);
        if is_carried && self.stopping.is_cancelled() {
            return not_there();
        }
        if !self.membership.fence().is_open() {
            // another may have what it names by now
            return if is_carried { not_there() } else { unavailable(RETRY_LATER) };
        }
        let answer = if is_carried { here(request).await } else { self.find(request, here).await };
        self.membership.fence().opened().await;
        answer.map(|body| Body::new(FencedBody::new(body, self.fence())))
    }

    async fn find<F>(&self, request: Request, here: impl Fn(Request) -> F + Send + Sync) -> Response
    where
        F: Future<Output = Response> + Send,
    {
        let (mut parts, mut body) = request.into_parts();
        let session = session(&parts).map(str::to_owned);
        let until = Instant::now() + PATIENCE;
        let mut owner = session.as_deref().and_then(|id| self.owner(id));
        while Instant::now() < until {
            let Some(number) = owner.take() else {
                let mut answer = here(Request::from_parts(parts.clone(), body)).await;
                let Some(elsewhere) = answer.extensions_mut().remove::<OwnedElsewhere>() else { return answer };
                body = Body::from(elsewhere.body);
                if self.membership.find(elsewhere.owner).await.is_none() {
                    // it is gone, or was when this replica looked
                    if parts.extensions.insert(RequestPlace::Here).is_some() {
                        sleep(RETRIED_AFTER).await;
                    }
                } else {
                    owner = Some(elsewhere.owner);
                    if let Some(id) = &session {
                        self.moved.insert(id.clone(), elsewhere.owner);
                    }
                }
                continue;
            };
            let Some(peer) = self.membership.known(number) else { continue };
            if peer.is_late() {
                self.membership.gone(number, RETRIED_AFTER).await;
                owner = Some(number);
                continue;
            }
            let wait = match self.carrier.carry((number, &peer), &parts, body).await {
                Carried::Answered(answer) => {
                    count("answered");
                    return answer;
                }
                Carried::NotThere(back) => {
                    body = back;
                    LOOKED_AFTER
                }
                Carried::Unreachable(back) => {
                    body = back;
                    RETRIED_AFTER
                }
                Carried::Lost => {
                    count("lost");
                    return unavailable(LOST);
                }
            };
            if let Some(id) = &session {
                self.moved.invalidate(id);
            }
            self.membership.gone(number, wait).await;
        }
        count("not_found");
        unavailable(RETRY_LATER)
    }

    /// The other replica that has this session, as far as the id and what is remembered tell.
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

/// The session that a request names: in its header, or in the query of `/messages`.
fn session(parts: &Parts) -> Option<&str> {
    if let Some(named) = parts.headers.get(headers::SESSION_ID) {
        return named.to_str().ok();
    }
    let query = parts.uri.query().filter(|_| parts.uri.path().starts_with("/messages"))?;
    query.split('&').find_map(|pair| pair.strip_prefix("session_id="))
}

/// The answer of a replica that does not have what a carried request names.
fn not_there() -> Response {
    StatusCode::MISDIRECTED_REQUEST.into_response()
}

const RETRY_LATER: &str = "The replica of this gateway that has the session cannot be reached, and its lease still \
                           runs: try again in a few seconds";
const LOST: &str =
    "The replica of this gateway that has the session was lost before it answered: the call may have run";

/// 503 with an error of JSON-RPC, as for anything else that may be tried again.
fn unavailable(message: &str) -> Response {
    let text = format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32603,"message":"{message}"}}}}"#);
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::RETRY_AFTER, "3")];
    (StatusCode::SERVICE_UNAVAILABLE, headers, text).into_response()
}

fn count(outcome: &'static str) {
    metrics::counter!("lockkeeper_replica_hops_total", "outcome" => outcome).increment(1);
}
