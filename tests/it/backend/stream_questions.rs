//! Servers over HTTP that answer calls by JSON and ask on their standalone stream, where a request names no call.

use std::{collections::HashMap, io, sync::Arc};

use futures_util::stream;
use http::Method as Verb;
use lockkeeper::{
    mcp::{Context, Event, Reply, Server, ServerRequest},
    model::{BackendSpec, Share},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    oneshot,
};

use super::{
    question_slots::{ASKABLE, answer, quiz},
    scripted_servers::{self, next, person, started, text, tool, until},
};
use crate::kit::peer::{Body, Peer, Response, Seen, event, status, streamed, text_of, typed};

/// Asks in each call on the stream of its session, and answers the call with what the client said.
#[derive(Clone, Default)]
struct Quizmaster {
    streams: Arc<Mutex<HashMap<String, Standalone>>>,
    /// Calls by the ids of their requests.
    open: Arc<Mutex<HashMap<String, oneshot::Sender<String>>>>,
}

/// The stream of one session, which may be requested after its first event.
struct Standalone {
    events: UnboundedSender<String>,
    unread: Option<UnboundedReceiver<String>>,
}

impl Quizmaster {
    async fn start() -> Peer {
        let master = Self::default();
        Peer::start(move |seen| master.answer(seen)).await
    }

    fn answer(&self, seen: &Seen) -> Option<Response> {
        let session = seen.header("mcp-session-id")?.to_owned();
        if seen.verb == Verb::GET {
            let events = self.stream(&session, |stream| stream.unread.take())?;
            return Some(streamed(stream::unfold(events, async |mut events| Some((events.recv().await?, events)))));
        }
        match (seen.method(), seen.body["id"].as_str()) {
            ("tools/call", _) => Some(self.ask(&session, seen)),
            ("", Some(id)) => {
                let said = if seen.body["error"].is_null() { &seen.body["result"] } else { &seen.body["error"] };
                let _ = self.open.lock().remove(id)?.send(said.to_string());
                Some(status(202))
            }
            _ => None,
        }
    }

    fn ask(&self, session: &str, seen: &Seen) -> Response {
        let id = format!("{session} {}", seen.body["id"]);
        let asked = json!({ "message": seen.body["params"]["arguments"]["owner"] });
        let (end, ended) = oneshot::channel();
        self.open.lock().insert(id.clone(), end);
        let asked = json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": asked });
        self.stream(session, |stream| drop(stream.events.send(event(&asked))));
        let seen = seen.clone();
        let result = stream::once(async move {
            let said = ended.await.unwrap_or_else(|_| "nothing".to_owned());
            io::Result::Ok(seen.result(&text_of(&said)).to_string())
        });
        typed("application/json", Body::from_stream(result))
    }

    fn stream<T>(&self, session: &str, act: impl FnOnce(&mut Standalone) -> T) -> T {
        let new = || {
            let (events, unread) = unbounded_channel();
            Standalone { events, unread: Some(unread) }
        };
        act(self.streams.lock().entry(session.to_owned()).or_insert_with(new))
    }
}

/// A request of a client without a session.
fn request(user: &str, name: &str) -> Context {
    Context { requester: scripted_servers::request(name), ..person(user, "none", ASKABLE) }
}

/// A call whose question has come.
async fn asked(server: &Arc<dyn Server>, context: Context, owner: &str) -> (Reply, ServerRequest) {
    let mut reply = tool(server, context, &quiz(owner));
    let Event::Asked(question) = next(&mut reply).await else { panic!("a question") };
    (reply, question)
}

/// The sessions in which the calls of these owners ran.
fn sessions(peer: &Peer, owners: &[&str]) -> Vec<String> {
    let of = |owner: &&str| {
        let calls = peer.seen_of("tools/call");
        let call = calls.iter().find(|call| call.body["params"]["arguments"]["owner"] == **owner).unwrap().clone();
        call.header("mcp-session-id").unwrap().to_owned()
    };
    owners.iter().map(of).collect()
}

#[tokio::test]
async fn while_one_call_waits_for_its_person_others_ask_theirs_in_sessions_of_their_own() {
    for (share, users) in
        [(Share::Session, ["ann"; 3]), (Share::User, ["ann"; 3]), (Share::All, ["ann", "hostile", "bob"])]
    {
        let peer = Quizmaster::start().await;
        let (_supervisor, server) = started(BackendSpec { share, ..peer.spec() }).await;
        let mut open = Vec::new();
        for (user, owner) in users.into_iter().zip(["r0", "r1", "r2"]) {
            open.push((asked(&server, request(user, owner), owner).await, owner));
        }
        let mut used = sessions(&peer, &["r0", "r1", "r2"]);
        used.sort();
        used.dedup();
        assert_eq!(used.len(), 3, "{share:?}: two calls ask in one session");
        // the latest first: nothing depends on the order
        for ((reply, question), owner) in open.into_iter().rev() {
            answer(question, owner);
            assert!(text(reply).await.contains(owner), "{share:?}: {owner}");
        }
        // a session that is free serves the next one
        let (reply, question) = asked(&server, request("ann", "r3"), "r3").await;
        answer(question, "r3");
        text(reply).await;
        assert!(used.contains(&sessions(&peer, &["r3"])[0]));
    }
}

#[tokio::test]
async fn a_question_that_could_be_of_two_calls_is_asked_nobody_and_the_next_ones_are_asked() {
    let peer = Quizmaster::start().await;
    let (_supervisor, server) = started(BackendSpec { share: Share::All, ..peer.spec() }).await;
    let (mut ann, mut hostile) =
        (tool(&server, request("ann", "r0"), &quiz("ann")), tool(&server, request("hostile", "r1"), &quiz("hostile")));
    let (ann, hostile) = tokio::join!(answered(&mut ann), answered(&mut hostile));
    for (said, owner) in [(ann, "ann"), (hostile, "hostile")] {
        assert!(said.contains("No client") || said.contains(owner), "{owner} was asked for the other: {said}");
    }
    let mut open = Vec::new();
    for (user, owner) in [("ann", "r2"), ("hostile", "r3")] {
        open.push((asked(&server, request(user, owner), owner).await, owner));
    }
    for ((reply, question), owner) in open {
        answer(question, owner);
        text(reply).await;
    }
}

/// The text of a reply whose questions are answered for their owner.
async fn answered(reply: &mut Reply) -> String {
    loop {
        match next(reply).await {
            Event::Asked(question) => {
                let owner = question.params.string("message").unwrap();
                answer(question, &owner);
            }
            Event::Done(outcome) => return text(Reply::done(outcome)).await,
            Event::Notified(told) => panic!("{told:?}"),
        }
    }
}

#[tokio::test]
async fn a_session_that_breaks_while_its_call_waits_ends_that_call_alone() {
    let peer = Quizmaster::start().await;
    let (supervisor, server) = started(BackendSpec { share: Share::All, parallel: 3, ..peer.spec() }).await;
    let first = asked(&server, request("hostile", "r0"), "r0").await;
    let (second, question) = asked(&server, request("ann", "r1"), "r1").await;
    // the client leaves: its session is not used by another for a while, since its server may still ask
    drop(first);
    let (third, other) = asked(&server, request("bob", "r2"), "r2").await;
    let used = sessions(&peer, &["r0", "r1", "r2"]);
    assert!(used[2] != used[0] && used[2] != used[1], "{used:?}");
    answer(question, "r1");
    answer(other, "r2");
    assert!(text(second).await.contains("r1") && text(third).await.contains("r2"));
    until("the sessions", || (supervisor.status()[0].sessions >= 3).then_some(())).await;
}
