//! Streams that break off at any moment, several at once, and the losses of slow readers (design rules 7, 8, 10).

use std::collections::BTreeMap;

use http::StatusCode;
use lockkeeper::{
    frontend::FrontendSettings,
    mcp::{Event, Method, Notification, Outcome, Payload, Revision, ServerRequest},
};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::{Client, Events, World, call};

const REVISION: Revision = Revision::V2025_11_25;
/// The number of concurrent calls, and of standalone streams.
const CALLS: usize = 3;
const STANDALONE: usize = 2;

/// One step.
#[derive(Debug, Clone)]
enum Act {
    /// The server sends progress in the call.
    Say(usize),
    /// The server sends a notification outside of calls.
    Tell,
    /// The client reads at most so many events of a stream.
    Read(usize, usize),
    /// An event is sent and lost, and the stream breaks off.
    Lose(usize),
    /// The stream breaks off.
    Break(usize),
    /// The client resumes, whether the stream broke off or not.
    Resume(usize),
}

/// One stream from its client's view.
#[derive(Default)]
struct Line {
    events: Option<Events>,
    last: String,
    said: Vec<Value>,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let line = 0..CALLS + STANDALONE;
    vec(
        prop_oneof![
            3 => (0..CALLS).prop_map(Act::Say),
            3 => Just(Act::Tell),
            3 => (line.clone(), 1..4_usize).prop_map(|(line, most)| Act::Read(line, most)),
            1 => line.clone().prop_map(Act::Lose),
            1 => line.clone().prop_map(Act::Break),
            2 => line.prop_map(Act::Resume),
        ],
        1..60,
    )
}

pub(super) fn told(method: Method, params: &Value) -> Event {
    Event::Notified(Notification { method, params: Payload::of(REVISION, params) })
}

fn progress(number: usize) -> Event {
    told(Method::Progress, &json!({ "progressToken": "p", "progress": number }))
}

pub(super) fn done() -> Event {
    Event::Done(Outcome::Complete(Payload::of(REVISION, &json!({ "content": [] }))))
}

/// Lets all tasks run until they wait.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// The output of `future` if all tasks together bring it about; `None` if it waits for something else.
async fn while_settling<T>(future: impl Future<Output = T>) -> Option<T> {
    settle().await;
    tokio::select! {
        biased;
        output = future => Some(output),
        () = settle() => None,
    }
}

/// The stream of a call that the test answers by its name, which is its id as text; it has made progress.
pub(super) async fn talk(world: &World, client: &Client, id: impl Into<Value>) -> Events {
    let id = id.into();
    let name = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    let send = client.send(call(id, "talk", json!({ "name": name })));
    let begin = async {
        while !world.server.talks.lock().contains_key(&name) {
            tokio::task::yield_now().await;
        }
        world.server.say(&name, progress(0));
    };
    Events::of(tokio::join!(send, begin).0)
}

impl Line {
    /// Reads available events, at most `most`.
    async fn read(&mut self, most: usize) {
        for _ in 0..most {
            let Some(events) = &mut self.events else { return };
            let Some(event) = while_settling(events.numbered()).await else { return };
            let Some((id, data)) = event else {
                self.events = None;
                return;
            };
            self.last = id;
            self.said.extend((!data.is_empty()).then(|| serde_json::from_str::<Value>(&data).unwrap()));
        }
    }

    async fn resume(&mut self, client: &Client) {
        self.events = Some(Events::of(client.resume(&self.last).await));
    }
}

/// The steps of all streams of one session.
struct Play {
    world: World,
    client: Client,
    lines: Vec<Line>,
    said: [usize; CALLS],
    told: usize,
}

