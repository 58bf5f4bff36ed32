//! The demonstration backend.

use std::sync::Arc;

use lockkeeper::{
    mcp::{Context, ErrorObject, Event, Level, LogLevel, Method, Payload, Server},
    model::{BackendId, BackendSpec, TransportSpec},
};
use serde_json::{Value, json};

use super::scripted_servers::{call, client, failure, gateway, next, result, start, text, tool};

fn demo() -> Arc<dyn Server> {
    let spec = BackendSpec::new(BackendId::parse("demo").unwrap(), TransportSpec::Demo);
    start(vec![spec]).servers().remove(0).server
}

#[tokio::test]
async fn its_lists_are_complete() {
    let server = demo();
    let names = async |method, list: &str| {
        let listed: Value =
            serde_json::from_str(&result(call(&server, gateway(), method, &Value::Null)).await).unwrap();
        let names: Vec<&str> = listed[list].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
        names.join(" ")
    };
    assert_eq!(
        names(Method::ToolsList, "tools").await,
        "echo add time_now countdown survey haiku list_roots log count_up"
    );
    assert_eq!(names(Method::ResourcesList, "resources").await, "welcome counter");
    assert_eq!(names(Method::ResourceTemplatesList, "resourceTemplates").await, "greeting");
    assert_eq!(names(Method::PromptsList, "prompts").await, "introduce");
    let discovered = result(call(&server, gateway(), Method::Discover, &Value::Null)).await;
    assert!(discovered.contains("io.modelcontextprotocol/serverInfo"));
}

