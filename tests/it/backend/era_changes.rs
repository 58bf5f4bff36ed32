//! A server whose era changes while it is in use.

use std::{sync::Arc, time::Duration};

use lockkeeper::{
    backend::Supervisor,
    mcp::{Context, Outcome, Server},
    model::{BackendSpec, EraChoice, OnLoss, SessionId, Share, status::BackendState},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    era::{answered, server_info},
    eras::{changing, server},
    scripted_servers::{Scripts, client, failure, gateway, started, started_and_lost, text, tool, until},
};
use crate::kit::peer::{Peer, Seen, event, named, streamed, text_of};
use crate::kit::programs::ChangingServer;

fn unsupported() -> Value {
    json!({ "error": { "code": -32022, "message": "no", "data": { "supported": ["2025-11-25"], "requested": "2026-07-28" } } })
}

fn done(seen: &Seen, words: &str) -> Value {
    let mut result = text_of(words);
    result["resultType"] = "complete".into();
    seen.result(&result)
}

/// The mode in which a program starts.
#[derive(Clone)]
struct Mode(Arc<Mutex<&'static str>>);

impl Mode {
    fn of(mode: &'static str) -> Self {
        Self(Arc::new(Mutex::new(mode)))
    }

    fn becomes(&self, mode: &'static str) {
        *self.0.lock() = mode;
    }

    fn spec(&self, scripts: &Scripts) -> BackendSpec {
        let mode = self.clone();
        let server = ChangingServer::new(move |_| server(*mode.0.lock()));
        // a spare process could have started in the mode before
        BackendSpec { spares: 0, ..changing(scripts, server) }
    }
}

fn auto(peer: &Peer) -> BackendSpec {
    BackendSpec { era: EraChoice::Auto, ..peer.spec() }
}

fn era(supervisor: &Supervisor) -> Option<String> {
    supervisor.status().remove(0).era.map(|era| era.era)
}

/// Repeats a call until it succeeds: during a new detection, calls get a retryable error.
async fn answered_in_the_end(server: &Arc<dyn Server>, caller: &Context) -> String {
    loop {
        if let Outcome::Complete(result) = tool(server, caller.clone(), &named("x")).outcome().await {
            let result: Value = result.view().unwrap();
            return result["content"][0]["text"].as_str().unwrap().to_owned();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Machines behind one address may be replaced one by one.
#[tokio::test]
async fn a_call_that_is_rejected_for_its_version_ends_no_other() {
    let (events, receiver) = mpsc::unbounded_channel::<String>();
    let open = Mutex::new(Some(receiver));
    let peer = Peer::start(move |seen| match seen.method() {
        "server/discover" => Some(answered(seen, 200, &server_info(&["2026-07-28"]))),
        "tools/call" if seen.is_tool("refused") => Some(answered(seen, 400, &unsupported())),
        "tools/call" => {
            let stream = tokio_stream::wrappers::UnboundedReceiverStream::new(open.lock().take().unwrap());
            Some(streamed(stream))
        }
        _ => None,
    })
    .await;
    let (supervisor, server) = started(auto(&peer)).await;
    let mut long = JoinSet::new();
    long.spawn(text(tool(&server, client("one", "{}"), &named("long"))));
    let asked = peer.saw("tools/call").await;
    let error = failure(tool(&server, client("two", "{}"), &named("refused"))).await;
    assert!(error.message().contains("another version"), "{error}");
    assert_eq!(peer.seen_of("tools/call").iter().filter(|seen| seen.is_tool("refused")).count(), 2);
    events.send(event(&done(&asked, "came"))).unwrap();
    assert_eq!(long.join_next().await.unwrap().unwrap(), "came");
    assert_eq!((era(&supervisor).as_deref(), supervisor.status()[0].restarts), (Some("modern"), 0));
}

#[tokio::test]
async fn the_era_of_a_replaced_program_is_detected_again_at_its_next_start() {
    for (before, after, turned) in [("code-32601", "only", "modern"), ("only", "code-32601", "legacy")] {
        let scripts = Scripts::new();
        let mode = Mode::of(before);
        let (supervisor, server) = started(mode.spec(&scripts)).await;
        let (old, new) = (client("old", "{}"), client("new", "{}"));
        assert_eq!(text(tool(&server, old.clone(), &named("x"))).await, before);
        mode.becomes(after);
        assert_eq!(answered_in_the_end(&server, &new).await, after);
        assert_eq!(era(&supervisor).as_deref(), Some(turned));
        // the process of the other era serves no calls any more
        assert_eq!(answered_in_the_end(&server, &old).await, after);
        assert_eq!(supervisor.eras().len(), 1);
    }
}

#[tokio::test]
async fn a_process_that_exits_at_its_start_proves_nothing_about_the_others() {
    let scripts = Scripts::new();
    let mode = Mode::of("only");
    let (supervisor, server) = started(mode.spec(&scripts)).await;
    mode.becomes("exit");
    failure(tool(&server, client("one", "{}"), &named("x"))).await;
    assert_eq!(text(tool(&server, gateway(), &named("x"))).await, "only");
    let status = supervisor.status().remove(0);
    assert_eq!((status.state, status.restarts), (BackendState::Ready, 0));
    assert_eq!(era(&supervisor).as_deref(), Some("modern"));
}

#[tokio::test]
async fn client_sessions_end_if_their_server_with_state_changes_its_era() {
    let scripts = Scripts::new();
    let mode = Mode::of("code-32601");
    let spec = BackendSpec { share: Share::All, on_loss: OnLoss::End, ..mode.spec(&scripts) };
    let (supervisor, server, mut lost) = started_and_lost(spec).await;
    assert_eq!(text(tool(&server, client("one", "{}"), &named("x"))).await, "code-32601");
    mode.becomes("only");
    // the process of another client shows the change
    tool(&server, client("two", r#"{"elicitation":{}}"#), &named("x")).outcome().await;
    assert_eq!(lost.recv().await.unwrap(), SessionId::new("one"));
    until("the new era", || era(&supervisor).filter(|era| era == "modern")).await;
}
