//! Tasks between a server that has them and clients without tasks, which never see them.

use lockkeeper::mcp::Revision;
use serde_json::{Value, json};

use super::{Pair, peer::Peer};

/// A scripted call of the tool that runs only as a task.
pub(super) fn call(steps: &Value) -> Value {
    json!({ "name": "chore", "arguments": { "steps": steps }, "_meta": { "progressToken": "t" } })
}

/// A tool that has to be called as a task.
pub(super) async fn only_as_a_task(peer: &mut Peer, pair: Pair) {
    let listed = peer.ask("tools/list", json!({})).await["result"]["tools"].clone();
    let mut tools = listed.as_array().unwrap().iter();
    let listed = tools.find(|tool| tool["name"] == "chore").unwrap();
    if pair.client == Revision::V2025_11_25 {
        // the client sees the requirement, and decides by itself
        assert_eq!(listed["execution"]["taskSupport"], "required", "{peer:?}");
        let refused = peer.ask("tools/call", call(&json!([]))).await;
        assert_eq!(refused["error"]["code"], -32601, "{peer:?}: {refused}");
        return;
    }
    assert!(listed.get("execution").is_none(), "{peer:?}: {listed}");
    let log = json!({ "level": "alert", "data": "at it" });
    let talk = json!([
        ["progress", 1],
        ["tell", "notifications/message", log],
        ["ask", "q", "roots/list", {}],
        ["answer", "q"],
        ["progress", 2]
    ]);
    peer.wants_logs("alert").await;
    let called = peer.send("tools/call", call(&talk)).await;
    let question = peer.next("roots/list").await;
    assert_eq!(question.get("params"), None, "{peer:?}");
    peer.reply(&question, json!({ "roots": [] })).await;
    let answer = peer.answer(&called).await;
    assert_eq!(answer["result"].get("_meta"), None, "{peer:?}: {answer}");
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"q": {"roots": []}}"#, "{peer:?}: {answer}");
    for number in [1, 2] {
        let progress = peer.next("notifications/progress").await;
        assert_eq!(progress["params"], json!({ "progressToken": "t", "progress": number }), "{peer:?}");
    }
    assert_eq!(peer.next("notifications/message").await["params"], log, "{peer:?}");
    if !peer.is_stateless() {
        let held = held(peer).await;
        peer.tell("notifications/cancelled", json!({ "requestId": held })).await;
        peer.play(json!([["hear", "tasks/cancel"]])).await;
    }
}

/// A call of that tool that runs until it is cancelled.
pub(super) async fn held(peer: &mut Peer) -> Value {
    let held = peer.send("tools/call", call(&json!([["progress", 1], ["hold"]]))).await;
    peer.next("notifications/progress").await;
    held
}

/// A server request that the client may run as a task.
pub(super) async fn asked_as_a_task(peer: &mut Peer) {
    let greeted = peer.play(json!([["count", "initialize"]])).await;
    assert_eq!(greeted["last"]["capabilities"].get("tasks"), None, "{peer:?}: {greeted}");
    let messages = json!([{ "role": "user", "content": { "type": "text", "text": "hm?" } }]);
    let plain = json!({ "messages": messages, "maxTokens": 5 });
    let mut asked = plain.clone();
    asked["task"] = json!({ "ttl": 1000 });
    let call = peer.script(json!([["ask", "q", "sampling/createMessage", asked], ["answer", "q"]])).await;
    let question = peer.next("sampling/createMessage").await;
    assert_eq!(question["params"], plain, "{peer:?}");
    let answer = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "ah" } });
    peer.reply(&question, answer.clone()).await;
    assert_eq!(peer.told(&call).await["q"], answer, "{peer:?}");
}
