//! One request carried to another replica, with its answer streamed back.

use axum::{body::Body, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Version, header, request::Parts};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioTimer},
};

use super::{
    carried_body::CarriedBody,
    connector::{PeerConnector, uri},
    lent_body::{BodyOwner, LentBody, lend},
    membership::{Membership, Peer},
    tunnel::Tunnels,
};
use crate::{
    model::{ClientIp, ReplicaNumber, RequestPlace},
    support::MemoryBudget,
};

/// The address of the client, for the other replica.
pub(super) const CLIENT_IP: HeaderName = HeaderName::from_static("lockkeeper-client-ip");

/// Marks a refused message, from which only answers are accepted: [`RequestPlace::Late`].
pub(super) const LATE: HeaderName = HeaderName::from_static("lockkeeper-late");

/// Headers of one connection (RFC 9110 7.6.1), or of the path to this replica.
const OF_CONNECTION: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
];

/// An answer up to this size in bytes is read whole before any of it is sent on.
const MAX_SHORT: u64 = 64 * 1024;

/// Maximum number of idle connections kept to each other replica.
const IDLE_CONNECTIONS: usize = 256;

/// Carries requests. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Carrier {
    client: Client<PeerConnector, LentBody>,
    tunnels: Tunnels,
    budget: MemoryBudget,
}

/// The outcome for a carried request.
pub(super) enum Carried {
    /// The other replica answered.
    Answered(Response),
    /// It lacks what the request names; the body of the request.
    NotThere(Body),
    /// It was unreachable and got nothing; the body of the request.
    Unreachable(Body),
    /// Neither could serve it, and there was no memory to keep its body for another.
    Forgotten,
    /// It was lost after it may have received the request; the body, if there was memory to keep it.
    Lost(Option<Body>),
}

// === impl Carrier ===

impl Carrier {
    pub(super) fn new(membership: Membership, tunnels: Tunnels, budget: MemoryBudget) -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_max_idle_per_host(IDLE_CONNECTIONS).set_host(false);
        Self { client: builder.build(PeerConnector(membership)), tunnels, budget }
    }

    /// Carries a request to a replica with its original credential, which that replica checks as if the request had
    /// come there.
    pub(super) async fn carry(&self, to: ReplicaNumber, peer: &Peer, parts: &mut Parts, body: Body) -> Carried {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let Ok(uri) = uri(to, path) else { return Carried::NotThere(body) };
        // the other replica finds out whose it is
        let account = match parts.extensions.get() {
            Some(ClientIp(address)) => self.budget.address(*address),
            None => self.budget.process(),
        };
        let (lent, owner) = lend(body, account);
        let mut request = Request::new(lent);
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_11;
        *request.headers_mut() = end_to_end(parts);
        Tunnels::ask(parts, request.headers_mut());
        let answered = tokio::select! {
            biased;
            answered = self.client.request(request) => answered,
            // only a message has an effect that must not happen twice
            () = peer.silence() => {
                let is_message = parts.method == Method::POST;
                return if is_message { Carried::Lost(owner.take_back()) } else { Carried::back(owner, Carried::NotThere) };
            }
        };
        match answered {
            Ok(answer) if answer.status() == StatusCode::MISDIRECTED_REQUEST => Carried::back(owner, Carried::NotThere),
            Ok(answer) => match self.tunnels.open(answer, parts, peer.silence()) {
                Ok(tunnelled) => Carried::Answered(tunnelled),
                Err(plain) => match answer_of(plain, peer).await {
                    Some(answer) => Carried::Answered(answer),
                    None => Carried::Lost(owner.take_back()),
                },
            },
            Err(error) if error.is_connect() => Carried::back(owner, Carried::Unreachable),
            Err(error) => {
                tracing::warn!(replica = %to, %error, "a replica was lost before it answered");
                Carried::Lost(owner.take_back())
            }
        }
    }
}

// === impl Carried ===

impl Carried {
    fn back(owner: BodyOwner, outcome: fn(Body) -> Self) -> Self {
        owner.take_back().map_or(Self::Forgotten, outcome)
    }
}

/// The headers of a request without hop-by-hop ones.
fn end_to_end(parts: &Parts) -> HeaderMap {
    let mut headers = parts.headers.clone();
    without_those_of_connection(&mut headers);
    headers.remove(LATE);
    if parts.extensions.get() == Some(&RequestPlace::Late) {
        headers.insert(LATE, HeaderValue::from_static("1"));
    }
    if let Some(ClientIp(ip)) = parts.extensions.get()
        && let Ok(value) = HeaderValue::from_str(&ip.to_string())
    {
        headers.insert(CLIENT_IP, value);
    }
    headers
}

/// The answer for the client. A short one is read first, so that it is written at once, and becomes an error if it
/// breaks off; `None` then.
async fn answer_of(answer: http::Response<hyper::body::Incoming>, peer: &Peer) -> Option<Response> {
    let (head, body) = answer.into_parts();
    let is_short = body.size_hint().exact().is_some_and(|bytes| bytes <= MAX_SHORT);
    let mut body = Body::new(CarriedBody::new(body, peer.silence()));
    if is_short {
        body = body.collect().await.ok()?.to_bytes().into();
    }
    let mut answer = Response::from_parts(head, body);
    *answer.version_mut() = Version::default();
    without_those_of_connection(answer.headers_mut());
    Some(answer)
}

fn without_those_of_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_CONNECTION) {
        headers.remove(name);
    }
}
