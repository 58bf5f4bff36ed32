//! Servers of users: each is started when its user calls, and no start waits for another user's. Where all places are taken, users
//! wait in turn. The clients of a user hear its server, and no other's.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use lockkeeper::{
    backend::{BackendDeps, Supervisor},
    mcp::{Level, LogLevel, Method, Reply, Revision, Server},
    model::{
        AccessChange, AccessChanges, AccessEffect, AccessPage, BackendId, BackendSpec, LimitsConfig, OAuthClientSpec,
        ServerAccess, ServerAuth, Share, UserId,
    },
    support::Live,
};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
};

use super::scripted_servers::{call as ask, failure, person, result, start_with, text, tool, until};
use crate::{
    gateway::script::{background, gateway, heard, mount_supervised},
    kit::{
        carriers::{Carrier, Hosted},
        peer::{Peer, Seen, named, open_events},
        scripted::{Script, ScriptedServer},
    },
};

/// What the user `slow` has entered, which is found out once it may be.
struct SlowUser {
    asked: AtomicUsize,
    may_be_found_out: Semaphore,
}

/// Servers of users.
struct Users {
    supervisor: Supervisor,
    server: Arc<dyn Server>,
    access: AccessChanges,
    slow: Arc<SlowUser>,
}

impl Users {
    /// This server for each of them, of whom two may have theirs at once.
    fn of(spec: BackendSpec, slot_wait: Duration) -> Self {
        let spec = BackendSpec { auth: ServerAuth::User(OAuthClientSpec::default()), ..spec };
        let slow = Arc::new(SlowUser { asked: AtomicUsize::new(0), may_be_found_out: Semaphore::new(0) });
        let asked = Arc::clone(&slow);
        let of_user = move |user: UserId, spec: Arc<BackendSpec>| {
            let slow = Arc::clone(&asked);
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
        let changes = ServerAccess::announcer();
        let access = ServerAccess::new(of_user, |_| None, page, changes.clone());
        let limits = Live::new(LimitsConfig { server_sessions: 2, slot_wait, ..LimitsConfig::default() });
        let supervisor = start_with(vec![spec], |deps| BackendDeps { access, limits, ..deps });
        let server = supervisor.servers().remove(0).server;
        Self { supervisor, server, access: changes, slow }
    }

    fn call(&self, user: &str, name: &str) -> Reply {
        tool(&self.server, person(user, user, "{}"), &named(name))
    }

    /// A call that hangs at the server.
    async fn hanging(&self, peer: &Peer, user: &str) -> JoinSet<()> {
        let count = || peer.seen().iter().filter(|seen| seen.is_tool("hang")).count();
        let (before, mut running, call) = (count(), JoinSet::new(), self.call(user, "hang"));
        running.spawn(async move { drop(call.outcome().await) });
        until("the call", || (count() > before).then_some(())).await;
        running
    }
}

/// A server at which calls of `hang` hang.
async fn with_hanging_calls() -> Peer {
    Peer::start(|seen: &Seen| seen.is_tool("hang").then(|| open_events(": hanging\n\n".to_owned()))).await
}

#[tokio::test]
async fn a_user_whose_server_cannot_start_yet_holds_up_no_other() {
    let peer = Peer::start(|_| None).await;
    let users = Users::of(peer.spec(), Duration::from_mins(1));
    let Users { supervisor, slow, .. } = &users;
    let call = |user: &str| text(users.call(user, "x"));
    let mut waiting = JoinSet::new();
    for _ in 0..3 {
        waiting.spawn(call("slow"));
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
    let peer = with_hanging_calls().await;
    let users = Users::of(peer.spec(), Duration::from_millis(50));
    let (supervisor, call) = (&users.supervisor, |user: &str, name: &str| users.call(user, name));
    let hanging = async |user: &str| users.hanging(&peer, user).await;
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

#[tokio::test]
async fn users_wait_in_turn_while_calls_run_at_all_servers() {
    let peer = with_hanging_calls().await;
    let users = Users::of(peer.spec(), Duration::from_mins(1));
    let (mut anns, mut bobs) = (users.hanging(&peer, "ann").await, users.hanging(&peer, "bob").await);
    let mut carls = Box::pin(users.call("carl", "hang").outcome());
    let mut more = Box::pin(text(users.call("carl", "x")));
    let mut left = Box::pin(text(users.call("eve", "x")));
    let mut doras = Box::pin(text(users.call("dora", "x")));
    assert!((&mut carls).now_or_never().is_none() && (&mut more).now_or_never().is_none());
    assert!((&mut left).now_or_never().is_none() && (&mut doras).now_or_never().is_none());
    // who has left holds up nobody
    drop(left);
    anns.shutdown().await;
    let hangs = || peer.seen().iter().filter(|seen| seen.is_tool("hang")).count();
    tokio::select! {
        _ = &mut carls => panic!("it hangs"),
        () = until("carl's call", || (hangs() == 3).then_some(())) => {}
    }
    assert!((&mut doras).now_or_never().is_none(), "there is one place for carl, and none for dora");
    more.await;
    bobs.shutdown().await;
    doras.await;
    assert_eq!(users.supervisor.status()[0].sessions, 2);
}

#[tokio::test]
async fn metrics_have_the_calls_of_all_users_under_the_name_of_the_server() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let peer = with_hanging_calls().await;
    let users = Users::of(peer.spec(), Duration::from_mins(1));
    let vitals = || {
        let vitals = users.supervisor.vitals().remove(0);
        (vitals.is_up, vitals.running_calls)
    };
    assert_eq!(vitals(), (Some(true), 0), "the first call starts it");
    let (mut anns, mut bobs) = (users.hanging(&peer, "ann").await, users.hanging(&peer, "bob").await);
    assert_eq!(vitals(), (Some(true), 2));
    anns.shutdown().await;
    assert_eq!(vitals(), (Some(true), 1));
    bobs.shutdown().await;
    for user in ["ann", "bob", "carl"] {
        text(users.call(user, "x")).await;
    }
    assert_eq!(vitals(), (Some(true), 0));
    let rendered = recorder.handle().render();
    let counted = r#"lockkeeper_server_calls_total{server="docs",method="tools/call",outcome="ok"} 3"#;
    assert!(rendered.contains(counted) && !rendered.contains("ann"), "{rendered}");
}

#[tokio::test]
async fn a_burst_of_users_is_served_by_few_servers_one_after_the_other() {
    let peer = Peer::start(|_| None).await;
    let users = Users::of(peer.spec(), Duration::from_mins(1));
    let mut calls = JoinSet::new();
    for number in 0..40 {
        calls.spawn(text(users.call(&format!("u{number}"), "x")));
    }
    assert_eq!(calls.join_all().await.len(), 40);
}

#[tokio::test]
async fn a_users_clients_hear_the_server_of_their_user_alone() {
    let server = ScriptedServer::scripted(
        Revision::V2025_11_25,
        Script::everyday().lists(&["grow"]).greeting(&json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "s", "version": "1" },
        })),
    );
    let hosted = Hosted::start(Carrier::Http, Arc::new(server));
    let id = BackendId::parse("docs").unwrap();
    let auth = ServerAuth::User(OAuthClientSpec::default());
    let spec = BackendSpec { share: Share::User, auth, ..BackendSpec::new(id.clone(), hosted.transport()) };
    let users = Users::of(spec.clone(), Duration::from_mins(1));
    let merged = gateway(vec![mount_supervised(&spec, users.supervisor.servers().remove(0))]).merged();
    let listen = |user: &str, session: &str| {
        background(heard(ask(&merged, person(user, session, "{}"), Method::Listen, &Value::Null)))
    };
    let tools = async |user: &str| {
        let reply = ask(&merged, person(user, user, "{}"), Method::ToolsList, &Value::Null);
        result(reply).await
    };
    for user in ["carl", "ann", "bob"] {
        tools(user).await;
    }
    let (one, two) = (listen("ann", "a1"), listen("ann", "a2"));
    let (bobs, carls) = (listen("bob", "b1"), listen("carl", "c1"));
    text(tool(&merged, person("ann", "a1", "{}"), &named("docs__grow"))).await;
    for anns in [one, two] {
        assert_eq!(anns.await.unwrap().0, "notifications/tools/list_changed");
    }
    assert!(!bobs.is_finished(), "nothing has changed for him");
    // what he may use has changed
    let change = AccessChange { user: UserId::new("bob"), backend: id, effect: AccessEffect::Ended };
    users.access.send(change).unwrap();
    assert!(bobs.await.unwrap().0.ends_with("list_changed"));
    assert!(!carls.is_finished());
}

#[tokio::test]
async fn a_server_of_a_user_learns_the_level_of_a_session_that_was_there_before() {
    let peer = Peer::start(|_| None).await;
    let users = Users::of(peer.spec(), Duration::from_mins(1));
    let announcer = users.supervisor.servers().remove(0).announcer.unwrap();
    let (set, level) = watch::channel(Some(Level::Warning));
    let mut context = person("ann", "ann", "{}");
    context.level = LogLevel::Session(level);
    let held = announcer.hold_level(&context);
    text(users.call("bob", "x")).await;
    text(users.call("ann", "x")).await;
    assert_eq!(peer.saw("logging/setLevel").await.body["params"]["level"], "warning");
    set.send_replace(Some(Level::Debug));
    held.changed();
    let levels = || peer.seen_of("logging/setLevel").iter().map(|seen| seen.body["params"]["level"].clone()).collect();
    until("the other level", || {
        let levels: Vec<Value> = levels();
        levels.contains(&json!("debug")).then_some(())
    })
    .await;
    drop(held);
}
