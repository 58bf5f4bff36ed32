//! The features, each as one conversation. What a pair of versions cannot have is asserted as the refusal that it is.

use futures_util::future::BoxFuture;
use lockkeeper::mcp::Revision;
use serde_json::{Value, json};

use super::{
    Pair, chores,
    peer::{Binding, Origin, Peer, script},
};

type Feature = for<'a> fn(&'a mut Peer, Pair) -> BoxFuture<'a, ()>;

pub(super) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// Makes a feature of an async block.
macro_rules! feature {
    ($name:literal, |$peer:ident, $pair:ident| $body:block) => {
        ($name, |$peer: &mut Peer, $pair: Pair| {
            Box::pin(async move {
                let _ = $pair;
                $body
            })
        })
    };
}

/// Every feature, in the order in which each pair goes through them.
pub(super) const FEATURES: &[(&str, Feature)] = &[
    feature!("lists and reads", |peer, pair| {
        for (method, list, name) in
            [("tools/list", "tools", "script"), ("prompts/list", "prompts", "p"), ("resources/list", "resources", "r")]
        {
            let listed = peer.ask(method, json!({})).await;
            assert_eq!(listed["result"][list][0]["name"], name, "{peer:?}");
        }
        let read = peer.ask("resources/read", json!({ "uri": "x:r" })).await;
        assert_eq!(read["result"]["contents"][0]["text"], "read", "{peer:?}");
    }),
    feature!("errors pass", |peer, pair| {
        let error = peer.ask("resources/read", json!({ "uri": "x:none" })).await;
        assert_eq!(error["error"]["code"], -32002, "{peer:?}: {error}");
    }),
    feature!("sampling", |peer, pair| {
        let messages = json!([{ "role": "user", "content": { "type": "text", "text": "hm?" } }]);
        let asked = json!({ "messages": messages, "maxTokens": 5 });
        let call = peer.script(json!([["ask", "q", "sampling/createMessage", asked], ["answer", "q"]])).await;
        let question = peer.next("sampling/createMessage").await;
        assert_eq!(question["params"], asked, "{peer:?}");
        let answer = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "ah" } });
        peer.reply(&question, answer.clone()).await;
        assert_eq!(peer.told(&call).await["q"], answer, "{peer:?}");
    }),
    feature!("elicitation by form", |peer, pair| {
        // a server of an older version has no such question
        if pair.server < Revision::V2025_06_18 {
            return;
        }
        let asked = form("your name?");
        let call = peer.script(json!([["ask", "q", "elicitation/create", asked], ["answer", "q"]])).await;
        if pair.client < Revision::V2025_06_18 {
            assert_eq!(peer.told(&call).await["q"]["code"], -32602, "{peer:?}");
        } else {
            let question = peer.next("elicitation/create").await;
            assert_eq!(question["params"], asked, "{peer:?}");
            peer.reply(&question, json!({ "action": "accept", "content": { "name": "Ada" } })).await;
            assert_eq!(peer.told(&call).await["q"]["content"]["name"], "Ada", "{peer:?}");
        }
    }),
    feature!("elicitation by url, and its completion", |peer, pair| {
        if pair.server < Revision::V2025_11_25 {
            return;
        }
        let page = json!({ "mode": "url", "message": "see", "url": "https://example.com/x", "elicitationId": "e1" });
        let done = json!({ "elicitationId": "e1" });
        let steps = json!([
            ["ask", "q", "elicitation/create", page],
            ["answer", "q"],
            ["tell", "notifications/elicitation/complete", done]
        ]);
        let call = peer.script(steps).await;
        if pair.client == Revision::V2025_11_25 {
            let question = peer.next("elicitation/create").await;
            assert_eq!(question["params"], page, "{peer:?}");
            peer.reply(&question, json!({ "action": "accept" })).await;
            assert_eq!(peer.next("notifications/elicitation/complete").await["params"], done, "{peer:?}");
            assert_eq!(peer.told(&call).await["q"]["action"], "accept", "{peer:?}");
        } else {
            assert_eq!(peer.told(&call).await["q"]["code"], -32602, "{peer:?}");
        }
    }),
    feature!("roots, and their change", |peer, pair| {
        peer.tell("notifications/roots/list_changed", Value::Null).await;
        let steps =
            json!([["hear", "notifications/roots/list_changed"], ["ask", "q", "roots/list", {}], ["answer", "q"]]);
        let call = peer.script(steps).await;
        let question = peer.next("roots/list").await;
        let roots = json!({ "roots": [{ "uri": "file:///a" }] });
        peer.reply(&question, roots.clone()).await;
        assert_eq!(peer.told(&call).await["q"], roots, "{peer:?}");
    }),
    feature!("ping both ways", |peer, pair| {
        assert_eq!(peer.ask("ping", json!({})).await["result"], json!({}), "{peer:?}");
        let call = peer.script(json!([["ask", "q", "ping", {}], ["answer", "q"]])).await;
        assert_eq!(peer.told(&call).await["q"], json!({}), "{peer:?}");
    }),
    feature!("several questions at once, answered in another order", |peer, pair| {
        let steps = json!([["ask", "a", "roots/list", { "_meta": { "x/n": 1 } }], ["ask", "b", "roots/list", { "_meta": { "x/n": 2 } }],
            ["answer", "a"], ["answer", "b"]]);
        let call = peer.script(steps).await;
        let mut questions = [peer.next("roots/list").await, peer.next("roots/list").await];
        questions.sort_by_key(|question| question["params"]["_meta"]["x/n"].as_u64());
        for (question, name) in questions.iter().zip(["one", "two"]).rev() {
            peer.reply(question, json!({ "roots": [{ "uri": format!("file:///{name}") }] })).await;
        }
        let told = peer.told(&call).await;
        assert_eq!(
            [&told["a"]["roots"][0]["uri"], &told["b"]["roots"][0]["uri"]],
            ["file:///one", "file:///two"],
            "{peer:?}"
        );
    }),
    feature!("a question withdrawn by the server", |peer, pair| {
        let steps = json!([["ask", "q", "roots/list", {}], ["hear", "notifications/x/go"], ["withdraw", "q"]]);
        let call = peer.script(steps).await;
        let question = peer.next("roots/list").await;
        peer.tell("notifications/x/go", json!({})).await;
        assert_eq!(peer.next("notifications/cancelled").await["params"]["requestId"], question["id"], "{peer:?}");
        peer.told(&call).await;
    }),
    feature!("a question refused by the client", |peer, pair| {
        let call = peer.script(json!([["ask", "q", "roots/list", {}], ["answer", "q"]])).await;
        let question = peer.next("roots/list").await;
        peer.reply(&question, json!({ "code": -1, "message": "no" })).await;
        assert_eq!(peer.told(&call).await["q"], json!({ "code": -1, "message": "no" }), "{peer:?}");
    }),
    feature!("a question that nobody answers", |peer, pair| {
        let call = peer.script(json!([["ask", "q", "roots/list", {}], ["answer", "q"]])).await;
        let question = peer.next("roots/list").await;
        assert_eq!(peer.next("notifications/cancelled").await["params"]["requestId"], question["id"], "{peer:?}");
        assert_eq!(peer.told(&call).await["q"]["code"], -32603, "{peer:?}");
    }),
    feature!("a question outside any call", |peer, pair| {
        let call = peer.script(json!([["ask_aside", "later", "roots/list", {}]])).await;
        peer.told(&call).await;
        let question = peer.next("roots/list").await;
        peer.reply(&question, json!({ "roots": [] })).await;
    }),
    feature!("progress and logs while a question is open", |peer, pair| {
        let log = json!({ "level": "error", "data": "open" });
        let steps = json!([
            ["progress", 1],
            ["ask", "q", "roots/list", {}],
            ["tell", "notifications/message", log],
            ["progress", 2],
            ["answer", "q"]
        ]);
        let call = peer.script(steps).await;
        let question = peer.next("roots/list").await;
        for number in [1, 2] {
            let progress = peer.next("notifications/progress").await;
            assert_eq!(progress["params"], json!({ "progressToken": "t", "progress": number }), "{peer:?}");
        }
        assert_eq!(peer.next("notifications/message").await["params"], log, "{peer:?}");
        peer.reply(&question, json!({ "roots": [] })).await;
        peer.told(&call).await;
    }),
    feature!("cancelling a call closes its dialog and stops it", |peer, pair| {
        let call = peer.script(json!([["ask", "q", "roots/list", {}], ["hold"]])).await;
        let question = peer.next("roots/list").await;
        peer.tell("notifications/cancelled", json!({ "requestId": call })).await;
        assert_eq!(peer.next("notifications/cancelled").await["params"]["requestId"], question["id"], "{peer:?}");
        let heard = peer.script(json!([["hear", "notifications/cancelled"]])).await;
        peer.told(&heard).await;
    }),
    feature!("progress of the client with a question", |peer, pair| {
        let asked = json!({ "_meta": { "progressToken": 9 } });
        let steps = json!([["ask", "q", "roots/list", asked], ["hear", "notifications/progress"], ["answer", "q"]]);
        let call = peer.script(steps).await;
        let question = peer.next("roots/list").await;
        let token = &question["params"]["_meta"]["progressToken"];
        peer.tell("notifications/progress", json!({ "progressToken": token, "progress": 0.5 })).await;
        peer.reply(&question, json!({ "roots": [] })).await;
        let told = peer.told(&call).await;
        assert_eq!(told["notifications/progress"], json!({ "progressToken": 9, "progress": 0.5 }), "{peer:?}");
    }),
    feature!("the level of logs", |peer, pair| {
        assert_eq!(peer.ask("logging/setLevel", json!({ "level": "error" })).await["result"], json!({}), "{peer:?}");
        let log = |level: &str| json!({ "level": level, "data": level });
        let steps = json!([
            ["hear", "logging/setLevel"],
            ["tell", "notifications/message", log("info")],
            ["tell", "notifications/message", log("critical")],
            ["aside", "notifications/message", log("debug")],
            ["aside", "notifications/message", log("alert")]
        ]);
        let call = peer.script(steps).await;
        assert_eq!(peer.told(&call).await["logging/setLevel"], json!({ "level": "error" }), "{peer:?}");
        let mut levels = [peer.next("notifications/message").await, peer.next("notifications/message").await]
            .map(|message| message["params"]["level"].as_str().unwrap().to_owned());
        levels.sort();
        assert_eq!(levels, ["alert", "critical"], "{peer:?}");
    }),
    feature!("subscriptions", |peer, pair| {
        let uri = json!({ "uri": "x:r" });
        assert_eq!(peer.ask("resources/subscribe", uri.clone()).await["result"], json!({}), "{peer:?}");
        let call = peer
            .script(json!([["hear", "resources/subscribe"], ["aside", "notifications/resources/updated", uri]]))
            .await;
        peer.told(&call).await;
        assert_eq!(peer.next("notifications/resources/updated").await["params"], uri, "{peer:?}");
        assert_eq!(peer.ask("resources/unsubscribe", uri.clone()).await["result"], json!({}), "{peer:?}");
        let call = peer.script(json!([["hear", "resources/unsubscribe"]])).await;
        assert_eq!(peer.told(&call).await["resources/unsubscribe"], uri, "{peer:?}");
    }),
    feature!("completion by prompt and by uri", |peer, pair| {
        for reference in
            [json!({ "type": "ref/prompt", "name": "p" }), json!({ "type": "ref/resource", "uri": "x:{a}" })]
        {
            let asked = json!({ "ref": reference, "argument": { "name": "a", "value": "v" } });
            let answer = peer.ask("completion/complete", asked).await;
            assert_eq!(answer["result"]["completion"]["values"][1], "v", "{peer:?}: {answer}");
        }
    }),
    feature!("tasks that the server executes", |peer, pair| {
        if !both_have_tasks(pair) {
            return;
        }
        let call = json!({ "name": "script", "arguments": { "steps": [] }, "task": { "ttl": 60000 } });
        let made = peer.ask("tools/call", call).await["result"]["task"].clone();
        let task = json!({ "taskId": made["taskId"] });
        assert_eq!(peer.ask("tasks/get", task.clone()).await["result"], made, "{peer:?}");
        assert_eq!(peer.ask("tasks/list", json!({})).await["result"]["tasks"], json!([made]), "{peer:?}");
        peer.play(json!([["finish", made["taskId"]]])).await;
        let status = peer.next("notifications/tasks/status").await;
        assert_eq!(
            [&status["params"]["taskId"], &status["params"]["status"]],
            [&made["taskId"], &json!("completed")],
            "{peer:?}"
        );
        let result = peer.ask("tasks/result", task.clone()).await;
        assert_eq!(result["result"]["_meta"][RELATED_TASK], task, "{peer:?}: {result}");
        assert_eq!(peer.ask("tasks/cancel", task).await["result"]["status"], "cancelled", "{peer:?}");
        let unknown = peer.ask("tasks/get", json!({ "taskId": "none" })).await;
        assert_eq!(unknown["error"]["code"], -32002, "{peer:?}: {unknown}");
    }),
    feature!("a tool that runs only as a task", |peer, pair| {
        if pair.server == Revision::V2025_11_25 {
            chores::only_as_a_task(peer, pair).await;
        }
    }),
    feature!("tasks that the client executes", |peer, pair| {
        if pair.server == Revision::V2025_11_25 && pair.client < Revision::V2025_11_25 {
            chores::asked_as_a_task(peer).await;
        }
        if !both_have_tasks(pair) {
            return;
        }
        let messages = json!([{ "role": "user", "content": { "type": "text", "text": "hm?" } }]);
        let asked = json!({ "messages": messages, "maxTokens": 5, "task": { "ttl": 1000 } });
        let task = json!({ "taskId": "of the client" });
        let steps = json!([
            ["ask", "q", "sampling/createMessage", asked],
            ["answer", "q"],
            ["ask", "g", "tasks/get", task],
            ["answer", "g"],
            ["ask", "r", "tasks/result", task],
            ["answer", "r"]
        ]);
        let call = peer.script(steps).await;
        let at = "2026-01-01T00:00:00Z";
        let made = json!({ "taskId": "of the client", "status": "working", "createdAt": at, "lastUpdatedAt": at, "ttl": 1000 });
        let result = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "ah" },
            "_meta": { RELATED_TASK: task } });
        let answers = [
            ("sampling/createMessage", asked, json!({ "task": made })),
            ("tasks/get", task.clone(), made),
            ("tasks/result", task, result.clone()),
        ];
        for (method, params, answer) in answers {
            let question = peer.next(method).await;
            assert_eq!(question["params"], params, "{peer:?}");
            peer.reply(&question, answer).await;
        }
        assert_eq!(peer.told(&call).await["r"], result, "{peer:?}");
    }),
    feature!("what is said in a call and beside it, each on its stream", |peer, pair| {
        // on stdio nothing tells the two apart, and HTTP+SSE has one stream
        if pair.transport == "stdio" || pair.binding == Binding::Sse {
            return;
        }
        let changed = |uri: &str| json!({ "level": "alert", "data": uri });
        let steps = json!([
            ["tell", "notifications/message", changed("within")],
            ["aside", "notifications/message", changed("beside")]
        ]);
        let call = peer.script(steps).await;
        peer.told(&call).await;
        for _ in 0..2 {
            let (on, message) = peer.next_with_origin("notifications/message").await;
            let own = if message["params"]["data"] == "within" {
                Origin::Post(vec![call.clone()])
            } else {
                Origin::Standalone
            };
            assert_eq!(on, own, "{peer:?}: {message}");
        }
    }),
    feature!("changes of lists", |peer, pair| {
        for kind in ["tools", "prompts", "resources"] {
            let call = peer.script(json!([["grow", kind]])).await;
            peer.told(&call).await;
            peer.next(&format!("notifications/{kind}/list_changed")).await;
            let listed = peer.ask(&format!("{kind}/list"), json!({})).await;
            assert_eq!(listed["result"][kind][1]["name"], "another", "{peer:?}: {listed}");
        }
    }),
    feature!("batches", |peer, pair| {
        if pair.client == Revision::V2025_03_26 && pair.binding == Binding::Streamable {
            let ping = |id: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
            peer.post(&json!([ping("b1"), ping("b2")])).await;
            for id in ["b1", "b2"] {
                assert_eq!(peer.answer(&json!(id)).await["result"], json!({}), "{peer:?}");
            }
        }
    }),
    feature!("a server that loses its session", |peer, pair| {
        peer.ask("resources/subscribe", json!({ "uri": "x:r" })).await;
        let held = peer.script(json!([["progress", 1], ["hold"]])).await;
        // it runs: over HTTP nothing else keeps the next call from overtaking it
        peer.next("notifications/progress").await;
        let mut chores = Vec::new();
        if pair.server == Revision::V2025_11_25 && pair.client < Revision::V2025_11_25 {
            chores.push(peer.send("tools/call", chores::call(&json!([["progress", 1], ["hold"]]))).await);
            peer.next("notifications/progress").await;
        }
        let death = peer.script(json!([["die"]])).await;
        if pair.transport == "stdio" {
            assert_eq!(peer.answer(&death).await["error"]["data"]["retryable"], true, "{peer:?}");
        } else {
            // the answer is lost with its stream, and the next call finds the session gone
            peer.answer(&death).await;
        }
        for lost in [held].iter().chain(&chores) {
            assert_eq!(peer.answer(lost).await["error"]["data"]["retryable"], true, "{peer:?}");
        }
        let steps = json!([["hear", "logging/setLevel"], ["hear", "resources/subscribe"]]);
        let mut call = peer.ask("tools/call", script(&steps)).await;
        if call["error"]["data"]["retryable"] == true {
            // it was under way when another stream of the session told the gateway that it is gone
            call = peer.ask("tools/call", script(&steps)).await;
        }
        let told: Value = serde_json::from_str(call["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(told["logging/setLevel"]["level"], "error", "{peer:?}");
        assert_eq!(told["resources/subscribe"]["uri"], "x:r", "{peer:?}");
        for kind in ["tools", "prompts", "resources"] {
            peer.next(&format!("notifications/{kind}/list_changed")).await;
        }
    }),
];

/// Tasks are between peers of that version alone: no other has a form for them.
fn both_have_tasks(pair: Pair) -> bool {
    pair.client == Revision::V2025_11_25 && pair.server == Revision::V2025_11_25
}

fn form(message: &str) -> Value {
    let properties = json!({ "name": { "type": "string" } });
    json!({ "message": message, "requestedSchema": { "type": "object", "properties": properties } })
}
