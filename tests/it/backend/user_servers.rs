//! Servers of users: each is started when its user calls, and no start waits for another user's.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::FutureExt as _;
use lockkeeper::{
    backend::{BackendDeps, Supervisor},
    mcp::Server,
    model::{AccessPage, BackendSpec, LimitsConfig, OAuthClientSpec, ServerAccess, ServerAuth, UserId},
    support::Live,
};
use tokio::{sync::Semaphore, task::JoinSet};

use super::scripted_servers::{failure, person, start_with, text, tool, until};
use crate::kit::peer::{Peer, Seen, named, open_events};

/// What the user `slow` has entered, which is found out once it may be.
struct SlowUser {
    asked: AtomicUsize,
    may_be_found_out: Semaphore,
}

/// A server of each user, of which two may run.
fn of_each_user(peer: &Peer, slow: &Arc<SlowUser>) -> (Supervisor, Arc<dyn Server>) {
    let spec = BackendSpec { auth: ServerAuth::User(OAuthClientSpec::default()), ..peer.spec() };
    let slow = Arc::clone(slow);
    let of_user = move |user: UserId, spec: Arc<BackendSpec>| {
        let slow = Arc::clone(&slow);
        async move {
            if user.as_str() == "slow" {
                slow.asked.fetch_add(1, Ordering::SeqCst);
                drop(slow.may_be_found_out.acquire().await.unwrap());
            }
            Ok(Some(BackendSpec::clone(&spec)))
        }
        .boxed()
    };
    let page = |_: &_, _: &_| AccessPage { url: "http://page".to_owned(), message: String::new() };
    let access = ServerAccess::new(of_user, |_| None, page, ServerAccess::announcer());
    let limits = Live::new(LimitsConfig { server_sessions: 2, ..LimitsConfig::default() });
    let supervisor = start_with(vec![spec], |deps| BackendDeps { access, limits, ..deps });
    let server = supervisor.servers().remove(0).server;
    (supervisor, server)
}

#[tokio::test]
async fn a_user_whose_server_cannot_start_yet_holds_up_no_other() {
    let peer = Peer::start(|_| None).await;
    let slow = Arc::new(SlowUser { asked: AtomicUsize::new(0), may_be_found_out: Semaphore::new(0) });
    let (supervisor, server) = of_each_user(&peer, &slow);
    let call = |user: &str| text(tool(&server, person(user, user, "{}"), &named("x")));
    let mut waiting = JoinSet::new();
    for _ in 0..3 {
        waiting.spawn(text(tool(&server, person("slow", "slow", "{}"), &named("x"))));
    }
    until("the question what the user has entered", || (slow.asked.load(Ordering::SeqCst) > 0).then_some(())).await;
    let (ann, bob) = (call("ann").await, call("bob").await);
    assert_ne!(ann, bob, "each has a server");
    slow.may_be_found_out.add_permits(3);
    let answers: BTreeSet<String> = waiting.join_all().await.into_iter().collect();
    assert_eq!(answers.len(), 1, "calls of one user start one server: {answers:?}");
    assert_eq!(slow.asked.load(Ordering::SeqCst), 1);
    assert_eq!(supervisor.status()[0].sessions, 2, "the one that lay longest unused made room");
    assert_eq!(call("bob").await, bob);
    assert_ne!(call("ann").await, ann, "hers was that one");
    assert_eq!(supervisor.status()[0].sessions, 2);
}

#[tokio::test]
async fn a_server_with_a_running_call_makes_room_for_nobody() {
    let script = |seen: &Seen| seen.is_tool("hang").then(|| open_events(": hanging\n\n".to_owned()));
    let peer = Peer::start(script).await;
    let slow = Arc::new(SlowUser { asked: AtomicUsize::new(0), may_be_found_out: Semaphore::new(0) });
    let (supervisor, server) = of_each_user(&peer, &slow);
    let call = |user: &str, name: &str| tool(&server, person(user, user, "{}"), &named(name));
    let hanging = async |user: &str| {
        let before = peer.seen().iter().filter(|seen| seen.is_tool("hang")).count();
        let mut running = JoinSet::new();
        running.spawn(call(user, "hang").outcome());
        until("the call", || (peer.seen().iter().filter(|seen| seen.is_tool("hang")).count() > before).then_some(()))
            .await;
        running
    };
    // she began her call before all others, and is not the one who has to go
    let mut anns = hanging("ann").await;
    let bobs = text(call("bob", "x")).await;
    text(call("carl", "x")).await;
    assert_eq!(supervisor.status()[0].sessions, 2, "the server of the one without a call made room");
    assert_ne!(text(call("bob", "x")).await, bobs, "it was bob's");
    let mut carls = hanging("carl").await;
    let error = failure(call("dora", "x")).await;
    insta::assert_snapshot!(error, @"Server `docs` is not available: it runs for 2 users, as many as it may, and calls of all of them run; try again later, or raise `server_sessions` in `[limits]` (-32603)");
    assert!(anns.try_join_next().is_none() && carls.try_join_next().is_none(), "no call was cut");
    anns.shutdown().await;
    text(call("dora", "x")).await;
    assert!(carls.try_join_next().is_none());
}
