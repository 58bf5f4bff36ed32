//! Features of servers of 2026-07-28 beside the common ones, each as a conversation with a client of any version.

use lockkeeper::mcp::{Era, Revision};
use serde_json::{Value, json};

use super::features::{Feature, conversation, refused};
use crate::kit::player::{Pair, Player, script};

/// In the order of execution.
pub(super) const FEATURES: &[(&str, Feature)] = &[
    conversation!("a server that keeps no state", |player, pair| {
        let steps = json!([
            ["forget"],
            ["progress", 1],
            ["ask", "a", "roots/list", {}],
            ["ask", "b", "roots/list", {}],
            ["answer", "a"],
            ["answer", "b"],
            ["progress", 2]
        ]);
        let call = player.script(steps).await;
        for _ in 0..2 {
            let question = player.next("roots/list").await;
            player.reply(&question, json!({ "roots": [] })).await;
        }
        assert_eq!(player.told(&call).await, json!({ "a": { "roots": [] }, "b": { "roots": [] } }), "{player:?}");
        // it begins anew; to a client with a session that is one call, whose progress rises
        let said = if player.is_stateless() { [1, 1, 2] } else { [1, 2, 3] };
        for number in said {
            let progress = player.next("notifications/progress").await;
            assert_eq!(progress["params"], json!({ "progressToken": "t", "progress": number }), "{player:?}");
        }
    }),
    conversation!("a server that is to be asked again, and asks nothing", |player, pair| {
        let steps = json!([["again"], ["ask", "q", "roots/list", {}], ["answer", "q"], ["again"], ["again"]]);
        let call = player.script(steps).await;
        let question = player.next("roots/list").await;
        player.reply(&question, json!({ "roots": [] })).await;
        assert_eq!(player.told(&call).await, json!({ "q": { "roots": [] } }), "{player:?}");
    }),
    conversation!("a server that never has enough", |player, pair| {
        if player.is_stateless() {
            // how long it goes on with that is its own choice
            return;
        }
        let steps: Vec<Value> = (0..11)
            .flat_map(|at| [json!(["ask", at.to_string(), "roots/list", {}]), json!(["answer", at.to_string()])])
            .collect();
        let call = player.script(steps.into()).await;
        for _ in 0..10 {
            let question = player.next("roots/list").await;
            player.reply(&question, json!({ "roots": [] })).await;
        }
        refused(player, &call).await;
    }),
    conversation!("questions of every kind at once", |player, pair| {
        let messages = json!([{ "role": "user", "content": { "type": "text", "text": "hm?" } }]);
        let sampling = json!({ "messages": messages, "maxTokens": 5 });
        let form = json!({ "message": "name?", "requestedSchema": { "type": "object", "properties": { "n": { "type": "string" } } } });
        let mut asked = vec![
            ("roots/list", json!({ "_meta": { "com.acme/x": 1 } }), json!({ "roots": [] })),
            (
                "sampling/createMessage",
                sampling,
                json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "ah" } }),
            ),
        ];
        if pair.client >= Revision::V2025_06_18 {
            asked.push(("elicitation/create", form, json!({ "action": "accept", "content": { "n": "Ada" } })));
        }
        let mut steps: Vec<Value> =
            asked.iter().map(|(method, params, _)| json!(["ask", method, method, params])).collect();
        steps.extend(asked.iter().map(|(method, ..)| json!(["answer", method])));
        let call = player.script(steps.into()).await;
        let mut questions = Vec::new();
        for (method, params, _) in &asked {
            questions.push(player.next(method).await);
            assert_eq!(questions.last().unwrap()["params"], *params, "{player:?}");
        }
        for (question, (.., answer)) in questions.iter().zip(&asked).rev() {
            player.reply(question, answer.clone()).await;
        }
        let told = player.told(&call).await;
        for (method, _, answer) in asked {
            assert_eq!(told[method], answer, "{player:?}");
        }
    }),
    conversation!("one question of several that cannot be asked", |player, pair| {
        if player.is_stateless() {
            // what it is asked in its own version is between the two of them
            return;
        }
        let page = json!({ "mode": "url", "message": "see", "url": "https://example.com/x" });
        let steps = json!([
            ["insist"],
            ["ask", "a", "roots/list", {}],
            ["ask", "b", "elicitation/create", page],
            ["answer", "a"],
            ["answer", "b"]
        ]);
        if pair.client < Revision::V2025_11_25 {
            // then none of them is
            let call = player.script(steps).await;
            refused(player, &call).await;
        }
    }),
    conversation!("prompts and resources that ask", |player, pair| {
        let requests = [
            ("prompts/get", json!({ "name": "p", "arguments": { "a": "v" } }), json!({ "messages": [] })),
            ("resources/read", json!({ "uri": "x:a" }), json!({ "contents": [] })),
        ];
        for (method, params, result) in requests {
            let state = "é\"\\\n\u{1f600}";
            let asks = json!({ "resultType": "input_required", "requestState": state,
                "inputRequests": { "é key": { "method": "roots/list" } } });
            player
                .play(json!([["prepare", method, { "result": asks }], ["prepare", method, { "result": result }]]))
                .await;
            let call = player.send(method, params.clone()).await;
            let question = player.next("roots/list").await;
            player.reply(&question, json!({ "roots": [{ "uri": "file:///é" }] })).await;
            assert_eq!(player.answer(&call).await["result"], result, "{player:?}");
            let mut again = params;
            again["requestState"] = state.into();
            again["inputResponses"] = json!({ "é key": { "roots": [{ "uri": "file:///é" }] } });
            assert_eq!(player.play(json!([["request", method]])).await[method], again, "{player:?}");
        }
    }),
    conversation!("parameters that headers mirror", |player, pair| {
        // the server judges the headers
        for arguments in [
            json!({}),
            json!({ "region": "plain", "count": -3, "deep": { "flag": true } }),
            json!({ "region": " é", "count": 0, "deep": { "flag": false, "more": [1] } }),
            json!({ "region": "=?base64?x?=", "count": null, "deep": {} }),
            json!({ "region": "", "count": 9_007_199_254_740_991_i64 }),
        ] {
            let mut params = script(&json!([["count", "tools/call"]]));
            params["name"] = "mirrored".into();
            params["arguments"].as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
            let call = player.send("tools/call", params.clone()).await;
            assert_eq!(player.told(&call).await["last"]["arguments"], params["arguments"], "{player:?}");
        }
    }),
    conversation!("an error after an answer", |player, pair| {
        let error = json!({ "code": 7, "message": "é", "data": { "a": 1 } });
        let steps = json!([["ask", "q", "roots/list", {}], ["answer", "q"], ["give", { "error": error }]]);
        let call = player.script(steps).await;
        let question = player.next("roots/list").await;
        player.reply(&question, json!({ "roots": [] })).await;
        assert_eq!(player.answer(&call).await["error"], error, "{player:?}");
    }),
    conversation!("a resource that the server does not tell of", |player, pair| {
        let refused = "x:refused";
        if player.is_stateless() {
            let wanted = json!({ "resourceSubscriptions": [refused], "toolsListChanged": true });
            let (id, granted) = player.listen_for(wanted).await;
            assert_eq!(granted, json!({ "toolsListChanged": true }), "{player:?}");
            player.leave(&id);
        } else {
            let answer = player.ask("resources/subscribe", json!({ "uri": refused })).await;
            assert_eq!(answer["error"]["code"], -32602, "{player:?}: {answer}");
        }
    }),
    conversation!("a server that ends its listens", |player, pair| {
        let uri = json!({ "uri": "x:r" });
        let listen = subscribe(player).await;
        player.play(json!([["end_listens"], ["listening", "x:r", false], ["listening", "x:r", true]])).await;
        // what changed meanwhile was not heard
        assert_eq!(player.next("notifications/resources/updated").await["params"], uri, "{player:?}");
        player.play(json!([["aside", "notifications/resources/updated", uri]])).await;
        assert_eq!(player.next("notifications/resources/updated").await["params"], uri, "{player:?}");
        for kind in ["tools", "prompts", "resources"] {
            player.next(&format!("notifications/{kind}/list_changed")).await;
        }
        unsubscribe(player, listen).await;
    }),
    conversation!("a server whose process ends", |player, pair| {
        if pair.transport == "http" {
            // nobody starts it again
            return;
        }
        let uri = json!({ "uri": "x:r" });
        let listen = subscribe(player).await;
        let held = player.script(json!([["progress", 1], ["hold"]])).await;
        player.next("notifications/progress").await;
        let death = player.script(json!([["die"]])).await;
        for lost in [held, death] {
            assert_eq!(player.answer(&lost).await["error"]["data"]["mayHaveRun"], true, "{player:?}");
        }
        player.play(json!([["listening", "x:r", true]])).await;
        for kind in ["tools", "prompts", "resources"] {
            player.next(&format!("notifications/{kind}/list_changed")).await;
        }
        // what changed meanwhile was not heard
        assert_eq!(player.next("notifications/resources/updated").await["params"], uri, "{player:?}");
        player.play(json!([["aside", "notifications/resources/updated", uri]])).await;
        assert_eq!(player.next("notifications/resources/updated").await["params"], uri, "{player:?}");
        unsubscribe(player, listen).await;
    }),
    conversation!("how long a result is good", |player, pair| {
        let result = json!({ "contents": [], "ttlMs": 5000, "cacheScope": "public" });
        player.play(json!([["prepare", "resources/read", { "result": result }]])).await;
        let answer = player.ask("resources/read", json!({ "uri": "x:good" })).await;
        assert_eq!(answer["result"], json!({ "contents": [] }), "{player:?}");
        if pair.client.era() == Era::Modern {
            assert_eq!(player.hints(), (json!(5000), json!("public")), "{player:?}");
        }
    }),
];

/// Subscribes to a resource in the manner of the client's version; gives the listen where it is one.
async fn subscribe(player: &mut Player) -> Option<Value> {
    if player.is_stateless() {
        return Some(player.listen(json!({ "resourceSubscriptions": ["x:r"] })).await);
    }
    assert_eq!(player.ask("resources/subscribe", json!({ "uri": "x:r" })).await["result"], json!({}), "{player:?}");
    None
}

async fn unsubscribe(player: &mut Player, listen: Option<Value>) {
    if let Some(listen) = listen {
        player.leave(&listen);
    } else {
        let answer = player.ask("resources/unsubscribe", json!({ "uri": "x:r" })).await;
        assert_eq!(answer["result"], json!({}), "{player:?}");
    }
    player.play(json!([["listening", "x:r", false]])).await;
}
