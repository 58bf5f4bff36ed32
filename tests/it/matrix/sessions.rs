//! Features of clients with a session beside the common ones, each as a conversation.

use lockkeeper::mcp::{Era, Revision};
use serde_json::{Value, json};

use super::{
    Pair, chores,
    features::{Feature, RELATED_TASK, both_have_tasks, conversation, refused},
    peer::{Binding, Origin, Peer, script},
};

/// In the order of execution.
pub(super) const FEATURES: &[(&str, Feature)] = &[
    conversation!("ping both ways", |peer, pair| {
        assert_eq!(peer.ask("ping", json!({})).await["result"], json!({}), "{peer:?}");
        if pair.server.era() == Era::Modern {
            return;
        }
        let call = peer.script(json!([["ask", "q", "ping", {}], ["answer", "q"]])).await;
        assert_eq!(peer.told(&call).await["q"], json!({}), "{peer:?}");
    }),
    conversation!("a change of roots", |peer, pair| {
        peer.tell("notifications/roots/list_changed", Value::Null).await;
        // a server of the other era is not notified
        if pair.server.era() == Era::Legacy {
            peer.play(json!([["hear", "notifications/roots/list_changed"]])).await;
        }
    }),
    conversation!("a question withdrawn by the server", |peer, pair| {
        if pair.server.era() == Era::Modern {
            // a request in a result cannot be withdrawn
            return;
        }
        let steps = json!([["ask", "q", "roots/list", {}], ["hear", "notifications/x/go"], ["withdraw", "q"]]);
        let call = peer.script(steps).await;
        let question = peer.next("roots/list").await;
        peer.tell("notifications/x/go", json!({})).await;
        assert_eq!(peer.next("notifications/cancelled").await["params"]["requestId"], question["id"], "{peer:?}");
        peer.told(&call).await;
    }),
    conversation!("a question refused by the client", |peer, pair| {
        let call = peer.script(json!([["ask", "q", "roots/list", {}], ["answer", "q"]])).await;
        let question = peer.next("roots/list").await;
        peer.reply(&question, json!({ "code": -1, "message": "no" })).await;
        if pair.server.era() == Era::Modern {
            // there is no form for it
            return refused(peer, &call).await;
        }
        assert_eq!(peer.told(&call).await["q"], json!({ "code": -1, "message": "no" }), "{peer:?}");
    }),
    conversation!("a question outside any call", |peer, pair| {
        if pair.server.era() == Era::Modern {
            // it sends requests only in results
            return;
        }
        let call = peer.script(json!([["ask_aside", "later", "roots/list", {}]])).await;
        peer.told(&call).await;
        let question = peer.next("roots/list").await;
        peer.reply(&question, json!({ "roots": [] })).await;
    }),
    conversation!("cancelling a call closes its dialog and stops it", |peer, pair| {
        let asks = pair.server.era() == Era::Legacy;
        // if a server request ends the call, nothing can be cancelled at the server meanwhile
        let steps = if asks {
            json!([["ask", "q", "roots/list", {}], ["hold"]])
        } else {
            json!([["ask", "q", "roots/list", {}], ["answer", "q"], ["count", "nothing"]])
        };
        let call = peer.script(steps).await;
        let question = peer.next("roots/list").await;
        peer.tell("notifications/cancelled", json!({ "requestId": call })).await;
        assert_eq!(peer.next("notifications/cancelled").await["params"]["requestId"], question["id"], "{peer:?}");
        if !asks {
            let steps = json!([["ask", "q", "roots/list", {}], ["answer", "q"], ["progress", 1], ["hold"]]);
            let call = peer.script(steps).await;
            let question = peer.next("roots/list").await;
            peer.reply(&question, json!({ "roots": [] })).await;
            peer.next("notifications/progress").await;
            peer.tell("notifications/cancelled", json!({ "requestId": call })).await;
        }
        let heard = peer.script(json!([["hear", "notifications/cancelled"]])).await;
        peer.told(&heard).await;
    }),
    conversation!("progress of the client with a question", |peer, pair| {
        if pair.server.era() == Era::Modern {
            // its requests have no token
            return;
        }
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
    conversation!("the level of logs", |peer, pair| {
        assert_eq!(peer.ask("logging/setLevel", json!({ "level": "error" })).await["result"], json!({}), "{peer:?}");
        let log = |level: &str| json!({ "level": level, "data": level });
        if pair.server.era() == Era::Modern {
            let said = ["info", "critical"].map(|level| json!(["tell", "notifications/message", log(level)]));
            let told = peer.play(json!([["envelope"], said[0], said[1]])).await;
            assert_eq!(told["envelope"]["logLevel"], "error", "{peer:?}");
            assert_eq!(peer.next("notifications/message").await["params"], log("critical"), "{peer:?}");
            return;
        }
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
    conversation!("subscriptions", |peer, pair| {
        let uri = json!({ "uri": "x:r" });
        assert_eq!(peer.ask("resources/subscribe", uri.clone()).await["result"], json!({}), "{peer:?}");
        let modern = pair.server.era() == Era::Modern;
        let heard = if modern { json!(["listening", "x:r", true]) } else { json!(["hear", "resources/subscribe"]) };
        let call = peer.script(json!([heard, ["aside", "notifications/resources/updated", uri]])).await;
        peer.told(&call).await;
        assert_eq!(peer.next("notifications/resources/updated").await["params"], uri, "{peer:?}");
        assert_eq!(peer.ask("resources/unsubscribe", uri.clone()).await["result"], json!({}), "{peer:?}");
        if modern {
            peer.play(json!([["listening", "x:r", false]])).await;
            return;
        }
        let call = peer.script(json!([["hear", "resources/unsubscribe"]])).await;
        assert_eq!(peer.told(&call).await["resources/unsubscribe"], uri, "{peer:?}");
    }),
    conversation!("tasks that the server executes", |peer, pair| {
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
        // a process of this session decides about a task of unknown owner, and so does any server of a local client
        let decides = pair.transport == "stdio" || pair.binding == Binding::Stdio;
        let code = if decides { -32002 } else { -32602 };
        assert_eq!(unknown["error"]["code"], code, "{peer:?}: {unknown}");
    }),
    conversation!("what is said in a call and beside it, each on its stream", |peer, pair| {
        // only Streamable HTTP has several streams, and 2026-07-28 has no standalone stream
        if pair.has_channel() || pair.binding != Binding::Streamable || pair.server.era() == Era::Modern {
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
    conversation!("batches", |peer, pair| {
        if pair.client == Revision::V2025_03_26 {
            let ping = |id: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
            peer.post(&json!([ping("b1"), ping("b2")])).await;
            for id in ["b1", "b2"] {
                assert_eq!(peer.answer(&json!(id)).await["result"], json!({}), "{peer:?}");
            }
        }
    }),
    conversation!("a server that loses its session", |peer, pair| {
        if pair.server.era() == Era::Modern {
            return;
        }
        peer.ask("resources/subscribe", json!({ "uri": "x:r" })).await;
        let held = peer.script(json!([["progress", 1], ["hold"]])).await;
        // it is running: otherwise the next call could overtake it over HTTP
        peer.next("notifications/progress").await;
        let mut chores = Vec::new();
        if pair.server == Revision::V2025_11_25 && pair.client < Revision::V2025_11_25 {
            chores.push(peer.send("tools/call", chores::call(&json!([["progress", 1], ["hold"]]))).await);
            peer.next("notifications/progress").await;
        }
        let death = peer.script(json!([["die"]])).await;
        if pair.has_channel() {
            assert_eq!(peer.answer(&death).await["error"]["data"]["mayHaveRun"], true, "{peer:?}");
        } else {
            // the answer is lost with its stream, and the next call finds the session gone
            peer.answer(&death).await;
        }
        for lost in [held].iter().chain(&chores) {
            assert_eq!(peer.answer(lost).await["error"]["data"]["mayHaveRun"], true, "{peer:?}");
        }
        let steps = json!([["hear", "logging/setLevel"], ["hear", "resources/subscribe"]]);
        let mut call = peer.ask("tools/call", script(&steps)).await;
        if call["error"]["data"]["mayHaveRun"] == true {
            // it was on its way when another stream reported the loss of the session
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

/// With a gateway of a short timeout.
pub(super) const UNANSWERED: (&str, Feature) = conversation!("a question that nobody answers", |peer, pair| {
    let call = peer.script(json!([["ask", "q", "roots/list", {}], ["answer", "q"]])).await;
    let question = peer.next("roots/list").await;
    assert_eq!(peer.next("notifications/cancelled").await["params"]["requestId"], question["id"], "{peer:?}");
    if pair.server.era() == Era::Modern {
        return refused(peer, &call).await;
    }
    assert_eq!(peer.told(&call).await["q"]["code"], -32603, "{peer:?}");
});