#[tokio::test]
async fn its_tools_return_results_and_errors() {
    let server = demo();
    let of = |params: Value| tool(&server, gateway(), &params);
    assert_eq!(text(of(json!({ "name": "echo", "arguments": { "message": "hi" } }))).await, "hi");
    assert_eq!(text(of(json!({ "name": "time_now" }))).await, "2026-01-01T00:00:00Z");
    let sum = result(of(json!({ "name": "add", "arguments": { "a": 2, "b": 40.5 } }))).await;
    insta::assert_snapshot!(sum, @r#"{"content":[{"text":"42.5","type":"text"}],"structuredContent":{"sum":42.5}}"#);
    let more = json!({ "message": "hi", "more": { "deep": [[[]]], "a": "a" } });
    assert_eq!(text(of(json!({ "name": "echo", "arguments": more }))).await, "hi");
    let numbers = json!({ "name": "add", "arguments": { "a": "2", "b": 40.5 } });
    let texts = json!({ "name": "echo", "arguments": { "message": 5 } });
    let none = json!({ "name": "echo", "arguments": null });
    let late = json!({ "name": "countdown", "arguments": { "from": 1e9 } });
    for wrong in [json!({}), json!({ "name": "add" }), numbers, texts, none, late] {
        assert_eq!(failure(of(wrong)).await.code(), -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn the_countdown_reports_each_second() {
    let server = demo();
    let params = json!({ "name": "countdown", "arguments": { "from": 2 }, "_meta": { "progressToken": 7 } });
    let mut reply = tool(&server, gateway(), &params);
    for left in ["1 to go", "0 to go"] {
        let Event::Notified(progress) = next(&mut reply).await else { panic!("progress") };
        assert_eq!(progress.params.string("message").as_deref(), Some(left));
        assert!(progress.params.object().unwrap().get("progressToken") == Some("7"));
    }
    assert_eq!(text(reply).await, "Lift-off!");
}

#[tokio::test]
async fn its_resources_and_its_prompt_can_be_read() {
    let server = demo();
    let read = |uri: &str| call(&server, gateway(), Method::ResourcesRead, &json!({ "uri": uri }));
    assert!(result(read("demo://welcome")).await.contains("Welcome to Lockkeeper"));
    assert!(result(read("demo://greeting/Ada%20L.")).await.contains("Hello, Ada L.!"));
    let missing = failure(read("demo://other")).await;
    assert_eq!(missing.json(), r#"{"code":-32002,"data":{"uri":"demo://other"},"message":"Resource not found"}"#);
    let prompt = json!({ "name": "introduce", "arguments": { "name": "Ada" } });
    assert!(result(call(&server, gateway(), Method::PromptsGet, &prompt)).await.contains("Introduce yourself to Ada"));
}

#[tokio::test]
async fn its_server_requests_report_the_answers() {
    let server = demo();
    let all = r#"{"elicitation":{},"sampling":{},"roots":{}}"#;
    for (name, method, answer, told) in [
        ("survey", "elicitation/create", json!({ "action": "accept", "content": { "name": "Ada" } }), "Ada answered"),
        ("survey", "elicitation/create", json!({ "action": "decline" }), "declined"),
        ("survey", "elicitation/create", json!({ "action": "cancel" }), "without an answer"),
        ("haiku", "sampling/createMessage", json!({ "model": "m", "content": { "text": "old pond" } }), "old pond"),
        ("list_roots", "roots/list", json!({ "roots": [{ "uri": "file:///a", "name": "A" }] }), "- file:///a A"),
        ("list_roots", "roots/list", json!({ "roots": [{ "uri": "file:///b" }] }), "- file:///b"),
        ("list_roots", "roots/list", json!({ "roots": [] }), "no roots"),
    ] {
        let mut reply = tool(&server, client("c", all), &json!({ "name": name }));
        let Event::Asked(question) = next(&mut reply).await else { panic!("a question") };
        assert_eq!(question.method.as_str(), method);
        question.answer.give(Ok(Payload::of(question.params.revision, &answer)));
        let text = text(reply).await;
        assert!(text.contains(told), "{text}");
    }
    let mut reply = tool(&server, client("c", all), &json!({ "name": "haiku" }));
    let Event::Asked(question) = next(&mut reply).await else { panic!("a question") };
    question.answer.give(Err(ErrorObject::new(-1, "not today")));
    assert!(text(reply).await.contains("not today (-1)"));
    let result = result(tool(&server, client("c", "{}"), &json!({ "name": "survey" }))).await;
    assert!(result.contains("did not declare `elicitation`") && result.contains("\"isError\":true"), "{result}");
}

#[tokio::test(start_paused = true)]
async fn its_log_respects_the_level_of_the_session() {
    let server = demo();
    let context = Context { level: LogLevel::Request(Some(Level::Alert)), ..client("a", "{}") };
    assert_eq!(text(tool(&server, context, &json!({ "name": "log" }))).await, "2 of 8 messages were written.");
    assert_eq!(
        text(tool(&server, client("b", "{}"), &json!({ "name": "log" }))).await,
        "8 of 8 messages were written."
    );
}

#[tokio::test(start_paused = true)]
async fn its_counter_notifies_subscribers() {
    let server = demo();
    let mut listens = ["a", "b"].map(|session| call(&server, client(session, "{}"), Method::Listen, &Value::Null));
    let uri = json!({ "uri": "demo://counter" });
    result(call(&server, client("a", "{}"), Method::ResourcesSubscribe, &uri)).await;
    assert_eq!(text(tool(&server, client("b", "{}"), &json!({ "name": "count_up" }))).await, "The counter is at 1.");
    for _ in 0..2 {
        let Event::Notified(told) = next(&mut listens[0]).await else { panic!("an update") };
        assert_eq!(told.params.string("uri").as_deref(), Some("demo://counter"), "by hand, and by itself");
    }
    assert!(result(call(&server, gateway(), Method::ResourcesRead, &uri)).await.contains(r#""text":"2""#));
    result(call(&server, client("a", "{}"), Method::ResourcesUnsubscribe, &uri)).await;
    let silence = std::time::Duration::from_secs(12);
    for listen in &mut listens {
        assert!(tokio::time::timeout(silence, next(listen)).await.is_err());
    }
}

#[tokio::test]
async fn it_completes_names() {
    let server = demo();
    let begun = |value: &str| {
        let params = json!({ "ref": { "type": "ref/prompt", "name": "introduce" }, "argument": { "name": "name", "value": value } });
        result(call(&server, gateway(), Method::Complete, &params))
    };
    assert!(begun("a").await.contains(r#""values":["Ada","Alan"]"#));
    assert!(begun("x").await.contains(r#""values":[]"#));
}
