//! Features of clients without sessions beside the common ones, each as a conversation.

use lockkeeper::mcp::{Era, Revision};
use serde_json::{Value, json};

use super::{
    chores,
    features::{Feature, conversation},
};
use crate::kit::player::{Pair, Player, script};

/// In the order of execution.
pub(super) const FEATURES: &[(&str, Feature)] = &[
    conversation!("some answers of several", |player, pair| {
        let (one, two) = (json!({ "_meta": { "x/n": 1 } }), json!({ "_meta": { "x/n": 2 } }));
        let steps =
            json!([["ask", "a", "roots/list", one], ["ask", "b", "roots/list", two], ["answer", "a"], ["answer", "b"]]);
        let call = player.script(steps).await;
        let first = player.next("roots/list").await;
        if pair.server.era() == Era::Legacy && !player.has("roots/list") {
            // a request that comes too late for this result is in the next one
            player.reply(&first, json!({ "roots": [] })).await;
            let second = player.next("roots/list").await;
            player.reply(&second, json!({ "roots": [] })).await;
            player.told(&call).await;
            return;
        }
        let mut questions = [first, player.next("roots/list").await];
        questions.sort_by_key(|question| question["params"]["_meta"]["x/n"].as_u64());
        player.reply(&questions[0], json!({ "roots": [] })).await;
        player.go_on(&call, |params| params["inputResponses"]["nobody"] = json!({ "roots": [] }));
        let again = player.next("roots/list").await;
        assert_eq!(again["params"], two, "{player:?}");
        player.reply(&again, json!({ "roots": [{ "uri": "file:///b" }] })).await;
        let told = player.told(&call).await;
        assert_eq!(told, json!({ "a": { "roots": [] }, "b": { "roots": [{ "uri": "file:///b" }] } }), "{player:?}");
    }),
    conversation!("no answer at all", |player, pair| {
        let call = player.script(json!([["ask", "q", "roots/list", {}], ["answer", "q"]])).await;
        player.next("roots/list").await;
        player.go_on(&call, |_| ());
        let again = player.next("roots/list").await;
        player.reply(&again, json!({ "roots": [] })).await;
        assert_eq!(player.told(&call).await["q"], json!({ "roots": [] }), "{player:?}");
    }),
    conversation!("a state that is not the one given for this call", |player, pair| {
        let steps = json!([["ask", "q", "roots/list", {}], ["answer", "q"]]);
        let faults: [fn(&mut Value); 3] = [
            |params| params["requestState"] = json!("gw1.AAAA"),
            |params| params["requestState"] = format!("{}A", params["requestState"].as_str().unwrap()).into(),
            |params| params["arguments"]["more"] = json!(1),
        ];
        for fault in faults {
            let call = player.script(steps.clone()).await;
            let question = player.next("roots/list").await;
            let asked = player.params_to_go_on(&call, &question);
            let mut wrong = asked.clone();
            fault(&mut wrong);
            let refused = player.ask("tools/call", wrong).await;
            let invalid = json!({ "code": -32602, "message": "Invalid or expired requestState" });
            assert_eq!(refused["error"], invalid, "{player:?}");
            player.reply(&question, json!({ "roots": [] })).await;
            player.told(&call).await;
            let again = player.ask("tools/call", asked).await;
            if pair.server.era() == Era::Legacy {
                // it is valid once
                assert_eq!(again["error"], invalid, "{player:?}");
            } else {
                // nothing is stored: the server decides about further uses
                assert_eq!(again["result"]["content"][0]["text"], r#"{"q": {"roots": []}}"#, "{player:?}: {again}");
            }
        }
    }),
    conversation!("a question withdrawn by the server", |player, pair| {
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
        let call = player.script(steps).await;
        // if it is withdrawn late, the client gets it all the same
        loop {
            let question = player.next("roots/list").await;
            player.reply(&question, json!({ "roots": [] })).await;
            if question["params"] == numbered(2) {
                break;
            }
        }
        assert_eq!(player.told(&call).await, json!({ "b": { "roots": [] } }), "{player:?}");
    }),
    conversation!("the level of logs, for each request", |player, pair| {
        let log = |level: &str| json!({ "level": level, "data": level });
        for (wanted, heard) in [("error", vec!["critical"]), ("info", vec!["info", "critical"]), ("emergency", vec![])]
        {
            player.wants_logs(wanted).await;
            let steps = json!([
                ["tell", "notifications/message", log("info")],
                ["tell", "notifications/message", log("critical")]
            ]);
            player.play(steps).await;
            for level in heard {
                assert_eq!(player.next("notifications/message").await["params"], log(level), "{player:?}");
            }
        }
        player.wants_no_logs();
        player.play(json!([["tell", "notifications/message", log("emergency")]])).await;
    }),
    conversation!("subscriptions", |player, pair| {
        let (one, two) = ("x:r", "x:s");
        let first = player.listen(json!({ "resourceSubscriptions": [one] })).await;
        let both = json!({ "resourceSubscriptions": [one, two], "toolsListChanged": false });
        let (second, granted) = player.listen_for(both).await;
        assert_eq!(granted, json!({ "resourceSubscriptions": [one, two] }), "{player:?}");
        let updated = |uri: &str| json!([["aside", "notifications/resources/updated", { "uri": uri }]]);
        for (uri, times) in [(one, 2), (two, 1)] {
            player.play(updated(uri)).await;
            let mut came = 0;
            while came < times {
                let update = player.next("notifications/resources/updated").await["params"].clone();
                // where listens overlap for longer than a second, an update comes twice rather than never
                assert!(update == json!({ "uri": uri }) || update == json!({ "uri": one }), "{player:?}");
                came += i32::from(update == json!({ "uri": uri }));
            }
        }
        player.leave(&second);
        let gone = |uri: &str| match pair.server.era() {
            Era::Legacy => json!([["hear_of", "resources/unsubscribe", { "uri": uri }]]),
            Era::Modern => json!([["listening", uri, false]]),
        };
        player.play(gone(two)).await;
        player.play(updated(two)).await;
        player.play(updated(one)).await;
        assert_eq!(player.next("notifications/resources/updated").await["params"], json!({ "uri": one }), "{player:?}");
        player.leave(&first);
        player.play(gone(one)).await;
        player.play(updated(one)).await;
    }),
    conversation!("a listen to nothing", |player, pair| {
        let (id, granted) = player.listen_for(json!({})).await;
        assert_eq!(granted, json!({}), "{player:?}");
        player.leave(&id);
    }),
    conversation!("what no session has", |player, pair| {
        for method in
            ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "roots/list"]
        {
            let refused = player.ask(method, json!({})).await;
            assert_eq!(refused["error"]["code"], -32601, "{player:?}: {method}");
        }
    }),
    conversation!("a call that its client leaves", |player, pair| {
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
            let call = player.send("tools/call", params).await;
            player.next("notifications/progress").await;
            if steps[1][0] == "ask" {
                let question = player.next("roots/list").await;
                player.reply(&question, json!({ "roots": [] })).await;
                player.next("notifications/progress").await;
            }
            player.leave(&call);
            // on stdio the next call goes to another process: this one may still send messages about the call
            player.play(json!([["left", mark]])).await;
        }
        if pair.server == Revision::V2025_11_25 && pair.transport == "http" {
            let held = chores::held(player).await;
            player.leave(&held);
            player.play(json!([["hear", "tasks/cancel"]])).await;
        }
    }),
    conversation!("a server that goes away", |player, pair| {
        if pair.server.era() == Era::Modern {
            return;
        }
        let uri = json!({ "uri": "x:r" });
        let listen = player.listen(json!({ "resourceSubscriptions": ["x:r"] })).await;
        let held = player.script(json!([["progress", 1], ["hold"]])).await;
        player.next("notifications/progress").await;
        let death = player.script(json!([["die"]])).await;
        player.answer(&death).await;
        if pair.has_channel() {
            // the other call went to another process, and goes on
            player.leave(&held);
            return;
        }
        assert_eq!(player.answer(&held).await["error"]["data"]["mayHaveRun"], true, "{player:?}");
        player
            .play(json!([["hear_of", "resources/subscribe", uri], ["aside", "notifications/resources/updated", uri]]))
            .await;
        assert_eq!(player.next("notifications/resources/updated").await["params"], uri, "{player:?}");
        for kind in ["tools", "prompts", "resources"] {
            player.next(&format!("notifications/{kind}/list_changed")).await;
        }
        player.leave(&listen);
    }),
];

/// With a gateway of a short timeout.
pub(super) const UNANSWERED: (&str, Feature) = conversation!("a question that nobody answers", |player, pair| {
    if pair.server.era() == Era::Modern {
        // nobody waits for the answer
        return;
    }
    let mut params = script(&json!([["ask", "q", "roots/list", {}], ["answer", "q"], ["note"]]));
    let mark = format!("nobody {pair:?}");
    params["arguments"]["mark"] = mark.as_str().into();
    let call = player.send("tools/call", params).await;
    let question = player.next("roots/list").await;
    let late = player.params_to_go_on(&call, &question);
    let noted = player.play(json!([["noted", mark]])).await;
    assert_eq!(noted["noted"]["q"]["code"], -32603, "{player:?}: {noted}");
    assert_eq!(player.ask("tools/call", late).await["error"]["code"], -32602, "{player:?}");
    player.leave(&call);
});
