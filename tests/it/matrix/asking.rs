//! Features of servers of 2026-07-28 beside the common ones, each as a conversation with a client of any version.

use lockkeeper::mcp::{Era, Revision};
use serde_json::{Value, json};

use super::{
    Pair,
    features::{Feature, conversation, refused},
    peer::{Peer, script},
};

/// In the order of execution.
pub(super) const FEATURES: &[(&str, Feature)] = &[
    conversation!("a server that keeps no state", |peer, pair| {
        let steps = json!([
            ["forget"],
            ["progress", 1],
            ["ask", "a", "roots/list", {}],
            ["ask", "b", "roots/list", {}],
            ["answer", "a"],
            ["answer", "b"],
            ["progress", 2]
        ]);
        let call = peer.script(steps).await;
        for _ in 0..2 {
            let question = peer.next("roots/list").await;
            peer.reply(&question, json!({ "roots": [] })).await;
        }
        assert_eq!(peer.told(&call).await, json!({ "a": { "roots": [] }, "b": { "roots": [] } }), "{peer:?}");
        // it begins anew; to a client with a session that is one call, whose progress rises
        let said = if peer.is_stateless() { [1, 1, 2] } else { [1, 2, 3] };
        for number in said {
            let progress = peer.next("notifications/progress").await;
            assert_eq!(progress["params"], json!({ "progressToken": "t", "progress": number }), "{peer:?}");
        }
    }),
    conversation!("a server that is to be asked again, and asks nothing", |peer, pair| {
        let steps = json!([["again"], ["ask", "q", "roots/list", {}], ["answer", "q"], ["again"], ["again"]]);
        let call = peer.script(steps).await;
        let question = peer.next("roots/list").await;
        peer.reply(&question, json!({ "roots": [] })).await;
        assert_eq!(peer.told(&call).await, json!({ "q": { "roots": [] } }), "{peer:?}");
    }),
    conversation!("a server that never has enough", |peer, pair| {
        if peer.is_stateless() {
            // how long it goes on with that is its own choice
            return;
        }
        let steps: Vec<Value> = (0..11)
            .flat_map(|at| [json!(["ask", at.to_string(), "roots/list", {}]), json!(["answer", at.to_string()])])
            .collect();
        let call = peer.script(steps.into()).await;
        for _ in 0..10 {
            let question = peer.next("roots/list").await;
            peer.reply(&question, json!({ "roots": [] })).await;
        }
        refused(peer, &call).await;
    }),
    conversation!("questions of every kind at once", |peer, pair| {
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
        let call = peer.script(steps.into()).await;
        let mut questions = Vec::new();
        for (method, params, _) in &asked {
            questions.push(peer.next(method).await);
            assert_eq!(questions.last().unwrap()["params"], *params, "{peer:?}");
        }
        for (question, (.., answer)) in questions.iter().zip(&asked).rev() {
            peer.reply(question, answer.clone()).await;
        }
        let told = peer.told(&call).await;
        for (method, _, answer) in asked {
            assert_eq!(told[method], answer, "{peer:?}");
        }
    }),
    conversation!("one question of several that cannot be asked", |peer, pair| {
        if peer.is_stateless() {
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
            let call = peer.script(steps).await;
            refused(peer, &call).await;
        }
    }),
    conversation!("prompts and resources that ask", |peer, pair| {
        let requests = [
            ("prompts/get", json!({ "name": "p", "arguments": { "a": "v" } }), json!({ "messages": [] })),
            ("resources/read", json!({ "uri": "x:a" }), json!({ "contents": [] })),
        ];
        for (method, params, result) in requests {
            let state = "é\"\\\n\u{1f600}";
            let asks = json!({ "resultType": "input_required", "requestState": state,
                "inputRequests": { "é key": { "method": "roots/list" } } });
            peer.play(json!([["prepare", method, { "result": asks }], ["prepare", method, { "result": result }]]))
                .await;
            let call = peer.send(method, params.clone()).await;
            let question = peer.next("roots/list").await;
            peer.reply(&question, json!({ "roots": [{ "uri": "file:///é" }] })).await;
            assert_eq!(peer.answer(&call).await["result"], result, "{peer:?}");
            let mut again = params;
            again["requestState"] = state.into();
            again["inputResponses"] = json!({ "é key": { "roots": [{ "uri": "file:///é" }] } });
            assert_eq!(peer.play(json!([["request", method]])).await[method], again, "{peer:?}");
        }
    }),
    conversation!("parameters that headers mirror", |peer, pair| {
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
            let call = peer.send("tools/call", params.clone()).await;
            assert_eq!(peer.told(&call).await["last"]["arguments"], params["arguments"], "{peer:?}");
        }
    }),
    conversation!("an error after an answer", |peer, pair| {
        let error = json!({ "code": 7, "message": "é", "data": { "a": 1 } });
        let steps = json!([["ask", "q", "roots/list", {}], ["answer", "q"], ["give", { "error": error }]]);
        let call = peer.script(steps).await;
        let question = peer.next("roots/list").await;
        peer.reply(&question, json!({ "roots": [] })).await;
        assert_eq!(peer.answer(&call).await["error"], error, "{peer:?}");
    }),
    conversation!("a resource that the server does not tell of", |peer, pair| {
        let refused = "x:refused";
        if peer.is_stateless() {
            let wanted = json!({ "resourceSubscriptions": [refused], "toolsListChanged": true });
            let (id, granted) = peer.listen_for(wanted).await;
            assert_eq!(granted, json!({ "toolsListChanged": true }), "{peer:?}");
            peer.leave(&id);
        } else {
            let answer = peer.ask("resources/subscribe", json!({ "uri": refused })).await;
            assert_eq!(answer["error"]["code"], -32602, "{peer:?}: {answer}");
        }
    }),
    conversation!("a server that ends its listens", |peer, pair| {
        let uri = json!({ "uri": "x:r" });
        let listen = subscribe(peer).await;
        peer.play(json!([["end_listens"], ["listening", "x:r", false], ["listening", "x:r", true]])).await;
        // what changed meanwhile was not heard
        assert_eq!(peer.next("notifications/resources/updated").await["params"], uri, "{peer:?}");
        peer.play(json!([["aside", "notifications/resources/updated", uri]])).await;
        assert_eq!(peer.next("notifications/resources/updated").await["params"], uri, "{peer:?}");
        for kind in ["tools", "prompts", "resources"] {
            peer.next(&format!("notifications/{kind}/list_changed")).await;
        }
        unsubscribe(peer, listen).await;
    }),
    conversation!("a server whose process ends", |peer, pair| {
        if pair.transport == "http" {
            // nobody starts it again
            return;
        }
        let uri = json!({ "uri": "x:r" });
        let listen = subscribe(peer).await;
        let held = peer.script(json!([["progress", 1], ["hold"]])).await;
        peer.next("notifications/progress").await;
        let death = peer.script(json!([["die"]])).await;
        for lost in [held, death] {
            assert_eq!(peer.answer(&lost).await["error"]["data"]["mayHaveRun"], true, "{peer:?}");
        }
        peer.play(json!([["listening", "x:r", true]])).await;
        for kind in ["tools", "prompts", "resources"] {
            peer.next(&format!("notifications/{kind}/list_changed")).await;
        }
        // what changed meanwhile was not heard
        assert_eq!(peer.next("notifications/resources/updated").await["params"], uri, "{peer:?}");
        peer.play(json!([["aside", "notifications/resources/updated", uri]])).await;
        assert_eq!(peer.next("notifications/resources/updated").await["params"], uri, "{peer:?}");
        unsubscribe(peer, listen).await;
    }),
    conversation!("how long a result is good", |peer, pair| {
        let result = json!({ "contents": [], "ttlMs": 5000, "cacheScope": "public" });
        peer.play(json!([["prepare", "resources/read", { "result": result }]])).await;
        let answer = peer.ask("resources/read", json!({ "uri": "x:good" })).await;
        assert_eq!(answer["result"], json!({ "contents": [] }), "{peer:?}");
        if pair.client.era() == Era::Modern {
            assert_eq!(peer.hints(), (json!(5000), json!("public")), "{peer:?}");
        }
    }),
];

/// Subscribes to a resource in the manner of the client's version; gives the listen where it is one.
async fn subscribe(peer: &mut Peer) -> Option<Value> {
    if peer.is_stateless() {
        return Some(peer.listen(json!({ "resourceSubscriptions": ["x:r"] })).await);
    }
    assert_eq!(peer.ask("resources/subscribe", json!({ "uri": "x:r" })).await["result"], json!({}), "{peer:?}");
    None
}

async fn unsubscribe(peer: &mut Peer, listen: Option<Value>) {
    if let Some(listen) = listen {
        peer.leave(&listen);
    } else {
        let answer = peer.ask("resources/unsubscribe", json!({ "uri": "x:r" })).await;
        assert_eq!(answer["result"], json!({}), "{peer:?}");
    }
    peer.play(json!([["listening", "x:r", false]])).await;
}