impl Play {
    async fn begin() -> Self {
        let world = World::new().await;
        let client = world.ready("ann", "2025-11-25").await;
        let mut lines = Vec::new();
        for id in 0..CALLS {
            lines.push(Line { events: Some(talk(&world, &client, id).await), ..Line::default() });
        }
        for _ in 0..STANDALONE {
            lines.push(Line { events: Some(Events::of(client.get().await)), ..Line::default() });
        }
        // each client has an event id before its stream breaks off
        for line in &mut lines {
            line.read(1).await;
        }
        world.server.wait_for(Method::Listen, 1).await;
        settle().await;
        Self { world, client, lines, said: [1; CALLS], told: 0 }
    }

    async fn act(&mut self, act: Act) {
        match act {
            Act::Say(call) => {
                self.world.server.say(&call.to_string(), progress(self.said[call]));
                self.said[call] += 1;
            }
            Act::Tell => {
                let params = json!({ "level": "info", "data": self.told });
                self.world.server.told.send((Method::LoggingMessage, params)).unwrap();
                self.told += 1;
            }
            Act::Read(line, most) => self.lines[line].read(most).await,
            Act::Lose(line) => {
                if let Some(mut events) = self.lines[line].events.take() {
                    while_settling(events.raw()).await;
                }
            }
            Act::Break(line) => self.lines[line].events = None,
            Act::Resume(line) => self.lines[line].resume(&self.client).await,
        }
        settle().await;
    }

    /// Ends every call, and reads every stream to its end.
    async fn end(&mut self) {
        for call in 0..CALLS {
            self.world.server.say(&call.to_string(), done());
        }
        settle().await;
        for line in &mut self.lines {
            line.resume(&self.client).await;
            line.read(1_000).await;
        }
        // messages that a standalone stream had left when the next replaced it go to the newest
        let newest = self.lines.last_mut().unwrap();
        newest.resume(&self.client).await;
        newest.read(1_000).await;
    }
}

async fn play(acts: Vec<Act>) -> Result<(), TestCaseError> {
    let mut play = Play::begin().await;
    for act in acts {
        play.act(act).await;
    }
    play.end().await;
    for (call, line) in play.lines[..CALLS].iter().enumerate() {
        let mut expected: Vec<_> = (0..play.said[call]).map(|number| json!(number)).collect();
        expected.push(json!({ "content": [] }));
        let said = line.said.iter().map(|message| match &message["result"] {
            Value::Null => message["params"]["progress"].clone(),
            result => result.clone(),
        });
        prop_assert_eq!(said.collect::<Vec<_>>(), expected, "call {}", call);
        prop_assert!(line.said.iter().all(|message| message["id"].is_null() || message["id"] == call));
    }
    let mut heard = BTreeMap::new();
    for line in &play.lines[CALLS..] {
        let numbers: Vec<_> = line.said.iter().map(|message| message["params"]["data"].as_u64().unwrap()).collect();
        prop_assert!(numbers.is_sorted(), "a stream tells in order: {:?}", numbers);
        for number in numbers {
            *heard.entry(number).or_insert(0) += 1;
        }
    }
    let expected: BTreeMap<_, _> = (0..play.told as u64).map(|number| (number, 1)).collect();
    prop_assert_eq!(heard, expected, "what is told outside of calls is told once");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn broken_streams_deliver_every_message_once_and_in_order(acts in acts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(acts))?;
    }
}

