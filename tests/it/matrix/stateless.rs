//! Features of clients without sessions beside the common ones, each as a conversation.

use lockkeeper::mcp::{Era, Revision};
use serde_json::{Value, json};

use super::{
    Pair, chores,
    features::{Feature, conversation},
    peer::{Peer, script},
};

/// In the order of execution.
pub(super) const FEATURES: &[(&str, Feature)] = &[
    conversation!("some answers of several", |peer, pair| {
        let (one, two) = (json!({ "_meta": { "x/n": 1 } }), json!({ "_meta": { "x/n": 2 } }));
        let steps =
            json!([["ask", "a", "roots/list", one], ["ask", "b", "roots/list", two], ["answer", "a"], ["answer", "b"]]);
        let call = peer.script(steps).await;
        let first = peer.next("roots/list").await;
        if pair.server.era() == Era::Legacy && !peer.has("roots/list") {
            // a request that comes too late for this result is in the next one
            peer.reply(&first, json!({ "roots": [] })).await;
            let second = peer.next("roots/list").await;
            peer.reply(&second, json!({ "roots": [] })).await;
            peer.told(&call).await;
            return;
        }
        let mut questions = [first, peer.next("roots/list").await];
        questions.sort_by_key(|question| question["params"]["_meta"]["x/n"].as_u64());
        peer.reply(&questions[0], json!({ "roots": [] })).await;
        peer.go_on(&call, |params| params["inputResponses"]["nobody"] = json!({ "roots": [] }));
        let again = peer.next("roots/list").await;
        assert_eq!(again["params"], two, "{peer:?}");
        peer.reply(&again, json!({ "roots": [{ "uri": "file:///b" }] })).await;
        let told = peer.told(&call).await;
        assert_eq!(told, json!({ "a": { "roots": [] }, "b": { "roots": [{ "uri": "file:///b" }] } }), "{peer:?}");
    }),
    conversation!("no answer at all", |peer, pair| {
        let call = peer.script(json!([["ask", "q", "roots/list", {}], ["answer", "q"]])).await;
        peer.next("roots/list").await;
        peer.go_on(&call, |_| ());
        let again = peer.next("roots/list").await;
        peer.reply(&again, json!({ "roots": [] })).await;
        assert_eq!(peer.told(&call).await["q"], json!({ "roots": [] }), "{peer:?}");
    }),
    conversation!("a state that is not the one given for this call", |peer, pair| {
        let steps = json!([["ask", "q", "roots/list", {}], ["answer", "q"]]);
        let faults: [fn(&mut Value); 3] = [
            |params| params["requestState"] = json!("gw1.AAAA"),
            |params| params["requestState"] = format!("{}A", params["requestState"].as_str().unwrap()).into(),
            |params| params["arguments"]["more"] = json!(1),
        ];
        for fault in faults {
            let call = peer.script(steps.clone()).await;
            let question = peer.next("roots/list").await;
            let asked = peer.params_to_go_on(&call, &question);
            let mut wrong = asked.clone();
            fault(&mut wrong);
            let refused = peer.ask("tools/call", wrong).await;
            let invalid = json!({ "code": -32602, "message": "Invalid or expired requestState" });
            assert_eq!(refused["error"], invalid, "{peer:?}");
            peer.reply(&question, json!({ "roots": [] })).await;
            peer.told(&call).await;
            let again = peer.ask("tools/call", asked).await;
            if pair.server.era() == Era::Legacy {
                // it is valid once
                assert_eq!(again["error"], invalid, "{peer:?}");
            } else {
                // nothing is stored: the server decides about further uses
                assert_eq!(again["result"]["content"][0]["text"], r#"{"q": {"roots": []}}"#, "{peer:?}: {again}");
            }
        }
    }),
    conversation!("a question withdrawn by the server", |peer, pair| {
        if pair.server.era() == Era::Modern {
            // a request in a result cannot be withdrawn
            return;
        }
        let numbered = |number: u64| json!({ "_meta": { "x/n": number } });
        let steps = json!([
            ["ask", "a", "roots/list", numbered(1)],
            ["ask", "b", "roots/list", numbered(2)],
            ["withdraw", "a"],
            ["answer", "b"]
        ]);
        let call = peer.script(steps).await;
        // if it is withdrawn late, the client gets it all the same
        loop {
            let question = peer.next("roots/list").await;
            peer.reply(&question, json!({ "roots": [] })).await;
            if question["params"] == numbered(2) {
                break;
            }
        }
        assert_eq!(peer.told(&call).await, json!({ "b": { "roots": [] } }), "{peer:?}");
    }),
    conversation!("the level of logs, for each request", |peer, pair| {
        let log = |level: &str| json!({ "level": level, "data": level });
        for (wanted, heard) in [("error", vec!["critical"]), ("info", vec!["info", "critical"]), ("emergency", vec![])]
        {
            peer.wants_logs(wanted).await;
            let steps = json!([
                ["tell", "notifications/message", log("info")],
                ["tell", "notifications/message", log("critical")]
            ]);
            peer.play(steps).await;
            for level in heard {
                assert_eq!(peer.next("notifications/message").await["params"], log(level), "{peer:?}");
            }
        }
        peer.wants_no_logs();
        peer.play(json!([["tell", "notifications/message", log("emergency")]])).await;
    }),
    conversation!("subscriptions", |peer, pair| {
        let (one, two) = ("x:r", "x:s");
        let first = peer.listen(json!({ "resourceSubscriptions": [one] })).await;
        let both = json!({ "resourceSubscriptions": [one, two], "toolsListChanged": false });
        let (second, granted) = peer.listen_for(both).await;
        assert_eq!(granted, json!({ "resourceSubscriptions": [one, two] }), "{peer:?}");
        let updated = |uri: &str| json!([["aside", "notifications/resources/updated", { "uri": uri }]]);
        for (uri, times) in [(one, 2), (two, 1)] {
            peer.play(updated(uri)).await;
            for _ in 0..times {
                assert_eq!(
                    peer.next("notifications/resources/updated").await["params"],
                    json!({ "uri": uri }),
                    "{peer:?}"
                );
            }
        }
        peer.leave(&second);
        let gone = |uri: &str| match pair.server.era() {
            Era::Legacy => json!([["hear_of", "resources/unsubscribe", { "uri": uri }]]),
            Era::Modern => json!([["listening", uri, false]]),
        };
        peer.play(gone(two)).await;
        peer.play(updated(two)).await;
        peer.play(updated(one)).await;
        assert_eq!(peer.next("notifications/resources/updated").await["params"], json!({ "uri": one }), "{peer:?}");
        peer.leave(&first);
        peer.play(gone(one)).await;
        peer.play(updated(one)).await;
    }),
    conversation!("a listen to nothing", |peer, pair| {
        let (id, granted) = peer.listen_for(json!({})).await;
        assert_eq!(granted, json!({}), "{peer:?}");
        peer.leave(&id);
    }),
    conversation!("what no session has", |peer, pair| {
        for method in
            ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "roots/list"]
        {
            let refused = peer.ask(method, json!({})).await;
            assert_eq!(refused["error"]["code"], -32601, "{peer:?}: {method}");
        }
    }),
    conversation!("a call that its client leaves", |peer, pair| {
        for (steps, mark) in [
            (json!([["progress", 1], ["hold"]]), "running"),
            (
                json!([["progress", 1], ["ask", "q", "roots/list", {}], ["answer", "q"], ["progress", 2], ["hold"]]),
                "asked",
            ),
        ] {
            let mark = format!("{mark} {pair:?}");
            let mut params = script(&steps);
            params["arguments"]["mark"] = mark.as_str().into();
            let call = peer.send("tools/call", params).await;
            peer.next("notifications/progress").await;
            if steps[1][0] == "ask" {
                let question = peer.next("roots/list").await;
                peer.reply(&question, json!({ "roots": [] })).await;
                peer.next("notifications/progress").await;
            }
            peer.leave(&call);
            // on stdio the next call goes to another process: this one may still send messages about the call
            peer.play(json!([["left", mark]])).await;
        }
        if pair.server == Revision::V2025_11_25 && pair.transport == "http" {
            let held = chores::held(peer).await;
            peer.leave(&held);
            peer.play(json!([["hear", "tasks/cancel"]])).await;
        }
    }),
    conversation!("a server that goes away", |peer, pair| {
        if pair.server.era() == Era::Modern {
            return;
        }
        let uri = json!({ "uri": "x:r" });
        let listen = peer.listen(json!({ "resourceSubscriptions": ["x:r"] })).await;
        let held = peer.script(json!([["progress", 1], ["hold"]])).await;
        peer.next("notifications/progress").await;
        let death = peer.script(json!([["die"]])).await;
        peer.answer(&death).await;
        if pair.has_channel() {
            // the other call went to another process, and goes on
            peer.leave(&held);
            return;
        }
        assert_eq!(peer.answer(&held).await["error"]["data"]["mayHaveRun"], true, "{peer:?}");
        peer.play(json!([["hear_of", "resources/subscribe", uri], ["aside", "notifications/resources/updated", uri]]))
            .await;
        assert_eq!(peer.next("notifications/resources/updated").await["params"], uri, "{peer:?}");
        for kind in ["tools", "prompts", "resources"] {
            peer.next(&format!("notifications/{kind}/list_changed")).await;
        }
        peer.leave(&listen);
    }),
];

/// With a gateway of a short timeout.
pub(super) const UNANSWERED: (&str, Feature) = conversation!("a question that nobody answers", |peer, pair| {
    if pair.server.era() == Era::Modern {
        // nobody waits for the answer
        return;
    }
    let mut params = script(&json!([["ask", "q", "roots/list", {}], ["answer", "q"], ["note"]]));
    let mark = format!("nobody {pair:?}");
    params["arguments"]["mark"] = mark.as_str().into();
    let call = peer.send("tools/call", params).await;
    let question = peer.next("roots/list").await;
    let late = peer.params_to_go_on(&call, &question);
    let noted = peer.play(json!([["noted", mark]])).await;
    assert_eq!(noted["noted"]["q"]["code"], -32603, "{peer:?}: {noted}");
    assert_eq!(peer.ask("tools/call", late).await["error"]["code"], -32602, "{peer:?}");
    peer.leave(&call);
});
