//! Sessions: owner, lifetime and number (design rule 9).

use std::{pin::pin, sync::Arc, task::Poll, time::Duration};

use futures_util::{StreamExt as _, poll, stream::FuturesUnordered};
use http::StatusCode;
use lockkeeper::{
    mcp::Method,
    model::{Caller, ClientId, LimitsConfig, UserId},
};
use serde_json::json;
use tokio::task::coop::consume_budget;
use tokio_util::sync::CancellationToken;

use super::{Client, Events, World, body, call, initialize, text};

const MINUTE: Duration = Duration::from_mins(1);

/// Lets no answer arrive before the next poll of the test, however fast the store is.
async fn use_up_this_poll() {
    while poll!(pin!(consume_budget())).is_ready() {}
}

#[tokio::test]
async fn a_deleted_session_is_gone_for_good() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    let mut stream = Events::of(client.get().await);
    assert_eq!(client.delete().await.status(), StatusCode::NO_CONTENT);
    stream.raw().await.unwrap();
    assert_eq!(stream.raw().await, None, "its stream ends");
    for response in [client.send(call(1, "echo", json!({}))).await, client.get().await, client.delete().await] {
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert_eq!(body(response).await["error"]["code"], -32600);
    }
    assert_eq!(world.ended.lock().len(), 1, "the servers are told once");
    let mut after = client.clone();
    after.router = world.restarted().router;
    assert_eq!(after.get().await.status(), StatusCode::NOT_FOUND, "the store has forgotten it too");
}

#[tokio::test]
async fn the_clients_of_one_user_are_listed_without_those_of_others() {
    let world = World::new().await;
    for user in ["ann", "bob", "ann"] {
        world.ready(user, "2025-06-18").await;
    }
    let of = |user: &str| world.front.status_of(&UserId::new(user));
    assert_eq!(of("ann").iter().map(|client| client.user.as_str()).collect::<Vec<_>>(), ["ann", "ann"]);
    assert_eq!((of("bob").len(), of("eve").len(), world.front.status().len()), (1, 0, 3));
}

#[tokio::test]
async fn deleting_a_session_ends_its_calls() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    let end = async {
        world.server.wait_for(Method::ToolsCall, 1).await;
        client.delete().await;
    };
    let (response, ()) = tokio::join!(client.send(call(1, "hold", json!({}))), end);
    assert_eq!(world.server.fate().await, "dropped");
    let lost = json!({ "retryable": false, "mayHaveRun": true });
    assert_eq!(body(response).await["error"]["data"], lost);
}

