//! Replicas on one store, as a request meets them.

use std::sync::Arc;

use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use super::*;
use crate::{
    listener::{Lifecycle, ListenerSettings, Timeouts, Workers, serve},
    model::ClientIp,
};

/// A replica that answers with what it got, under its number.
struct Member {
    replicas: Replicas,
    /// Ends its listener and the connections of others.
    end: CancellationToken,
    /// The bodies that it got.
    got: Arc<Mutex<Vec<String>>>,
}

impl Member {
    async fn join(storage: &Storage) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = ReplicaAddress::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        let (replicas, door) = Replicas::join(storage.clone(), &address, listener).await.unwrap();
        let member = Self { replicas, end: CancellationToken::new(), got: Arc::default() };
        let (router, settings) = (
            member.router(),
            ListenerSettings {
                connections: 100,
                connections_per_address: 100,
                proxies: Vec::new(),
                timeouts: Timeouts::default(),
            },
        );
        let (tracker, workers) = (TaskTracker::new(), Workers::present());
        let lifecycle = Lifecycle { workers, tracker, drain: member.end.clone(), cancel: member.end.clone() };
        let owner = lifecycle.tracker.clone();
        owner.spawn(serve(door, CarriedRequests(router), settings, lifecycle));
        member
    }

    /// Its routes, as the main listener and the one for others have them.
    fn router(&self) -> axum::Router {
        let (replicas, got) = (self.replicas.clone(), Arc::clone(&self.got));
        axum::Router::new().fallback(move |request: Request| {
            let (replicas, got) = (replicas.clone(), Arc::clone(&got));
            async move {
                let number = replicas.number();
                replicas.answer(request, |request| echo(request, number, Arc::clone(&got))).await
            }
        })
    }

    async fn answer(&self, request: Request) -> Response {
        self.router().call(request).await.unwrap()
    }
}

/// Answers with what came; a session `kept-N` is one that only the replica N has.
async fn echo(request: Request, number: ReplicaNumber, got: Arc<Mutex<Vec<String>>>) -> Response {
    let (parts, body) = request.into_parts();
    let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    let session = session(&parts).unwrap_or_default();
    let owner = session.strip_prefix("kept-").and_then(|rest| ReplicaNumber::parse(rest.split('.').next()?));
    if let Some(owner) = owner.filter(|owner| *owner != number && parts.extensions.get() != Some(&RequestPlace::Here)) {
        let mut response = StatusCode::MISDIRECTED_REQUEST.into_response();
        response.extensions_mut().insert(OwnedElsewhere { owner, body: body.into() });
        return response;
    }
    got.lock().push(body.clone());
    let from = parts.extensions.get().map_or(String::new(), |ClientIp(ip)| ip.to_string());
    let carried = parts.headers.contains_key("connection") || parts.headers.contains_key("lockkeeper-client-ip");
    let told = format!("{number} {} {} {from}{}", parts.method, parts.uri, if carried { " hop-by-hop" } else { "" });
    ([("x-told", told)], body).into_response()
}

fn post(session: &str, body: impl Into<Body>) -> Request {
    let request = Request::post("/mcp/git?a=b").header("mcp-session-id", session);
    let request = request.header("authorization", "Bearer k").header("connection", "keep-alive, x-mine");
    request.header("x-mine", "1").body(body.into()).unwrap()
}

