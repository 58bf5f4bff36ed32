//! Replicas on one store, as a request meets them.

mod leases;

use std::sync::Arc;

use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::oneshot,
    time::pause,
};
use tokio_util::{sync::DropGuard, task::TaskTracker};
use tower::Service as _;

use super::*;
use crate::{
    listener::{Accept, Lifecycle, ListenerSettings, Serve, Workers, serve},
    model::{ClientIp, Endpoint},
    support::{Live, SystemClock},
};

/// A replica that answers with what it got, under its number.
struct Member {
    replicas: Replicas,
    /// Ends its listener and the connections of others.
    end: CancellationToken,
    /// The bodies that it got.
    got: Arc<Mutex<Vec<String>>>,
}

fn deps(storage: &Storage) -> ReplicaDeps {
    let (storage, clock) = (storage.clone(), Arc::new(SystemClock));
    ReplicaDeps { storage, clock, budget: MemoryBudget::unbounded() }
}

impl Member {
    async fn join(storage: &Storage) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = ReplicaAddress::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        let (replicas, door) = Replicas::join(deps(storage), &address, listener, BTreeSet::new()).await.unwrap();
        let member = Self { replicas, end: CancellationToken::new(), got: Arc::default() };
        serve_on(door, CarriedRequests(member.router()), &member.end);
        member
    }

    /// Two of them, the first under number 1.
    async fn pair(storage: &Storage) -> (Self, Self) {
        (Self::join(storage).await, Self::join(storage).await)
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

    /// Its address for clients, until the token is cancelled or dropped.
    async fn listen(&self) -> (std::net::SocketAddr, DropGuard) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, end) = (listener.local_addr().unwrap(), self.end.child_token());
        serve_on(listener, self.router(), &end);
        (address, end.drop_guard())
    }

    async fn answer(&self, request: Request) -> Response {
        self.router().call(request).await.unwrap()
    }
}

/// Serves until the end.
fn serve_on(listener: impl Accept + Send + 'static, service: impl Serve, end: &CancellationToken) {
    let settings = ListenerSettings { connections: 100, limits: Live::default(), proxies: Vec::new() };
    let (tracker, workers) = (TaskTracker::new(), Workers::present());
    let lifecycle = Lifecycle { workers, tracker, drain: end.clone(), cancel: end.clone() };
    let owner = lifecycle.tracker.clone();
    owner.spawn(serve(listener, service, settings, lifecycle));
}

