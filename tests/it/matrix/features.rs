//! Common features, each as a conversation. A feature that a pair of versions cannot have is asserted as its refusal.

use futures_util::future::BoxFuture;
use lockkeeper::mcp::{Era, Revision};
use serde_json::{Value, json};

use super::{chores, questions::without};
use crate::kit::player::{Pair, Player};

pub(super) type Feature = for<'a> fn(&'a mut Player, Pair) -> BoxFuture<'a, ()>;

pub(super) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// Makes a feature of an async block.
macro_rules! conversation {
    ($name:literal, |$player:ident, $pair:ident| $body:block) => {
        ($name, |$player: &mut Player, $pair: Pair| {
            Box::pin(async move {
                let _ = $pair;
                $body
            })
        })
    };
}

pub(super) use conversation;

/// Features for every client, in the order of execution.
pub(super) const FEATURES: &[(&str, Feature)] = &[
    conversation!("lists and reads", |player, pair| {
        for (method, list, name) in
            [("tools/list", "tools", "script"), ("prompts/list", "prompts", "p"), ("resources/list", "resources", "r")]
        {
            let listed = player.ask(method, json!({})).await;
            assert_eq!(listed["result"][list][0]["name"], name, "{player:?}");
        }
        let read = player.ask("resources/read", json!({ "uri": "x:r" })).await;
        assert_eq!(read["result"]["contents"][0]["text"], "read", "{player:?}");
    }),
    conversation!("errors pass", |player, pair| {
        let error = player.ask("resources/read", json!({ "uri": "x:none" })).await;
        let code = if player.is_stateless() { -32602 } else { -32002 };
        assert_eq!(error["error"]["code"], code, "{player:?}: {error}");
    }),
    conversation!("sampling", |player, pair| {
        let messages = json!([{ "role": "user", "content": { "type": "text", "text": "hm?" } }]);
        let asked = json!({ "messages": messages, "maxTokens": 5 });
        let call = player.script(json!([["ask", "q", "sampling/createMessage", asked], ["answer", "q"]])).await;
        let question = player.next("sampling/createMessage").await;
        assert_eq!(question["params"], asked, "{player:?}");
        let answer = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "ah" } });
        player.reply(&question, answer.clone()).await;
        assert_eq!(player.told(&call).await["q"], answer, "{player:?}");
    }),
    // nothing of it is looked through on a worker: a debug build panics there
    conversation!("large messages in every direction", |player, pair| {
        let text = |size: usize| json!({ "type": "text", "text": "x".repeat(size) });
        let asked = json!({ "messages": [{ "role": "user", "content": text(280 << 10) }], "maxTokens": 5 });
        let mut steps = vec![json!(["ask", "q", "sampling/createMessage", asked]), json!(["answer", "q"])];
        if pair.server.era() == Era::Modern {
            // no state has room for its script
            steps.insert(0, json!(["forget"]));
        }
        let call = player.script(steps.into()).await;
        let question = player.next("sampling/createMessage").await;
        assert!(question["params"] == asked, "{player:?}");
        let answer = json!({ "role": "assistant", "model": "m", "content": text(80 << 10) });
        player.reply(&question, answer.clone()).await;
        assert!(player.told(&call).await["q"] == answer, "{player:?}");
    }),
    conversation!("elicitation by form", |player, pair| {
        // a server of an older version has no such request
        if pair.server < Revision::V2025_06_18 {
            return;
        }
        let asked = form("your name?");
        let call = player.script(json!([["ask", "q", "elicitation/create", asked], ["answer", "q"]])).await;
        if pair.client < Revision::V2025_06_18 {
            refused(player, &call).await;
        } else {
            let question = player.next("elicitation/create").await;
            assert_eq!(question["params"], asked, "{player:?}");
            player.reply(&question, json!({ "action": "accept", "content": { "name": "Ada" } })).await;
            assert_eq!(player.told(&call).await["q"]["content"]["name"], "Ada", "{player:?}");
        }
    }),
    conversation!("elicitation by url, and its completion", |player, pair| {
        if pair.server < Revision::V2025_11_25 {
            return;
        }
        // only this version gives a URL elicitation an id, under which its end is reported
        let [client, server] = [pair.client, pair.server].map(|version| version == Revision::V2025_11_25);
        let page = json!({ "mode": "url", "message": "see", "url": "https://example.com/x" });
        let done = json!({ "elicitationId": "e1" });
        let mut asked = page.clone();
        let mut steps = vec![json!(["answer", "q"])];
        if server {
            asked["elicitationId"] = "e1".into();
            steps.push(json!(["tell", "notifications/elicitation/complete", done]));
        }
        steps.insert(0, json!(["ask", "q", "elicitation/create", asked]));
        let call = player.script(steps.into()).await;
        if pair.client < Revision::V2025_11_25 {
            return refused(player, &call).await;
        }
        let question = player.next("elicitation/create").await;
        assert_eq!(without(&question["params"], "elicitationId"), page, "{player:?}");
        assert_eq!(question["params"]["elicitationId"].is_string(), client, "{player:?}");
        player.reply(&question, json!({ "action": "accept" })).await;
        if client && server {
            assert_eq!(question["params"]["elicitationId"], "e1", "{player:?}");
            assert_eq!(player.next("notifications/elicitation/complete").await["params"], done, "{player:?}");
        }
        assert_eq!(player.told(&call).await["q"]["action"], "accept", "{player:?}");
    }),
    conversation!("roots", |player, pair| {
        let call = player.script(json!([["ask", "q", "roots/list", {}], ["answer", "q"]])).await;
        let question = player.next("roots/list").await;
        let roots = json!({ "roots": [{ "uri": "file:///a" }] });
        player.reply(&question, roots.clone()).await;
        assert_eq!(player.told(&call).await["q"], roots, "{player:?}");
    }),
    conversation!("several questions at once, answered in another order", |player, pair| {
        let steps = json!([["ask", "a", "roots/list", { "_meta": { "x/n": 1 } }], ["ask", "b", "roots/list", { "_meta": { "x/n": 2 } }],
            ["answer", "a"], ["answer", "b"]]);
        let call = player.script(steps).await;
        let first = player.next("roots/list").await;
        if player.is_stateless() && pair.server.era() == Era::Legacy && !player.has("roots/list") {
            // a request that comes too late for this result is in the next one
            player.reply(&first, json!({ "roots": [] })).await;
            let second = player.next("roots/list").await;
            player.reply(&second, json!({ "roots": [] })).await;
            player.told(&call).await;
            return;
        }
        let mut questions = [first, player.next("roots/list").await];
        questions.sort_by_key(|question| question["params"]["_meta"]["x/n"].as_u64());
        for (question, name) in questions.iter().zip(["one", "two"]).rev() {
            player.reply(question, json!({ "roots": [{ "uri": format!("file:///{name}") }] })).await;
        }
        let told = player.told(&call).await;
        assert_eq!(
            [&told["a"]["roots"][0]["uri"], &told["b"]["roots"][0]["uri"]],
            ["file:///one", "file:///two"],
            "{player:?}"
        );
    }),
    conversation!("two rounds", |player, pair| {
        let steps = json!([
            ["progress", 1],
            ["ask", "a", "roots/list", {}],
            ["answer", "a"],
            ["progress", 2],
            ["ask", "b", "roots/list", {}],
            ["answer", "b"],
            ["progress", 3]
        ]);
        let call = player.script(steps).await;
        for name in ["one", "two"] {
            let question = player.next("roots/list").await;
            player.reply(&question, json!({ "roots": [{ "uri": format!("file:///{name}") }] })).await;
        }
        let told = player.told(&call).await;
        assert_eq!([&told["a"]["roots"][0]["uri"], &told["b"]["roots"][0]["uri"]], ["file:///one", "file:///two"]);
        for number in 1..=3 {
            let progress = player.next("notifications/progress").await;
            assert_eq!(progress["params"], json!({ "progressToken": "t", "progress": number }), "{player:?}");
        }
    }),
    conversation!("progress and logs while a question is open", |player, pair| {
        let log = json!({ "level": "error", "data": "open" });
        let steps = json!([
            ["progress", 1],
            ["ask", "q", "roots/list", {}],
            ["tell", "notifications/message", log],
            ["progress", 2],
            ["answer", "q"]
        ]);
        player.wants_logs("error").await;
        let call = player.script(steps).await;
        let question = player.next("roots/list").await;
        if player.is_stateless() {
            // before that, no client may be able to get it
            player.reply(&question, json!({ "roots": [] })).await;
        }
        for number in [1, 2] {
            let progress = player.next("notifications/progress").await;
            assert_eq!(progress["params"], json!({ "progressToken": "t", "progress": number }), "{player:?}");
        }
        assert_eq!(player.next("notifications/message").await["params"], log, "{player:?}");
        if !player.is_stateless() {
            player.reply(&question, json!({ "roots": [] })).await;
        }
        player.told(&call).await;
    }),
    conversation!("completion by prompt and by uri", |player, pair| {
        for reference in
            [json!({ "type": "ref/prompt", "name": "p" }), json!({ "type": "ref/resource", "uri": "x:{a}" })]
        {
            let asked = json!({ "ref": reference, "argument": { "name": "a", "value": "v" } });
            let answer = player.ask("completion/complete", asked).await;
            assert_eq!(answer["result"]["completion"]["values"][1], "v", "{player:?}: {answer}");
        }
    }),
    conversation!("a tool that runs only as a task", |player, pair| {
        if pair.server == Revision::V2025_11_25 {
            chores::only_as_a_task(player, pair).await;
        }
    }),
    conversation!("tasks that the client executes", |player, pair| {
        if pair.server == Revision::V2025_11_25 && pair.client != Revision::V2025_11_25 {
            chores::asked_as_a_task(player).await;
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
            ["ask", "other", "tasks/get", { "taskId": "for another server" }],
            ["answer", "other"],
            ["ask", "r", "tasks/result", task],
            ["answer", "r"]
        ]);
        let call = player.script(steps).await;
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
            let question = player.next(method).await;
            assert_eq!(question["params"], params, "{player:?}");
            player.reply(&question, answer).await;
        }
        let told = player.told(&call).await;
        assert_eq!(told["r"], result, "{player:?}");
        // the client is not asked about tasks that it runs for others
        assert_eq!(told["other"]["code"], -32602, "{player:?}: {told}");
    }),
    conversation!("changes of lists", |player, pair| {
        for times in 1..=2 {
            for kind in ["tools", "prompts", "resources"] {
                player.play(json!([["grow", kind]])).await;
                player.next(&format!("notifications/{kind}/list_changed")).await;
                let listed = player.ask(&format!("{kind}/list"), json!({})).await["result"][kind].take();
                let new = listed
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|one| one["name"].as_str().unwrap().starts_with("another"));
                assert_eq!(new.count(), times, "{player:?}: {listed}");
            }
        }
    }),
];

/// A call whose server request was refused: the server gets the error within the call, if its version allows that;
/// otherwise the call ends with an error for the model (`translation` 4.6).
pub(super) async fn refused(player: &mut Player, call: &Value) {
    if player.pair.server.era() == Era::Legacy {
        assert_eq!(player.told(call).await["q"]["code"], -32602, "{player:?}");
        return;
    }
    let answer = player.answer(call).await;
    assert_eq!(answer["result"]["isError"], true, "{player:?}: {answer}");
    assert_eq!(answer["result"]["content"][0]["type"], "text", "{player:?}: {answer}");
}

/// Tasks need two peers of that version: no other has a form for them.
pub(super) fn both_have_tasks(pair: Pair) -> bool {
    pair.client == Revision::V2025_11_25 && pair.server == Revision::V2025_11_25
}

fn form(message: &str) -> Value {
    let properties = json!({ "name": { "type": "string" } });
    json!({ "message": message, "requestedSchema": { "type": "object", "properties": properties } })
}