async fn told(response: Response) -> (String, String) {
    let told = response.headers().get("x-told").map(|told| told.to_str().unwrap().to_owned()).unwrap_or_default();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (told, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_request_is_answered_by_the_replica_that_its_session_names() {
    let storage = Storage::in_memory().await.unwrap();
    let (one, two) = (Member::join(&storage).await, Member::join(&storage).await);
    one.replicas.membership.look_for_tests().await;
    let id = two.replicas.number().mark("s".to_owned());
    let (told, body) = told(one.answer(post(&id, "hello")).await).await;
    assert_eq!((told.as_str(), body.as_str()), ("2 POST /mcp/git?a=b", "hello"));
    assert!(one.got.lock().is_empty());
}

#[tokio::test]
async fn what_only_the_store_knows_is_found_and_its_body_goes_along() {
    let storage = Storage::in_memory().await.unwrap();
    let (one, two) = (Member::join(&storage).await, Member::join(&storage).await);
    // the replica that opened the session is gone: its id names none that is there
    for _ in 0..2 {
        let (told, body) = told(one.answer(post("kept-2.77", "hello")).await).await;
        assert_eq!((told.as_str(), body.as_str()), ("2 POST /mcp/git?a=b", "hello"));
    }
    assert_eq!(two.got.lock().len(), 2);
    assert_eq!(one.replicas.moved.get("kept-2.77"), Some(two.replicas.number()), "it is remembered");
    // nobody has it: this replica says so itself
    let (told, _) = told(one.answer(post("kept-9.9", "x")).await).await;
    assert!(told.starts_with("1 POST"), "{told}");
}

#[tokio::test]
async fn a_request_whose_replica_has_left_is_answered_here_with_its_whole_body() {
    let storage = Storage::in_memory().await.unwrap();
    let (one, two) = (Member::join(&storage).await, Member::join(&storage).await);
    let id = two.replicas.number().mark("s".to_owned());
    two.replicas.stop();
    let parts = futures_util::stream::iter(["hel", "lo"]).map(Ok::<_, axum::Error>);
    let leaving = async {
        two.end.cancel();
        two.replicas.leave().await;
        one.replicas.membership.look_for_tests().await;
    };
    let (answer, ()) = tokio::join!(one.answer(post(&id, Body::from_stream(parts))), leaving);
    let (told, body) = told(answer).await;
    assert!(told.starts_with("1 POST"), "{told}");
    assert_eq!(body, "hello");
}

#[tokio::test]
async fn only_replicas_of_the_store_are_let_in() {
    let (storage, elsewhere) = (Storage::in_memory().await.unwrap(), Storage::in_memory().await.unwrap());
    let one = Member::join(&storage).await;
    let stranger = Member::join(&elsewhere).await;
    // the stranger knows address and key of the other
    let row = storage.replicas().list().await.unwrap().remove(0);
    elsewhere.replicas().join(&row.address, &row.public_key, LEASE).await.unwrap();
    stranger.replicas.membership.look_for_tests().await;
    let (told, _) = told(stranger.answer(post("s.2", "hello")).await).await;
    assert!(!told.starts_with('1'), "{told}");
    assert!(one.got.lock().is_empty());
}

#[tokio::test]
async fn a_replica_without_a_lease_serves_nothing_and_answers_nothing() {
    let storage = Storage::in_memory().await.unwrap();
    let one = Member::join(&storage).await;
    let (begun, begins) = oneshot::channel();
    let (begun, fence) = (Mutex::new(Some(begun)), one.replicas.fence());
    let slow = |_: Request| {
        begun.lock().take().map(|begun| begun.send(()));
        // the lease ends while the call runs
        fence.open_until(Instant::now());
        async { StatusCode::OK.into_response() }
    };
    let mut answer = Box::pin(one.replicas.answer(post("s.1", ""), slow));
    assert!(futures_util::poll!(&mut answer).is_pending());
    begins.await.unwrap();
    let refused = one.answer(post("s.1", "")).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key(header::RETRY_AFTER));
    assert!(one.got.lock().is_empty());
    fence.open_until(Instant::now() + LEASE);
    assert_eq!(answer.await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_deposed_replica_learns_it_and_keeps_nothing() {
    let storage = Storage::in_memory().await.unwrap();
    let one = Member::join(&storage).await;
    storage.replicas().leave(one.replicas.number()).await.unwrap();
    assert_eq!(one.replicas.keep(CancellationToken::new()).await, Err(Deposed));
}