/// Answers with what came, and refuses what has to be refused; a session `kept-N` is one that only the replica N has.
async fn echo(request: Request, number: ReplicaNumber, got: Arc<Mutex<Vec<String>>>) -> Response {
    let (mut parts, body) = request.into_parts();
    if let Some(upgrade) = parts.extensions.remove::<OnUpgrade>() {
        TaskTracker::new().spawn(async move {
            let (mut from, mut to) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
            tokio::io::copy(&mut from, &mut to).await
        });
        return (StatusCode::SWITCHING_PROTOCOLS, [("connection", "upgrade"), ("upgrade", "echo")]).into_response();
    }
    let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    if parts.extensions.get() == Some(&RequestPlace::Late) {
        got.lock().push(format!("late: {body}"));
        return StatusCode::ACCEPTED.into_response();
    }
    if parts.extensions.get() == Some(&RequestPlace::Refused) {
        got.lock().push(format!("refused: {body}"));
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let session = session(&parts.headers, &parts.uri).unwrap_or_default();
    let owner = session.strip_prefix("kept-").and_then(|rest| ReplicaNumber::parse(rest.split('.').next()?));
    if let Some(owner) = owner.filter(|owner| *owner != number && parts.extensions.get() != Some(&RequestPlace::Here)) {
        let mut response = StatusCode::MISDIRECTED_REQUEST.into_response();
        response.extensions_mut().insert(OwnedElsewhere { owner, body: body.into() });
        return response;
    }
    if parts.uri.path().ends_with("/stream") {
        let parts =
            futures_util::stream::iter([Ok::<_, axum::Error>(": open\n\n")]).chain(futures_util::stream::pending());
        return ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(parts)).into_response();
    }
    if body == "break off" {
        let parts = futures_util::stream::iter([Ok("half"), Err(std::io::Error::other("lost"))]);
        return ([("content-length", "9")], Body::from_stream(parts)).into_response();
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
    let storage = Storage::for_tests(None).await.unwrap();
    let (one, two) = Member::pair(&storage).await;
    one.replicas.membership.look_for_tests().await;
    let id = two.replicas.number().mark("s".to_owned());
    let (told, body) = told(one.answer(post(&id, "hello")).await).await;
    assert_eq!((told.as_str(), body.as_str()), ("2 POST /mcp/git?a=b", "hello"));
    assert!(one.got.lock().is_empty());
}

#[tokio::test]
async fn what_only_the_store_knows_is_found_and_its_body_goes_along() {
    let storage = Storage::for_tests(None).await.unwrap();
    let (one, two) = Member::pair(&storage).await;
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
    let storage = Storage::for_tests(None).await.unwrap();
    let (one, two) = Member::pair(&storage).await;
    let id = two.replicas.number().mark("s".to_owned());
    two.replicas.stop();
    let parts = futures_util::stream::iter(["hel", "lo"]).map(Ok::<_, axum::Error>);
    let leaving = async {
        two.end.cancel();
        two.replicas.membership.leave().await;
        one.replicas.membership.look_for_tests().await;
    };
    let (answer, ()) = tokio::join!(one.answer(post(&id, Body::from_stream(parts))), leaving);
    let (told, body) = told(answer).await;
    assert!(told.starts_with("1 POST"), "{told}");
    assert_eq!(body, "hello");
}

#[tokio::test]
async fn what_a_replica_answers_while_it_leaves_arrives() {
    let storage = Storage::for_tests(None).await.unwrap();
    let (one, two) = Member::pair(&storage).await;
    one.replicas.membership.look_for_tests().await;
    let id = two.replicas.number().mark("s".to_owned());
    let (part, parts) = tokio::sync::mpsc::channel::<Result<&str, axum::Error>>(2);
    let answer = one.answer(post(&id, Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(parts))));
    let leaving = async {
        part.send(Ok("hel")).await.unwrap();
        two.replicas.membership.leave().await;
        one.replicas.membership.look_for_tests().await;
        part.send(Ok("lo")).await.unwrap();
        drop(part);
    };
    let (answer, ()) = tokio::join!(answer, leaving);
    let (told, body) = told(answer).await;
    assert!(told.starts_with("2 POST"), "{told}");
    assert_eq!(body, "hello");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error() {
    let storage = Storage::for_tests(None).await.unwrap();
    let (one, two) = Member::pair(&storage).await;
    one.replicas.membership.look_for_tests().await;
    let id = two.replicas.number().mark("s".to_owned());
    let answer = one.answer(post(&id, "break off")).await;
    assert_eq!(answer.status(), StatusCode::BAD_GATEWAY);
    assert!(!answer.headers().contains_key(header::RETRY_AFTER), "nobody should repeat it without a look");
    let body = told(answer).await.1;
    assert!(body.contains("the call may have run") && body.contains(r#""retryable":false"#), "{body}");
}

#[tokio::test]
async fn a_row_that_cannot_be_used_is_left_out_until_its_lease_is_over() {
    let storage = Storage::for_tests(None).await.unwrap();
    let one = Member::join(&storage).await;
    storage.poison("INSERT INTO replicas (address, public_key, lease_until) VALUES ('', x'00', 0), ('10.0.0.5:1', x'00', 9999999999999)").await;
    // neither keeps another from joining, nor these two from finding each other
    let two = Member::join(&storage).await;
    one.replicas.membership.look_for_tests().await;
    let id = two.replicas.number().mark("s".to_owned());
    let (told, body) = told(one.answer(post(&id, "hello")).await).await;
    assert!(told.starts_with(&format!("{} POST", two.replicas.number())), "{told}");
    assert_eq!(body, "hello");
    assert_eq!(storage.replicas().list().await.unwrap().len(), 4, "a row is removed by those that hold a lease alone");
}

#[tokio::test]
async fn only_replicas_of_the_store_are_let_in() {
    let (storage, elsewhere) = (Storage::for_tests(None).await.unwrap(), Storage::for_tests(None).await.unwrap());
    let one = Member::join(&storage).await;
    let stranger = Member::join(&elsewhere).await;
    // the stranger knows address and key of the other
    let row = storage.replicas().list().await.unwrap().remove(0);
    elsewhere.replicas().join(&row.address.unwrap(), &row.public_key, LEASE, SystemClock.now()).await.unwrap();
    stranger.replicas.membership.look_for_tests().await;
    let (told, _) = told(stranger.answer(post("s.2", "hello")).await).await;
    assert!(!told.starts_with('1'), "{told}");
    assert!(one.got.lock().is_empty());
}

#[tokio::test]
async fn unknown_keys_cause_one_look_at_the_store_in_a_second() {
    // a database in memory ends with its connection, which is idle for an hour once the clock is paused
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(&folder.path().join("replicas.sqlite3")).await.unwrap();
    let one = Member::join(&storage).await;
    pause();
    let membership = &one.replicas.membership;
    let begin = Instant::now();
    let mut looks = Vec::new();
    for round in 0..3 {
        let strangers = (0..50).map(|key| async move { membership.is_key_of_another(&[round, key]).await });
        assert!(!futures_util::future::join_all(strangers).await.contains(&true));
        looks.push(membership.looked_for_key_at().await - begin);
    }
    assert!(looks.windows(2).all(|pair| pair[1] >= pair[0] + Duration::from_secs(1)), "{looks:?}");
    assert!(looks[2] < Duration::from_mins(1), "{looks:?}");
    // they keep no replica out, such as one that has just come
    tokio::time::resume();
    let two = Member::join(&storage).await;
    assert!(membership.is_key_of_another(two.replicas.membership.identity().public_key()).await);
}

#[tokio::test]
async fn a_connection_that_is_refused_can_still_be_ended() {
    let storage = Storage::for_tests(None).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let advertised = ReplicaAddress::parse(&address.to_string()).unwrap();
    let (_, mut door) = Replicas::join(deps(&storage), &advertised, listener, BTreeSet::new()).await.unwrap();
    let mut stranger = TcpStream::connect(address).await.unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let (accepted, _) = door.accept().await.unwrap();
    let mut stream = ReplicaDoor::attach(accepted).unwrap();
    assert!(stream.read_u8().await.is_err());
    assert!(stream.shutdown().await.is_err());
}

#[tokio::test]
async fn a_message_for_a_connection_finds_a_replica_that_has_just_joined() {
    let storage = Storage::for_tests(None).await.unwrap();
    let (one, two) = Member::pair(&storage).await;
    let id = two.replicas.number().mark("s".to_owned());
    let message = Request::post(format!("/messages?session_id={id}")).body(Body::from("hello")).unwrap();
    let (told, body) = told(one.answer(message).await).await;
    assert!(told.starts_with("2 POST") && body == "hello", "{told}");
}

#[tokio::test]
async fn a_message_for_a_connection_waits_for_its_replica_while_that_may_have_it() {
    let storage = Storage::for_tests(None).await.unwrap();
    let (one, two) = Member::pair(&storage).await;
    one.replicas.membership.look_for_tests().await;
    let id = two.replicas.number().mark("s".to_owned());
    let message = || Request::post(format!("/messages?session_id={id}")).body(Body::from("hello")).unwrap();
    // it was killed
    two.end.cancel();
    two.replicas.stop();
    let mut answer = Box::pin(one.answer(message()));
    while one.replicas.membership.known(two.replicas.number()).is_some() {
        assert!(timeout(RETRIED_AFTER * 3, &mut answer).await.is_err());
        two.replicas.membership.leave().await;
        one.replicas.membership.look_for_tests().await;
    }
    // now this replica may say that there is no such session
    assert!(told(answer.await).await.0.starts_with("1 POST"));
}

#[tokio::test]
async fn a_stream_that_only_waits_ends_when_the_replica_that_carries_it_is_about_to_stop() {
    let storage = Storage::for_tests(None).await.unwrap();
    let (one, two) = Member::pair(&storage).await;
    let mut streams = Vec::new();
    for member in [&two, &one] {
        member.replicas.serve_at_home(BTreeSet::from([Endpoint::from_path("/mcp/stream").unwrap().target]));
        member.replicas.membership.look_for_tests().await;
    }
    let id = two.replicas.number().mark("s".to_owned());
    // each transport over HTTP is served at the address of the other too
    for path in ["/mcp/stream", "/sse/stream"] {
        let get = || Request::get(path);
        let waiting = get().header("mcp-session-id", &id).body(Body::empty()).unwrap();
        let mut waiting = one.answer(waiting).await.into_body().into_data_stream();
        let mut connection = one.answer(get().body(Body::empty()).unwrap()).await.into_body().into_data_stream();
        assert_eq!(waiting.next().await.unwrap().unwrap(), ": open\n\n");
        assert_eq!(connection.next().await.unwrap().unwrap(), ": open\n\n");
        streams.push((waiting, connection));
    }
    one.replicas.drain();
    for (mut waiting, mut connection) in streams {
        assert!(waiting.next().await.is_none());
        assert!(futures_util::poll!(connection.next()).is_pending(), "it is a session, and may have calls");
    }
}

#[tokio::test]
async fn what_needs_the_home_is_answered_there_and_by_the_next_when_it_has_left() {
    let storage = Storage::for_tests(None).await.unwrap();
    let (one, two) = Member::pair(&storage).await;
    let git = Endpoint::from_path("/mcp/git").unwrap().target;
    // whoever looks first is it
    for member in [&two, &one] {
        member.replicas.serve_at_home(BTreeSet::from([git.clone()]));
        member.replicas.membership.look_for_tests().await;
    }
    assert!(two.replicas.home().is_open() && !one.replicas.home().is_open());
    for member in [&one, &two] {
        let (told, body) = told(member.answer(post("", "hello")).await).await;
        assert!(told.starts_with("2 POST"), "{told}");
        assert_eq!(body, "hello");
    }
    let elsewhere = Request::post("/mcp/files").body(Body::empty()).unwrap();
    assert!(told(one.answer(elsewhere).await).await.0.starts_with("1 POST"), "another server is at every replica");
    let own = one.replicas.number().mark("s".to_owned());
    assert!(told(one.answer(post(&own, "")).await).await.0.starts_with("1 POST"), "what this replica opened is here");
    // it ends: what comes waits until the other is it
    two.replicas.stop();
    let (answer, ()) = tokio::join!(one.answer(post("", "wait")), two.replicas.membership.leave());
    let (told, body) = told(answer).await;
    assert!(told.starts_with("1 POST"), "{told}");
    assert_eq!(body, "wait");
    assert!(one.replicas.home().is_open());
}

#[tokio::test]
async fn a_home_that_does_not_know_it_yet_learns_it_before_it_answers() {
    let storage = Storage::for_tests(None).await.unwrap();
    let one = Member::join(&storage).await;
    one.replicas.serve_at_home(BTreeSet::from([Endpoint::from_path("/mcp/git").unwrap().target]));
    // the store has it, and the answer is still on its way
    assert!(storage.replicas().take_home(one.replicas.number()).await.unwrap());
    let home = one.replicas.home();
    assert!(!home.is_open());
    let mut carried = post("", "");
    carried.extensions_mut().insert(RequestPlace::Carried);
    let is_known = |_: Request| std::future::ready(home.is_open().to_string().into_response());
    assert_eq!(told(one.replicas.answer(carried, is_known).await).await.1, "true");
}

#[tokio::test]
async fn a_replica_that_stops_waits_for_what_it_answers_to_others() {
    let storage = Storage::for_tests(None).await.unwrap();
    let one = Member::join(&storage).await;
    let mut request = post("s.1", "");
    request.extensions_mut().insert(RequestPlace::Carried);
    let (part, parts) = tokio::sync::mpsc::channel::<Result<&str, axum::Error>>(1);
    let parts = Mutex::new(Some(parts));
    let slow = |_: Request| {
        let parts = parts.lock().take().unwrap();
        async { Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(parts)).into_response() }
    };
    let answer = one.replicas.answer(request, slow).await;
    let mut finished = Box::pin(one.replicas.finished());
    assert!(futures_util::poll!(&mut finished).is_pending());
    drop(part);
    answer.into_body().collect().await.unwrap();
    finished.await;
}

#[tokio::test]
async fn a_connection_of_another_protocol_is_carried_to_the_home_and_back() {
    let storage = Storage::for_tests(None).await.unwrap();
    let (one, two) = Member::pair(&storage).await;
    let git = Endpoint::from_path("/ws/git").unwrap().target;
    for member in [&two, &one] {
        member.replicas.serve_at_home(BTreeSet::from([git.clone()]));
        member.replicas.membership.look_for_tests().await;
    }
    let (address, _end) = one.listen().await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let head = "GET /ws/git HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\n") {
        got.push(client.read_u8().await.unwrap());
    }
    let head = String::from_utf8(got).unwrap();
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("upgrade: echo"), "{head}");
    client.write_all(b"there and back").await.unwrap();
    let mut back = [0; 14];
    client.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"there and back");
    // it ends with the replica that answers, after what that may still have sent
    storage.replicas().leave(two.replicas.number()).await.unwrap();
    one.replicas.membership.look_for_tests().await;
    pause();
    assert_eq!(client.read(&mut back).await.unwrap_or(0), 0);
}
