//! Tasks between a server that has them and clients without tasks, which never see them.

use lockkeeper::mcp::Revision;
use serde_json::{Value, json};

use crate::kit::player::{Pair, Player};

/// A scripted call of the tool that runs only as a task.
pub(super) fn call(steps: &Value) -> Value {
    json!({ "name": "chore", "arguments": { "steps": steps }, "_meta": { "progressToken": "t" } })
}

/// A tool that has to be called as a task.
pub(super) async fn only_as_a_task(player: &mut Player, pair: Pair) {
    let listed = player.ask("tools/list", json!({})).await["result"]["tools"].clone();
    let mut tools = listed.as_array().unwrap().iter();
    let listed = tools.find(|tool| tool["name"] == "chore").unwrap();
    if pair.client == Revision::V2025_11_25 {
        // the client sees the requirement, and decides by itself
        assert_eq!(listed["execution"]["taskSupport"], "required", "{player:?}");
        let refused = player.ask("tools/call", call(&json!([]))).await;
        assert_eq!(refused["error"]["code"], -32601, "{player:?}: {refused}");
        return;
    }
    assert!(listed.get("execution").is_none(), "{player:?}: {listed}");
    let log = json!({ "level": "alert", "data": "at it" });
    let talk = json!([
        ["progress", 1],
        ["tell", "notifications/message", log],
        ["ask", "q", "roots/list", {}],
        ["answer", "q"],
        ["progress", 2]
    ]);
    player.wants_logs("alert").await;
    let called = player.send("tools/call", call(&talk)).await;
    let question = player.next("roots/list").await;
    assert_eq!(question.get("params"), None, "{player:?}");
    player.reply(&question, json!({ "roots": [] })).await;
    let answer = player.answer(&called).await;
    assert_eq!(answer["result"].get("_meta"), None, "{player:?}: {answer}");
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"q": {"roots": []}}"#, "{player:?}: {answer}");
    for number in [1, 2] {
        let progress = player.next("notifications/progress").await;
        assert_eq!(progress["params"], json!({ "progressToken": "t", "progress": number }), "{player:?}");
    }
    assert_eq!(player.next("notifications/message").await["params"], log, "{player:?}");
    if !player.is_stateless() {
        let held = held(player).await;
        player.tell("notifications/cancelled", json!({ "requestId": held })).await;
        player.play(json!([["hear", "tasks/cancel"]])).await;
    }
}

/// A call of that tool that runs until it is cancelled.
pub(super) async fn held(player: &mut Player) -> Value {
    let held = player.send("tools/call", call(&json!([["progress", 1], ["hold"]]))).await;
    player.next("notifications/progress").await;
    held
}

/// A server request that the client may run as a task.
pub(super) async fn asked_as_a_task(player: &mut Player) {
    let greeted = player.play(json!([["count", "initialize"]])).await;
    assert_eq!(greeted["last"]["capabilities"].get("tasks"), None, "{player:?}: {greeted}");
    let messages = json!([{ "role": "user", "content": { "type": "text", "text": "hm?" } }]);
    let plain = json!({ "messages": messages, "maxTokens": 5 });
    let mut asked = plain.clone();
    asked["task"] = json!({ "ttl": 1000 });
    let call = player.script(json!([["ask", "q", "sampling/createMessage", asked], ["answer", "q"]])).await;
    let question = player.next("sampling/createMessage").await;
    assert_eq!(question["params"], plain, "{player:?}");
    let answer = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "ah" } });
    player.reply(&question, answer.clone()).await;
    assert_eq!(player.told(&call).await["q"], answer, "{player:?}");
}