#[tokio::test]
async fn n_112_a_session_of_another_caller_is_not_found() {
    let world = World::new().await;
    let ann = world.ready("ann", "2025-06-18").await;
    let mut bob = world.client("bob");
    bob.session = Some("no-such-session".to_owned());
    let unknown = body(bob.send(call(1, "echo", json!({}))).await).await;
    bob.session.clone_from(&ann.session);
    for response in [bob.send(call(1, "echo", json!({}))).await, bob.get().await, bob.delete().await] {
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert_eq!(body(response).await, unknown);
    }
    assert_eq!(ann.send(call(1, "echo", json!({}))).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_session_belongs_to_the_endpoint_that_opened_it() {
    let world = World::new().await;
    let mut client = world.ready("ann", "2025-06-18").await;
    client.path = "/mcp/git";
    assert_eq!(client.get().await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn get_and_delete_without_a_session_are_not_allowed() {
    let world = World::new().await;
    let mut client = world.client("ann");
    client.version = Some("2025-06-18");
    for (path, elsewhere) in [("/mcp", "at /sse"), ("/mcp/git", "at /sse/git")] {
        client.path = path;
        for response in [client.get().await, client.delete().await] {
            assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
            assert_eq!(response.headers()["allow"], "POST");
            assert!(text(response).await.contains(elsewhere));
        }
    }
}

#[tokio::test]
async fn an_idle_session_is_reaped_and_answers_404_from_then_on() {
    let world = World::new().await;
    let (idle, busy) = (world.ready("ann", "2025-06-18").await, world.ready("ann", "2025-06-18").await);
    world.clock.advance(29 * MINUTE);
    world.front.sweep().await;
    assert_eq!(busy.send(call(1, "echo", json!({}))).await.status(), StatusCode::OK);
    world.clock.advance(MINUTE);
    world.front.sweep().await;
    assert_eq!(busy.send(call(1, "echo", json!({}))).await.status(), StatusCode::OK);
    assert_eq!(idle.send(call(1, "echo", json!({}))).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(world.ended.lock().len(), 1);
    assert_eq!(world.front.status().len(), 1);
}

#[tokio::test]
async fn an_open_stream_and_a_running_call_are_activity() {
    let world = World::new().await;
    let (listening, calling) = (world.ready("ann", "2025-06-18").await, world.ready("bob", "2025-06-18").await);
    let stream = listening.get().await;
    let idle = async {
        world.server.wait_for(Method::ToolsCall, 1).await;
        for _ in 0..3 {
            world.clock.advance(20 * MINUTE);
            world.front.sweep().await;
        }
        world.server.gate.add_permits(1);
    };
    let (response, ()) = tokio::join!(calling.send(call(1, "hold", json!({}))), idle);
    assert!(body(response).await["result"].is_object());
    drop(stream);
    world.clock.advance(20 * MINUTE);
    world.front.sweep().await;
    assert_eq!(world.front.status().len(), 2, "idleness is counted from the last activity");
    world.clock.advance(20 * MINUTE);
    world.front.sweep().await;
    assert_eq!(world.front.status().len(), 0);
}

#[tokio::test]
async fn a_session_without_a_finished_handshake_ends() {
    let world = World::new().await;
    let mut client = world.client("ann");
    let response = client.send(initialize("2025-06-18", json!({}))).await;
    client.session = Some(response.headers()["mcp-session-id"].to_str().unwrap().to_owned());
    world.clock.advance(MINUTE);
    world.front.sweep().await;
    assert_eq!(client.send(call(1, "echo", json!({}))).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn sessions_outlive_the_process() {
    let world = World::new().await;
    let mut client = world.client("ann");
    client.open("2025-06-18", json!({ "elicitation": {} })).await;
    let level = json!({ "jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": { "level": "error" } });
    client.send(level).await;
    world.clock.advance(29 * MINUTE);
    client.send(call(1, "echo", json!({}))).await;
    world.front.sweep().await;
    world.clock.advance(29 * MINUTE);
    let world = world.restarted();
    let mut thief = world.client("bob");
    thief.session.clone_from(&client.session);
    assert_eq!(thief.get().await.status(), StatusCode::NOT_FOUND);
    assert!(world.front.status().is_empty(), "it is its owner who brings it back");
    client.router = world.router.clone();
    let mut events = Events::of(client.send(call(1, "ask", json!({}))).await);
    assert_eq!(events.message().await.unwrap()["method"], "elicitation/create", "its capabilities are known");
    let context = world.server.calls.lock()[0].context.clone();
    assert_eq!(context.requester.session().map(|id| id.as_str().to_owned()), client.session);
    assert_eq!(context.client.display(), "test 1");
    assert_eq!(context.client.revision.as_str(), "2025-06-18");
    // its rights decide which callers see it
    assert_eq!(world.front.status()[0].rights.as_ref(), Some(&client.admission.caller.rights));
}

#[tokio::test]
async fn a_session_that_was_idle_for_too_long_is_not_restored() {
    let world = World::new().await;
    let mut client = world.ready("ann", "2025-06-18").await;
    world.clock.advance(30 * MINUTE);
    client.router = world.restarted().router;
    assert_eq!(client.get().await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn at_the_limit_a_user_loses_the_longest_idle_session() {
    let world = World::with(super::limited(LimitsConfig { sessions_per_user: 2, ..LimitsConfig::default() })).await;
    let other = world.ready("bob", "2025-06-18").await;
    let oldest = world.ready("ann", "2025-06-18").await;
    world.clock.advance(MINUTE);
    let newer = world.ready("ann", "2025-06-18").await;
    world.clock.advance(MINUTE);
    world.ready("ann", "2025-06-18").await;
    assert_eq!(oldest.get().await.status(), StatusCode::NOT_FOUND);
    assert_eq!(newer.get().await.status(), StatusCode::OK);
    assert_eq!(other.get().await.status(), StatusCode::OK);
}

#[tokio::test]
async fn at_the_limit_without_an_idle_session_none_is_opened() {
    let world =
        World::with(super::limited(LimitsConfig { sessions_per_user: 1, sessions: 2, ..LimitsConfig::default() }))
            .await;
    let ann = world.ready("ann", "2025-06-18").await;
    let _stream = ann.get().await;
    let response = world.client("ann").send(initialize("2025-06-18", json!({}))).await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()["retry-after"], "30");
    let answer = body(response).await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(0), &json!(-32603)));
    let bob = world.ready("bob", "2025-06-18").await;
    let eve = world.ready("eve", "2025-06-18").await;
    assert_eq!(bob.get().await.status(), StatusCode::NOT_FOUND, "somebody who has none comes before an idle session");
    let _stream = eve.get().await;
    let response = world.client("dan").send(initialize("2025-06-18", json!({}))).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
}

/// A client of another app of this user.
async fn through_app(world: &World, user: &str, app: usize) -> Client {
    let mut client = world.client(user);
    let caller =
        Caller { client: Some(ClientId::new(format!("app {app}"))), ..Caller::clone(&client.admission.caller) };
    client.admission.caller = Arc::new(caller);
    client.open("2025-06-18", json!({})).await;
    client
}

#[tokio::test]
async fn where_all_sessions_are_taken_whoever_has_the_most_gives_way() {
    let world = World::with(super::limited(LimitsConfig { sessions: 8, ..LimitsConfig::default() })).await;
    let ann = world.ready("ann", "2025-06-18").await;
    let busy = through_app(&world, "hostile", 0).await;
    let stream = busy.get().await;
    for app in 1..20 {
        through_app(&world, "hostile", app).await;
        world.clock.advance(Duration::from_secs(1));
    }
    let sessions = || world.front.status().into_iter().map(|session| session.user).collect::<Vec<_>>();
    let of = |user: &str| sessions().iter().filter(|of| *of == user).count();
    assert_eq!((of("hostile"), of("ann")), (6, 1), "an eighth is kept for others, and nobody else loses one");
    let _bob = world.ready("bob", "2025-06-18").await;
    let _eve = world.ready("eve", "2025-06-18").await;
    assert_eq!((of("hostile"), sessions().len()), (5, 8), "the first of both found a free place");
    for app in 20..40 {
        through_app(&world, "hostile", app).await;
    }
    assert_eq!((of("hostile"), of("ann"), of("bob"), of("eve")), (5, 1, 1, 1));
    assert_eq!(busy.get().await.status(), StatusCode::OK, "what is in use stays");
    assert_eq!(ann.get().await.status(), StatusCode::OK);
    drop(stream);
}

#[tokio::test]
async fn the_status_shows_sessions_without_their_whole_ids() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    world.clock.advance(MINUTE);
    let status = world.front.status().remove(0);
    assert_eq!((status.user.as_str(), status.client.as_str(), status.endpoint.as_str()), ("ann", "test 1", "/mcp"));
    assert_eq!((status.protocol_version.as_str(), status.idle_seconds), ("2025-06-18", 60));
    assert_eq!(status.id.as_deref(), Some(&client.session.unwrap()[..8]));
}

#[tokio::test]
async fn closing_ends_calls_and_keeps_the_sessions() {
    let world = World::new().await;
    let mut client = world.ready("ann", "2025-06-18").await;
    let mut stream = Events::of(client.get().await);
    stream.raw().await.unwrap();
    let mut running = Box::pin(client.send(call(1, "hold", json!({}))));
    assert!(futures_util::poll!(&mut running).is_pending());
    drop(running);
    world.front.close().await;
    assert_eq!(world.server.fate().await, "dropped", "nobody reads the call any more, and it has ended");
    assert_eq!(stream.raw().await, None);
    client.router = world.restarted().router;
    assert_eq!(client.send(call(1, "echo", json!({}))).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn the_reaper_sweeps_once_more_when_it_is_stopped() {
    let world = World::new().await;
    let mut client = world.ready("ann", "2025-06-18").await;
    world.clock.advance(29 * MINUTE);
    client.send(call(1, "echo", json!({}))).await;
    let stopped = CancellationToken::new();
    stopped.cancel();
    world.front.run_reaper(stopped).await;
    world.clock.advance(29 * MINUTE);
    client.router = world.restarted().router;
    assert_eq!(client.get().await.status(), StatusCode::OK, "the store knows of the last call");
}

#[tokio::test]
async fn a_failed_store_is_no_lost_session() {
    let world = World::new().await;
    let before = world.ready("ann", "2025-06-18").await;
    world.storage.close().await;
    let mut unknown = before.clone();
    unknown.session = Some("unknown".to_owned());
    let response = unknown.send(call(1, "echo", json!({}))).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["retry-after"], "30");
    assert_eq!(before.send(call(1, "echo", json!({}))).await.status(), StatusCode::OK);
    let after = world.ready("bob", "2025-06-18").await;
    world.front.sweep().await;
    assert_eq!(after.send(call(1, "echo", json!({}))).await.status(), StatusCode::OK);
    assert_eq!(after.delete().await.status(), StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn requests_for_unknown_sessions_delay_no_other_caller() {
    const ALL: usize = 400;
    let world = World::new().await;
    let mut bob = world.ready("bob", "2025-06-18").await;
    let world = world.restarted();
    bob.router = world.router.clone();
    let mut refused = 0;
    let mut liars = FuturesUnordered::new();
    for number in 0..ALL {
        let mut ann = world.client("ann");
        ann.session = Some(format!("made-up-{number}"));
        let mut liar = Box::pin(async move { ann.get().await.status() });
        // all of them have arrived before the honest one
        match poll!(&mut liar) {
            Poll::Pending => liars.push(liar),
            Poll::Ready(_) => refused += 1,
        }
    }
    let mut revived = Box::pin(bob.send(call(1, "echo", json!({}))));
    let response = loop {
        tokio::select! {
            biased;
            response = &mut revived => break response,
            Some(status) = liars.next() => {
                assert_eq!(status, StatusCode::NOT_FOUND);
                refused += 1;
            }
        }
    };
    assert_eq!(response.status(), StatusCode::OK);
    // the honest one is behind none of them, but each of its own queries takes as long as one of theirs
    assert!(refused < ALL / 4, "{refused} of another caller's look-ups came first");
}

#[tokio::test]
async fn the_look_ups_of_one_user_are_limited() {
    let world = World::with(super::limited(LimitsConfig { sessions_per_user: 1, ..LimitsConfig::default() })).await;
    let named = |number: usize| {
        let mut ann = world.client("ann");
        ann.session = Some(format!("made-up-{number}"));
        async move { ann.get().await }
    };
    let mut answers = Box::pin(futures_util::future::join_all((0..20).map(named)));
    use_up_this_poll().await;
    assert!(poll!(&mut answers).is_pending(), "all are there before the store answers the first");
    let answers = answers.await;
    let is = |code: StatusCode| answers.iter().filter(|answer| answer.status() == code).count();
    assert_eq!((is(StatusCode::NOT_FOUND), is(StatusCode::TOO_MANY_REQUESTS)), (4, 16));
    assert_eq!(answers[19].headers()["retry-after"], "30");
    assert_eq!(named(20).await.status(), StatusCode::NOT_FOUND, "later there is room again");
}

#[tokio::test]
async fn a_session_ends_even_if_its_client_does_not_wait() {
    let world = World::new().await;
    let mut client = world.ready("ann", "2025-06-18").await;
    let deleting = client.clone();
    let mut deleting = Box::pin(deleting.delete());
    use_up_this_poll().await;
    assert!(poll!(&mut deleting).is_pending(), "the store has not forgotten it yet");
    drop(deleting);
    assert_eq!(client.get().await.status(), StatusCode::NOT_FOUND);
    world.front.close().await;
    client.router = world.restarted().router;
    assert_eq!(client.get().await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_session_that_is_restored_and_ended_at_the_same_time_stays_ended() {
    let mut world = World::new().await;
    for _ in 0..20 {
        let mut client = world.ready("ann", "2025-06-18").await;
        world = world.restarted();
        client.router = world.router.clone();
        let mut requests = tokio::task::JoinSet::new();
        for number in 0..6 {
            let client = client.clone();
            requests.spawn(async move {
                if number == 3 { client.delete().await } else { client.send(call(1, "echo", json!({}))).await }.status()
            });
        }
        while let Some(status) = requests.join_next().await {
            assert!([StatusCode::OK, StatusCode::NO_CONTENT, StatusCode::NOT_FOUND].contains(&status.unwrap()));
        }
        assert_eq!(client.send(call(1, "echo", json!({}))).await.status(), StatusCode::NOT_FOUND);
        assert!(world.front.status().is_empty());
    }
}

#[tokio::test]
async fn a_restored_session_counts_against_its_users_limit() {
    let world = World::new().await;
    let mut before = world.ready("ann", "2025-06-18").await;
    let settings = super::limited(LimitsConfig { sessions_per_user: 1, ..LimitsConfig::default() });
    let world = World::on(world.storage.clone(), Arc::clone(&world.clock), settings, 3);
    before.router = world.router.clone();
    let present = world.ready("ann", "2025-06-18").await;
    let stream = present.get().await;
    let response = before.send(call(1, "echo", json!({}))).await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS, "the other one is in use");
    drop(stream);
    assert_eq!(before.send(call(1, "echo", json!({}))).await.status(), StatusCode::OK);
    assert_eq!(present.send(call(1, "echo", json!({}))).await.status(), StatusCode::NOT_FOUND);
}
