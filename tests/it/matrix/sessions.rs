//! Features of clients with a session beside the common ones, each as a conversation.

use lockkeeper::mcp::{Era, Revision};
use serde_json::{Value, json};

use super::{
    chores,
    features::{Feature, RELATED_TASK, both_have_tasks, conversation, refused},
};
use crate::kit::player::{Binding, Origin, Pair, Player, script};

/// In the order of execution.
pub(super) const FEATURES: &[(&str, Feature)] = &[
    conversation!("ping both ways", |player, pair| {
        assert_eq!(player.ask("ping", json!({})).await["result"], json!({}), "{player:?}");
        if pair.server.era() == Era::Modern {
            return;
        }
        let call = player.script(json!([["ask", "q", "ping", {}], ["answer", "q"]])).await;
        assert_eq!(player.told(&call).await["q"], json!({}), "{player:?}");
    }),
    conversation!("a change of roots", |player, pair| {
        player.tell("notifications/roots/list_changed", Value::Null).await;
        // a server of the other era is not notified
        if pair.server.era() == Era::Legacy {
            player.play(json!([["hear", "notifications/roots/list_changed"]])).await;
        }
    }),
    conversation!("a question withdrawn by the server", |player, pair| {
        if pair.server.era() == Era::Modern {
            // a request in a result cannot be withdrawn
            return;
        }
        let steps = json!([["ask", "q", "roots/list", {}], ["hear", "notifications/x/go"], ["withdraw", "q"]]);
        let call = player.script(steps).await;
        let question = player.next("roots/list").await;
        player.tell("notifications/x/go", json!({})).await;
        assert_eq!(player.next("notifications/cancelled").await["params"]["requestId"], question["id"], "{player:?}");
        player.told(&call).await;
    }),
    conversation!("a question refused by the client", |player, pair| {
        let call = player.script(json!([["ask", "q", "roots/list", {}], ["answer", "q"]])).await;
        let question = player.next("roots/list").await;
        player.reply(&question, json!({ "code": -1, "message": "no" })).await;
        if pair.server.era() == Era::Modern {
            // there is no form for it
            return refused(player, &call).await;
        }
        assert_eq!(player.told(&call).await["q"], json!({ "code": -1, "message": "no" }), "{player:?}");
    }),
    conversation!("a question outside any call", |player, pair| {
        if pair.server.era() == Era::Modern {
            // it sends requests only in results
            return;
        }
        let call = player.script(json!([["ask_aside", "later", "roots/list", {}]])).await;
        player.told(&call).await;
        let question = player.next("roots/list").await;
        player.reply(&question, json!({ "roots": [] })).await;
    }),
    conversation!("cancelling a call closes its dialog and stops it", |player, pair| {
        let asks = pair.server.era() == Era::Legacy;
        // if a server request ends the call, nothing can be cancelled at the server meanwhile
        let steps = if asks {
            json!([["ask", "q", "roots/list", {}], ["hold"]])
        } else {
            json!([["ask", "q", "roots/list", {}], ["answer", "q"], ["count", "nothing"]])
        };
        let call = player.script(steps).await;
        let question = player.next("roots/list").await;
        player.tell("notifications/cancelled", json!({ "requestId": call })).await;
        assert_eq!(player.next("notifications/cancelled").await["params"]["requestId"], question["id"], "{player:?}");
        if !asks {
            let steps = json!([["ask", "q", "roots/list", {}], ["answer", "q"], ["progress", 1], ["hold"]]);
            let call = player.script(steps).await;
            let question = player.next("roots/list").await;
            player.reply(&question, json!({ "roots": [] })).await;
            player.next("notifications/progress").await;
            player.tell("notifications/cancelled", json!({ "requestId": call })).await;
        }
        let heard = player.script(json!([["hear", "notifications/cancelled"]])).await;
        player.told(&heard).await;
    }),
    conversation!("progress of the client with a question", |player, pair| {
        if pair.server.era() == Era::Modern {
            // its requests have no token
            return;
        }
        let asked = json!({ "_meta": { "progressToken": 9 } });
        let steps = json!([["ask", "q", "roots/list", asked], ["hear", "notifications/progress"], ["answer", "q"]]);
        let call = player.script(steps).await;
        let question = player.next("roots/list").await;
        let token = &question["params"]["_meta"]["progressToken"];
        player.tell("notifications/progress", json!({ "progressToken": token, "progress": 0.5 })).await;
        player.reply(&question, json!({ "roots": [] })).await;
        let told = player.told(&call).await;
        assert_eq!(told["notifications/progress"], json!({ "progressToken": 9, "progress": 0.5 }), "{player:?}");
    }),
    conversation!("the level of logs", |player, pair| {
        assert_eq!(
            player.ask("logging/setLevel", json!({ "level": "error" })).await["result"],
            json!({}),
            "{player:?}"
        );
        let log = |level: &str| json!({ "level": level, "data": level });
        if pair.server.era() == Era::Modern {
            let said = ["info", "critical"].map(|level| json!(["tell", "notifications/message", log(level)]));
            let told = player.play(json!([["envelope"], said[0], said[1]])).await;
            assert_eq!(told["envelope"]["logLevel"], "error", "{player:?}");
            assert_eq!(player.next("notifications/message").await["params"], log("critical"), "{player:?}");
            return;
        }
        let steps = json!([
            ["hear", "logging/setLevel"],
            ["tell", "notifications/message", log("info")],
            ["tell", "notifications/message", log("critical")],
            ["aside", "notifications/message", log("debug")],
            ["aside", "notifications/message", log("alert")]
        ]);
        let call = player.script(steps).await;
        assert_eq!(player.told(&call).await["logging/setLevel"], json!({ "level": "error" }), "{player:?}");
        let mut levels = [player.next("notifications/message").await, player.next("notifications/message").await]
            .map(|message| message["params"]["level"].as_str().unwrap().to_owned());
        levels.sort();
        assert_eq!(levels, ["alert", "critical"], "{player:?}");
    }),
    conversation!("subscriptions", |player, pair| {
        let uri = json!({ "uri": "x:r" });
        assert_eq!(player.ask("resources/subscribe", uri.clone()).await["result"], json!({}), "{player:?}");
        let modern = pair.server.era() == Era::Modern;
        let heard = if modern { json!(["listening", "x:r", true]) } else { json!(["hear", "resources/subscribe"]) };
        let call = player.script(json!([heard, ["aside", "notifications/resources/updated", uri]])).await;
        player.told(&call).await;
        assert_eq!(player.next("notifications/resources/updated").await["params"], uri, "{player:?}");
        assert_eq!(player.ask("resources/unsubscribe", uri.clone()).await["result"], json!({}), "{player:?}");
        if modern {
            player.play(json!([["listening", "x:r", false]])).await;
            return;
        }
        let call = player.script(json!([["hear", "resources/unsubscribe"]])).await;
        assert_eq!(player.told(&call).await["resources/unsubscribe"], uri, "{player:?}");
    }),
    conversation!("tasks that the server executes", |player, pair| {
        if !both_have_tasks(pair) {
            return;
        }
        let call = json!({ "name": "script", "arguments": { "steps": [] }, "task": { "ttl": 60000 } });
        let made = player.ask("tools/call", call).await["result"]["task"].clone();
        let task = json!({ "taskId": made["taskId"] });
        assert_eq!(player.ask("tasks/get", task.clone()).await["result"], made, "{player:?}");
        assert_eq!(player.ask("tasks/list", json!({})).await["result"]["tasks"], json!([made]), "{player:?}");
        player.play(json!([["finish", made["taskId"]]])).await;
        let status = player.next("notifications/tasks/status").await;
        assert_eq!(
            [&status["params"]["taskId"], &status["params"]["status"]],
            [&made["taskId"], &json!("completed")],
            "{player:?}"
        );
        let result = player.ask("tasks/result", task.clone()).await;
        assert_eq!(result["result"]["_meta"][RELATED_TASK], task, "{player:?}: {result}");
        assert_eq!(player.ask("tasks/cancel", task).await["result"]["status"], "cancelled", "{player:?}");
        let unknown = player.ask("tasks/get", json!({ "taskId": "none" })).await;
        // a process of this session decides about a task of unknown owner, and so does any server of a local client
        let decides = pair.transport == "stdio" || pair.binding == Binding::Stdio;
        let code = if decides { -32002 } else { -32602 };
        assert_eq!(unknown["error"]["code"], code, "{player:?}: {unknown}");
    }),
    conversation!("what is said in a call and beside it, each on its stream", |player, pair| {
        // only Streamable HTTP has several streams, and 2026-07-28 has no standalone stream
        if pair.has_channel() || pair.binding != Binding::Streamable || pair.server.era() == Era::Modern {
            return;
        }
        let changed = |uri: &str| json!({ "level": "alert", "data": uri });
        let steps = json!([
            ["tell", "notifications/message", changed("within")],
            ["aside", "notifications/message", changed("beside")]
        ]);
        let call = player.script(steps).await;
        player.told(&call).await;
        for _ in 0..2 {
            let (on, message) = player.next_with_origin("notifications/message").await;
            let own = if message["params"]["data"] == "within" {
                Origin::Post(vec![call.clone()])
            } else {
                Origin::Standalone
            };
            assert_eq!(on, own, "{player:?}: {message}");
        }
    }),
    conversation!("batches", |player, pair| {
        if pair.client == Revision::V2025_03_26 {
            let ping = |id: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
            player.post(&json!([ping("b1"), ping("b2")])).await;
            for id in ["b1", "b2"] {
                assert_eq!(player.answer(&json!(id)).await["result"], json!({}), "{player:?}");
            }
        }
    }),
    conversation!("a server that loses its session", |player, pair| {
        if pair.server.era() == Era::Modern {
            return;
        }
        player.ask("resources/subscribe", json!({ "uri": "x:r" })).await;
        let held = player.script(json!([["progress", 1], ["hold"]])).await;
        // it is running: otherwise the next call could overtake it over HTTP
        player.next("notifications/progress").await;
        let mut chores = Vec::new();
        if pair.server == Revision::V2025_11_25 && pair.client < Revision::V2025_11_25 {
            chores.push(player.send("tools/call", chores::call(&json!([["progress", 1], ["hold"]]))).await);
            player.next("notifications/progress").await;
        }
        let death = player.script(json!([["die"]])).await;
        if pair.has_channel() {
            assert_eq!(player.answer(&death).await["error"]["data"]["mayHaveRun"], true, "{player:?}");
        } else {
            // the answer is lost with its stream, and the next call finds the session gone
            player.answer(&death).await;
        }
        for lost in [held].iter().chain(&chores) {
            assert_eq!(player.answer(lost).await["error"]["data"]["mayHaveRun"], true, "{player:?}");
        }
        let steps = json!([["hear", "logging/setLevel"], ["hear", "resources/subscribe"]]);
        let mut call = player.ask("tools/call", script(&steps)).await;
        if call["error"]["data"]["mayHaveRun"] == true {
            // it was on its way when another stream reported the loss of the session
            call = player.ask("tools/call", script(&steps)).await;
        }
        let told: Value = serde_json::from_str(call["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(told["logging/setLevel"]["level"], "error", "{player:?}");
        assert_eq!(told["resources/subscribe"]["uri"], "x:r", "{player:?}");
        for kind in ["tools", "prompts", "resources"] {
            player.next(&format!("notifications/{kind}/list_changed")).await;
        }
    }),
];

/// With a gateway of a short timeout.
pub(super) const UNANSWERED: (&str, Feature) = conversation!("a question that nobody answers", |player, pair| {
    let call = player.script(json!([["ask", "q", "roots/list", {}], ["answer", "q"]])).await;
    let question = player.next("roots/list").await;
    assert_eq!(player.next("notifications/cancelled").await["params"]["requestId"], question["id"], "{player:?}");
    if pair.server.era() == Era::Modern {
        return refused(player, &call).await;
    }
    assert_eq!(player.told(&call).await["q"]["code"], -32603, "{player:?}");
});