#[tokio::test]
async fn a_stalled_reader_loses_only_dispensable_messages() {
    let world = World::with(FrontendSettings { replay_messages: 8, ..super::settings() }).await;
    let mut client = world.client("ann");
    client.open("2025-06-18", json!({ "roots": {} })).await;
    let mut stalled = talk(&world, &client, 1).await;
    let (question, answered) = ServerRequest::new(Method::RootsList, Payload::of(REVISION, &json!({})));
    world.server.say("1", Event::Asked(question));
    for number in 1..=100 {
        world.server.say("1", progress(number));
    }
    settle().await;
    let mut said = Vec::new();
    while said.len() < 8 {
        said.push(stalled.message().await.unwrap());
    }
    assert_eq!(said[0]["method"], "roots/list");
    let numbers: Vec<_> = said[1..].iter().map(|message| message["params"]["progress"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (94..=100).collect::<Vec<_>>(), "the newest are kept");
    client.send(json!({ "jsonrpc": "2.0", "id": said[0]["id"], "result": { "roots": [] } })).await;
    assert!(answered.wait().await.unwrap().is_ok());
    world.server.say("1", done());
    assert_eq!(stalled.message().await.unwrap()["id"], 1);
    assert!(stalled.message().await.is_none());
}

#[tokio::test]
async fn a_reader_that_is_too_slow_is_disconnected_and_resumes_for_the_answer() {
    let world = World::with(FrontendSettings { replay_messages: 8, ..super::settings() }).await;
    let client = world.ready("ann", "2025-11-25").await;
    let mut stalled = talk(&world, &client, 1).await;
    let (start, _) = stalled.numbered().await.unwrap();
    for number in 0..50 {
        let params = json!({ "uri": format!("a:{number}") });
        world.server.say("1", told(Method::ResourceUpdated, &params));
    }
    settle().await;
    assert_eq!(stalled.message().await.unwrap()["params"]["progress"], 0, "it came with the first event");
    assert!(stalled.message().await.is_none(), "it is cut off");
    world.server.say("1", done());
    let mut again = Events::of(client.resume(&start).await);
    let mut last = Value::Null;
    while let Some(message) = again.message().await {
        last = message;
    }
    assert_eq!(last["id"], 1);
}

#[tokio::test]
async fn a_resumed_stream_ends_with_its_session() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-11-25").await;
    let mut events = talk(&world, &client, 1).await;
    let (start, _) = events.numbered().await.unwrap();
    let mut again = Events::of(client.resume(&start).await);
    assert_eq!(again.message().await.unwrap()["params"]["progress"], 0);
    assert_eq!(client.delete().await.status(), StatusCode::NO_CONTENT);
    assert_eq!(again.message().await.unwrap()["id"], 1, "the call is answered");
    assert!(again.message().await.is_none());
    assert_eq!(client.resume(&start).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_stream_of_a_batch_can_be_resumed() {
    let world = World::new().await;
    let mut client = world.client("ann");
    client.open("2025-03-26", json!({ "roots": {} })).await;
    let batch = json!([
        call(1, "progress", json!({})),
        call(2, "hold", json!({})),
        call(3, "ask", json!({ "method": "roots/list" }))
    ]);
    let mut events = Events::of(client.send(batch).await);
    let (id, first) = events.numbered().await.unwrap();
    drop(events);
    let mut events = Events::of(client.resume(&id).await);
    let mut said = vec![serde_json::from_str::<Value>(&first).unwrap()];
    world.server.gate.add_permits(1);
    let mut answers = Vec::new();
    while let Some(message) = events.message().await {
        if message["method"] == "roots/list" {
            client.send(json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "roots": [] } })).await;
        }
        answers.extend(message["id"].as_u64().filter(|_| message["method"].is_null()));
        said.push(message);
    }
    answers.sort_unstable();
    assert_eq!(answers, [1, 2, 3]);
    assert_eq!(said.len(), 5, "one notification, one question, three answers: {said:?}");
}

#[tokio::test]
async fn streams_begin_as_their_version_requires() {
    let world = World::new().await;
    for (version, standalone, call) in [
        ("2025-03-26", ": \n\n", ": \n\n"),
        ("2025-06-18", ": \n\n", ": \n\n"),
        ("2025-11-25", "retry: 1000\ndata: \n\n", "retry: 1000\ndata: \n\n"),
    ] {
        let client = world.ready("ann", version).await;
        let first = Events::of(client.get().await).raw().await.unwrap();
        assert!(first.ends_with(standalone), "{version}: {first}");
        let first = talk(&world, &client, 1).await.raw().await.unwrap();
        assert!(first.ends_with(call), "{version}: {first}");
        assert_eq!(first.starts_with("id: "), version == "2025-11-25");
    }
}
