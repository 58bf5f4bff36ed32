//! Servers of 2026-07-28 and clients with a session: the requests that end a call reach the client during its call, and
//! the server is called again with the answers.

use http::{Response, StatusCode};
use lockkeeper::mcp::{ErrorObject, Event, Method, Notification, Outcome, Payload, Reply, Revision};
use serde_json::{Value, json};

use super::{Client, Events, World, body};

const NEWEST: Revision = Revision::V2026_07_28;
const ALL: &str = r#"{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}}"#;
const NAME: &str = r#"{"method":"elicitation/create","params":{"message":"Name?","requestedSchema":{"type":"object","properties":{"n":{"type":"string"}}}}}"#;
const PAGE: &str = r#"{"method":"elicitation/create","params":{"mode":"url","message":"Log in","url":"https://x/k"}}"#;
const SAMPLE: &str = r#"{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}"#;
const ROOTS: &str = r#"{"method":"roots/list"}"#;

/// The end of a call with server requests.
pub(super) fn requires(text: &str) -> Outcome {
    Outcome::InputRequired(Payload::new(NEWEST, text.to_owned().into()))
}

/// The end of a call with these requests by key, and the state `"ST"`.
fn asks(questions: &[(&str, &str)]) -> Reply {
    let questions: Vec<String> = questions.iter().map(|(key, question)| format!(r#""{key}":{question}"#)).collect();
    let questions = questions.join(",");
    Reply::done(requires(&format!(
        r#"{{"resultType":"input_required","inputRequests":{{{questions}}},"requestState":"ST"}}"#
    )))
}

fn finished() -> Outcome {
    Outcome::Complete(Payload::new(NEWEST, r#"{"resultType":"complete","content":[]}"#.into()))
}

/// Progress of the backend, under the client's token.
fn progress(text: &str) -> Event {
    Event::Notified(Notification { method: Method::Progress, params: Payload::new(NEWEST, text.to_owned().into()) })
}

async fn opened(world: &World, version: &'static str, capabilities: &str) -> Client {
    let mut client = world.client("ann");
    client.open(version, serde_json::from_str(capabilities).unwrap()).await;
    client
}

/// A client whose calls get these replies in order.
async fn playing(world: &World, replies: impl IntoIterator<Item = Reply>) -> Client {
    world.server.plays.lock().extend(replies);
    opened(world, "2025-11-25", ALL).await
}

fn request(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

async fn play(client: &Client) -> Response<axum::body::Body> {
    client.send(request("tools/call", &json!({ "name": "play" }))).await
}

async fn answer(client: &Client, question: &Value, outcome: Value) {
    let mut answer = outcome;
    answer["jsonrpc"] = json!("2.0");
    answer["id"] = question["id"].clone();
    assert_eq!(client.send(answer).await.status(), StatusCode::ACCEPTED);
}

/// The parameters of the calls that the server got, verbatim.
fn got(world: &World) -> Vec<String> {
    let played = [Method::ToolsCall, Method::PromptsGet, Method::ResourcesRead];
    let calls = world.server.calls.lock();
    let calls = calls.iter().filter(|call| played.contains(&call.method));
    calls.map(|call| String::from_utf8_lossy(call.params.json()).into_owned()).collect()
}

#[tokio::test]
async fn each_round_uses_the_stream_of_the_call_and_brings_only_its_own_answers() {
    let world = World::new().await;
    let state =
        |state: &str| Reply::done(requires(&format!(r#"{{"inputRequests":{{"k":{NAME}}},"requestState":{state}}}"#)));
    let last = format!(r#"{{"inputRequests":{{"r":{ROOTS}}}}}"#);
    let replies = [state(r#""\u0053T\/1""#), state(r#""2""#), Reply::done(requires(&last)), Reply::done(finished())];
    let client = playing(&world, replies).await;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{ "name" : "play", "arguments":{"n":1.50,"big":12345678901234567890123} }}"#;
    client.reader.asks(&serde_json::from_str(call).unwrap());
    let mut events = Events::of(client.post(call).await);
    for (method, result) in [
        ("elicitation/create", json!({ "action": "accept", "content": { "n": "x" } })),
        ("elicitation/create", json!({ "action": "decline" })),
        ("roots/list", json!({ "roots": [] })),
    ] {
        let question = events.message().await.unwrap();
        assert_eq!(question["method"], method);
        answer(&client, &question, json!({ "result": result })).await;
    }
    assert_eq!(events.message().await.unwrap()["result"], json!({ "content": [] }));
    assert_eq!(events.raw().await, None);
    let params = r#"{ "name" : "play", "arguments":{"n":1.50,"big":12345678901234567890123} "#;
    assert_eq!(
        got(&world),
        [
            format!("{params}}}"),
            format!(
                r#"{params},"inputResponses":{{"k":{{"action":"accept","content":{{"n":"x"}}}}}},"requestState":"\u0053T\/1"}}"#
            ),
            format!(r#"{params},"inputResponses":{{"k":{{"action":"decline"}}}},"requestState":"2"}}"#),
            format!(r#"{params},"inputResponses":{{"r":{{"roots":[]}}}}}}"#),
        ]
    );
}

#[tokio::test]
async fn the_requests_of_a_round_are_sent_together_and_answered_in_any_order() {
    let world = World::new().await;
    let replies = [asks(&[("a", NAME), ("b", SAMPLE), ("c", ROOTS)]), Reply::done(finished())];
    let client = playing(&world, replies).await;
    let mut events = Events::of(play(&client).await);
    let mut questions = Vec::new();
    for _ in 0..3 {
        questions.push(events.message().await.unwrap());
    }
    let sample = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "t" } });
    answer(&client, &questions[2], json!({ "result": { "roots": [] } })).await;
    answer(&client, &questions[1], json!({ "result": sample })).await;
    assert_eq!(got(&world).len(), 1, "nothing goes on before the last answer");
    answer(&client, &questions[0], json!({ "result": { "action": "cancel" } })).await;
    assert!(events.message().await.unwrap()["result"].is_object());
    let again: Value = serde_json::from_str(&got(&world)[1]).unwrap();
    let expected = json!({ "a": { "action": "cancel" }, "b": sample, "c": { "roots": [] } });
    assert_eq!((&again["inputResponses"], &again["requestState"]), (&expected, &json!("ST")));
}

#[tokio::test]
async fn a_round_with_an_unsupported_request_is_refused_whole() {
    let tools = r#"{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[]}}"#;
    for (version, declared, question, feature, required) in [
        ("2025-11-25", r#"{"roots":{}}"#, NAME, "elicitation", json!({ "elicitation": {} })),
        (
            "2025-11-25",
            r#"{"roots":{},"elicitation":{}}"#,
            PAGE,
            "elicitation.url",
            json!({ "elicitation": { "url": {} } }),
        ),
        (
            "2025-11-25",
            r#"{"roots":{},"sampling":{}}"#,
            tools,
            "sampling.tools",
            json!({ "sampling": { "tools": {} } }),
        ),
        (
            "2025-06-18",
            r#"{"roots":{},"elicitation":{"url":{}}}"#,
            PAGE,
            "elicitation.url",
            json!({ "elicitation": { "url": {} } }),
        ),
        ("2025-03-26", r#"{"roots":{},"elicitation":{}}"#, NAME, "elicitation", json!({ "elicitation": {} })),
    ] {
        let world = World::new().await;
        let client = opened(&world, version, declared).await;
        let round = || asks(&[("r", ROOTS), ("k", question)]);
        world.server.plays.lock().extend([round(), round(), round()]);
        let asked = question.split('"').nth(3).unwrap();
        let text = format!("Cannot request input 'k' ({asked}): the client did not declare the {feature} capability");
        let answer = body(play(&client).await).await;
        assert_eq!(answer["result"], json!({ "content": [{ "type": "text", "text": text }], "isError": true }));
        for (method, params) in [("prompts/get", json!({ "name": "p" })), ("resources/read", json!({ "uri": "x:r" }))] {
            let error = body(client.send(request(method, &params)).await).await["error"].clone();
            let data = json!({ "requiredCapabilities": required });
            assert_eq!(error, json!({ "code": -32603, "message": text, "data": data }), "{version} {feature}");
        }
        assert_eq!(got(&world).len(), 3, "the server is not called again");
    }
}

#[tokio::test]
async fn an_error_cancels_a_dialog_and_ends_the_call_for_other_requests() {
    let world = World::new().await;
    let replies = [asks(&[("k", NAME)]), Reply::done(finished())];
    let client = playing(&world, replies).await;
    let crashed = json!({ "error": { "code": -32603, "message": "dialog crashed" } });
    let mut events = Events::of(play(&client).await);
    answer(&client, &events.message().await.unwrap(), crashed).await;
    assert!(events.message().await.unwrap()["result"].is_object());
    assert!(got(&world)[1].contains(r#""inputResponses":{"k":{"action":"cancel"}}"#));
    let refused = json!({ "error": { "code": -1, "message": "User rejected", "data": [1] } });
    for (method, params) in [
        ("tools/call", json!({ "name": "play" })),
        ("prompts/get", json!({ "name": "p" })),
        ("resources/read", json!({ "uri": "x:r" })),
    ] {
        world.server.plays.lock().push_back(asks(&[("k", NAME), ("s", SAMPLE)]));
        let before = got(&world).len();
        let mut events = Events::of(client.send(request(method, &params)).await);
        let (dialog, sampling) = (events.message().await.unwrap(), events.message().await.unwrap());
        answer(&client, &sampling, refused.clone()).await;
        let withdrawn = events.message().await.unwrap();
        assert_eq!(withdrawn["method"], "notifications/cancelled", "the dialog that is open is withdrawn: {withdrawn}");
        assert_eq!(withdrawn["params"]["requestId"], dialog["id"]);
        let ended = events.message().await.unwrap();
        let text = "Input 's' (sampling/createMessage) was not given: User rejected";
        if method == "tools/call" {
            assert_eq!(ended["result"]["content"][0]["text"], text);
            assert_eq!(ended["result"]["isError"], true);
        } else {
            assert_eq!(ended["error"], json!({ "code": -32603, "message": text, "data": refused["error"] }));
        }
        assert_eq!(got(&world).len(), before + 1, "the server is not called again");
    }
}

#[tokio::test]
async fn an_unreachable_client_counts_as_a_cancelled_dialog() {
    let world = World::new().await;
    world.server.plays.lock().extend([asks(&[("k", NAME)]), Reply::done(finished()), asks(&[("r", ROOTS)])]);
    let mut client = world.client("ann");
    let response = client.send(super::initialize("2025-11-25", serde_json::from_str(ALL).unwrap())).await;
    client.session = Some(response.headers()["mcp-session-id"].to_str().unwrap().to_owned());
    // it never sends `notifications/initialized`
    assert!(body(play(&client).await).await["result"]["isError"].is_null());
    assert!(got(&world)[1].contains(r#"{"action":"cancel"}"#));
    assert_eq!(body(play(&client).await).await["result"]["isError"], true);
}

#[tokio::test]
async fn cancelling_between_two_rounds_withdraws_the_requests_and_stops() {
    let world = World::new().await;
    let client = playing(&world, [asks(&[("a", NAME), ("b", ROOTS)]), Reply::done(finished())]).await;
    let mut events = Events::of(play(&client).await);
    let (first, second) = (events.message().await.unwrap(), events.message().await.unwrap());
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    client.send(cancel).await;
    for question in [&first, &second] {
        let withdrawn = events.message().await.unwrap();
        assert_eq!(withdrawn["method"], "notifications/cancelled");
        assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    }
    assert_eq!(events.message().await, None);
    answer(&client, &first, json!({ "result": { "action": "accept" } })).await;
    assert_eq!(got(&world).len(), 1);
}

#[tokio::test]
async fn cancelling_a_later_round_reaches_the_server() {
    let world = World::new().await;
    let (gone, mut dropped) = tokio::sync::mpsc::channel::<()>(1);
    let hanging = Reply::new(async_stream::stream! {
        let _gone = gone;
        std::future::pending::<()>().await;
        yield Event::Done(finished());
    });
    let client = playing(&world, [asks(&[("a", ROOTS)]), hanging]).await;
    let mut events = Events::of(play(&client).await);
    answer(&client, &events.message().await.unwrap(), json!({ "result": { "roots": [] } })).await;
    tokio::select! {
        said = events.raw() => panic!("{said:?}"),
        () = world.server.wait_for(Method::ToolsCall, 2) => {}
    }
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    client.send(cancel).await;
    assert_eq!(events.message().await, None);
    assert_eq!(dropped.recv().await, None);
}

#[tokio::test]
async fn a_client_whose_stream_breaks_in_a_round_can_answer_and_gets_the_next_after_resuming() {
    let world = World::new().await;
    let client = playing(&world, [asks(&[("a", ROOTS)]), asks(&[("b", ROOTS)]), Reply::done(finished())]).await;
    let mut events = Events::of(play(&client).await);
    let (mut id, mut data) = events.numbered().await.unwrap();
    while data.is_empty() {
        (id, data) = events.numbered().await.unwrap();
    }
    drop(events);
    answer(&client, &serde_json::from_str(&data).unwrap(), json!({ "result": { "roots": [] } })).await;
    world.server.wait_for(Method::ToolsCall, 2).await;
    let mut events = Events::of(client.resume(&id).await);
    let question = events.message().await.unwrap();
    assert_eq!(question["method"], "roots/list");
    answer(&client, &question, json!({ "result": { "roots": [] } })).await;
    assert_eq!(events.message().await.unwrap()["result"], json!({ "content": [] }));
    assert_eq!(got(&world).len(), 3);
}

#[tokio::test]
async fn a_round_without_requests_is_repeated_after_a_delay() {
    let world = World::new().await;
    let later = |state: &str| Reply::done(requires(&format!(r#"{{"requestState":"{state}"}}"#)));
    let client = playing(&world, [later("1"), later("2"), later("3"), later("4"), Reply::done(finished())]).await;
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    assert_eq!(body(play(&client).await).await["result"], json!({ "content": [] }));
    // 50, 100, 200 and 250 ms, each rounded up
    assert!((600..=610).contains(&began.elapsed().as_millis()));
    let expected = ["1", "2", "3", "4"].map(|state| format!(r#"{{"name":"play","requestState":"{state}"}}"#));
    assert_eq!(got(&world)[1..], expected);
}

#[tokio::test]
async fn a_call_fails_after_ten_rounds() {
    let world = World::new().await;
    let client = playing(&world, (0..12).map(|_| asks(&[("a", ROOTS)]))).await;
    for method in ["tools/call", "prompts/get"] {
        world.server.plays.lock().extend((0..12).map(|_| asks(&[("a", ROOTS)])));
        let before = got(&world).len();
        let mut events = Events::of(client.send(request(method, &json!({ "name": "play" }))).await);
        for _ in 0..10 {
            answer(&client, &events.message().await.unwrap(), json!({ "result": { "roots": [] } })).await;
        }
        let ended = events.message().await.unwrap();
        let text = "still required input after 10 rounds";
        if method == "tools/call" {
            assert_eq!(ended["result"], json!({ "content": [{ "type": "text", "text": text }], "isError": true }));
        } else {
            assert_eq!(ended["error"], json!({ "code": -32603, "message": text }));
        }
        assert_eq!(got(&world).len() - before, 11, "once, and again after each round");
    }
}

#[tokio::test]
async fn progress_rises_over_all_rounds_and_reports_the_wait() {
    let world = World::new().await;
    let replies = [
        Reply::new(futures_util::stream::iter([
            progress(r#"{"progressToken":"p","progress":4.50, "total":9}"#),
            Event::Done(requires(&format!(r#"{{"inputRequests":{{"r":{ROOTS}}}}}"#))),
        ])),
        Reply::new(futures_util::stream::iter([
            progress(r#"{"progressToken":"p","progress":1,"total":2}"#),
            Event::Done(finished()),
        ])),
    ];
    let client = playing(&world, replies).await;
    let params = json!({ "name": "play", "_meta": { "progressToken": "p" } });
    let mut events = Events::of(client.send(request("tools/call", &params)).await);
    let first = events.data().await.unwrap();
    assert!(first.contains(r#"{"progressToken":"p","progress":4.50, "total":9}"#), "{first}");
    let waiting = events.message().await.unwrap();
    assert_eq!(waiting["params"]["message"], "waiting for input (round 1)");
    let waits = waiting["params"]["progress"].as_f64().unwrap();
    answer(&client, &events.message().await.unwrap(), json!({ "result": { "roots": [] } })).await;
    let later = events.message().await.unwrap();
    assert_eq!(later["params"], json!({ "progressToken": "p", "progress": 5.5, "total": 6.5 }));
    assert!(4.5 < waits && waits < 5.5, "{waits}");
    assert!(events.message().await.unwrap()["result"].is_object());
}

#[tokio::test]
async fn a_pending_url_elicitation_is_repeated_with_the_same_id() {
    let world = World::new().await;
    let client = playing(&world, [asks(&[("a", PAGE)]), asks(&[("a", PAGE)]), Reply::done(finished())]).await;
    let mut events = Events::of(play(&client).await);
    let mut ids = Vec::new();
    for _ in 0..2 {
        let question = events.message().await.unwrap();
        ids.push(question["params"]["elicitationId"].as_str().unwrap().to_owned());
        answer(&client, &question, json!({ "result": { "action": "accept" } })).await;
    }
    assert_eq!(ids[0], ids[1]);
    assert!(events.message().await.unwrap()["result"].is_object());
}

#[tokio::test]
async fn an_older_client_gets_its_own_version_and_is_asked_again_outside_of_the_bounds() {
    let world = World::new().await;
    let form = r#"{"method":"elicitation/create","params":{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"c":{"type":"array","minItems":1,"items":{"type":"string","enum":["R","G"]}}}}}}"#;
    world.server.plays.lock().extend([asks(&[("k", form)]), Reply::done(finished())]);
    let client = opened(&world, "2025-06-18", r#"{"elicitation":{}}"#).await;
    let mut events = Events::of(play(&client).await);
    for chosen in [false, true] {
        let question = events.message().await.unwrap();
        assert!(question["params"].get("mode").is_none(), "{question}");
        let content = json!({ "c__0": false, "c__1": chosen });
        answer(&client, &question, json!({ "result": { "action": "accept", "content": content } })).await;
    }
    assert!(events.message().await.unwrap()["result"].is_object());
    assert!(got(&world)[1].contains(r#""inputResponses":{"k":{"action":"accept","content":{"c":["G"]}}}"#));
}

#[tokio::test]
async fn an_invalid_round_is_an_error_of_the_server() {
    let world = World::new().await;
    let broken = ["{}", r#"{"inputRequests":{"a":{"method":"ping"}}}"#].map(|text| Reply::done(requires(text)));
    let client = playing(&world, broken).await;
    for _ in 0..2 {
        assert_eq!(body(play(&client).await).await["error"]["code"], ErrorObject::INTERNAL_ERROR);
    }
}

#[tokio::test]
async fn a_question_that_nobody_answers_ends_in_its_time() {
    let server_request_timeout = std::time::Duration::from_millis(20);
    let world =
        World::with(super::limited(lockkeeper::model::LimitsConfig { server_request_timeout, ..Default::default() }))
            .await;
    let client = playing(&world, [asks(&[("k", NAME)]), asks(&[("r", ROOTS)])]).await;
    let mut events = Events::of(play(&client).await);
    let mut methods = Vec::new();
    while let Some(message) = events.message().await {
        methods.push(message["method"].as_str().unwrap_or("result").to_owned());
    }
    let withdrawn = "notifications/cancelled";
    assert_eq!(methods, ["elicitation/create", withdrawn, "roots/list", withdrawn, "result"]);
    assert!(got(&world)[1].contains(r#"{"action":"cancel"}"#));
}
