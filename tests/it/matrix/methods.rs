//! Requests beside content, lists and server requests: client information, parameters at the server, completions,
//! progress, logs, errors.

use lockkeeper::mcp::{
    Era,
    Revision::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25},
};
use serde_json::{Value, json};

use super::{
    contents::{given, prepared},
    questions,
};
use crate::kit::player::{Pair, Player};

/// Methods whose outcome the test can choose.
const REQUESTS: [(&str, &str); 3] = [("prompts/get", "p"), ("resources/read", "x:a"), ("completion/complete", "p")];

/// All of it, in one session.
pub(super) async fn cross(player: &mut Player) {
    server_info(player).await;
    calls(player).await;
    completions(player).await;
    progress(player).await;
    logs(player).await;
    if player.is_stateless() {
        levels_of_requests(player).await;
    } else {
        levels(player).await;
    }
    errors(player).await;
    pages_that_are_required_first(player).await;
}

/// The server gets the client's description.
async fn server_info(player: &mut Player) {
    player.begin("server information");
    let last = match player.pair.server.era() {
        Era::Legacy => player.play(json!([["count", "initialize"]])).await["last"].take(),
        Era::Modern => {
            let said = player.play(json!([["envelope"]])).await["envelope"].take();
            json!({ "clientInfo": said["clientInfo"], "capabilities": said["clientCapabilities"] })
        }
    };
    // a session that all of a user's sessionless clients share may be opened in the gateway's own name (`translation` 4b.1)
    let shared = player.is_stateless() && player.pair.server.era() == Era::Legacy;
    if !(shared && last["clientInfo"]["name"] == "lockkeeper") {
        assert_eq!(last["clientInfo"], json!({ "name": "matrix", "version": "1" }), "{player:?}");
    }
    let mut declared = questions::capabilities(player.pair.client);
    if player.pair.client != V2025_11_25 || player.pair.server.era() == Era::Modern {
        // TSK: these versions have no tasks, whatever a client declares
        declared.as_object_mut().unwrap().remove("tasks");
    }
    if player.pair.server.era() == Era::Modern {
        // ROOT
        declared["roots"] = json!({});
    }
    assert_eq!(last["capabilities"], declared, "{player:?}");
}

async fn calls(player: &mut Player) {
    player.begin("the parameters of a call");
    let Pair { client, server, .. } = player.pair;
    let arguments = json!({ "steps": [["request", "tools/call"]], "task": null, "é": [1.5, { "type": "audio" }] });
    let meta = json!({ "progressToken": "mine", "com.acme/x": { "a": 1 }, "traceparent": "00-0-0-00" });
    let asked = json!({ "name": "script", "arguments": arguments, "_meta": meta });
    let mut sent = asked.clone();
    if client == V2025_11_25 && server < V2025_11_25 {
        // TSK: a server without tasks is not asked for one
        sent["task"] = json!({ "ttl": 1000 });
    }
    let call = player.send("tools/call", sent).await;
    let mut got = player.told(&call).await["tools/call"].take();
    // unique among all clients of the server
    assert!(got["_meta"]["progressToken"].is_u64(), "{player:?}: {got}");
    got["_meta"]["progressToken"] = "mine".into();
    assert_eq!(got, asked, "{player:?}");
}

/// CTX: it passes, whatever the server's version knows.
async fn completions(player: &mut Player) {
    player.begin("completions");
    let argument = json!({ "name": "a", "value": "" });
    let mut asked = vec![
        json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": argument }),
        json!({ "ref": { "type": "ref/resource", "uri": "x:{a}" }, "argument": argument, "_meta": { "com.acme/x": 1 } }),
    ];
    if player.pair.client >= V2025_06_18 {
        asked.push(json!({ "ref": { "type": "ref/prompt", "name": "p", "title": "P" }, "argument": argument,
            "context": { "arguments": { "b": "w" } } }));
    }
    for asked in asked {
        for completion in [json!({ "values": [] }), json!({ "values": ["é", ""], "total": 7, "hasMore": true })] {
            let result = json!({ "completion": completion, "_meta": { "com.acme/x": 1 } });
            let answer = prepared(player, "completion/complete", &asked, json!({ "result": result })).await;
            assert_eq!(answer["result"], result, "{player:?}");
        }
    }
}

/// PRG: it passes.
async fn progress(player: &mut Player) {
    player.begin("progress");
    let mut said = vec![json!({ "progress": 0 }), json!({ "progress": 0.5, "total": 2, "_meta": { "com.acme/x": 1 } })];
    if player.pair.server >= V2025_03_26 || player.pair.client == V2024_11_05 {
        said.push(json!({ "progress": 1, "total": 2, "message": "half of \"é\"" }));
    }
    let steps: Vec<Value> = said.iter().map(|one| json!(["progress", one["progress"], one])).collect();
    let call = player.script(steps.into()).await;
    for mut one in said {
        one["progressToken"] = "t".into();
        assert_eq!(player.next("notifications/progress").await["params"], one, "{player:?}");
    }
    player.told(&call).await;
}

async fn logs(player: &mut Player) {
    player.begin("logs");
    player.wants_logs("debug").await;
    let levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    let data = [json!("é"), json!({ "a": [1] }), json!(null), json!(1.5), json!([]), json!(true), json!(""), json!({})];
    let said: Vec<Value> = levels
        .into_iter()
        .zip(data)
        .map(|(level, data)| json!({ "level": level, "logger": "l", "data": data, "_meta": { "com.acme/x": 1 } }))
        .collect();
    let steps: Vec<Value> = said.iter().map(|one| json!(["tell", "notifications/message", one])).collect();
    let call = player.script(steps.into()).await;
    for one in said {
        assert_eq!(player.next("notifications/message").await["params"], one, "{player:?}");
    }
    player.told(&call).await;
}

async fn levels(player: &mut Player) {
    player.begin("levels");
    for level in ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"] {
        assert_eq!(player.ask("logging/setLevel", json!({ "level": level })).await["result"], json!({}), "{player:?}");
        if player.pair.server.era() == Era::Modern {
            assert_eq!(player.play(json!([["envelope"]])).await["envelope"]["logLevel"], level, "{player:?}");
            continue;
        }
        let told = player.play(json!([["hear", "logging/setLevel"]])).await;
        assert_eq!(told["logging/setLevel"], json!({ "level": level }), "{player:?}");
    }
    for params in [json!({ "level": "loud" }), json!({})] {
        assert_eq!(player.ask("logging/setLevel", params).await["error"]["code"], -32602, "{player:?}");
    }
}

/// LOG: without a session each request has its own level.
async fn levels_of_requests(player: &mut Player) {
    player.begin("levels");
    let levels = ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"];
    for (at, level) in levels.into_iter().enumerate() {
        player.wants_logs(level).await;
        let steps = levels.map(|said| json!(["tell", "notifications/message", { "level": said, "data": 1 }]));
        let call = player.script(steps.to_vec().into()).await;
        for said in &levels[..=at] {
            assert_eq!(player.next("notifications/message").await["params"]["level"], *said, "{player:?}");
        }
        player.told(&call).await;
    }
}

/// Code, message and data of an error are the server's.
async fn errors(player: &mut Player) {
    player.begin("errors");
    let mut errors = vec![json!({ "code": -32002, "message": "", "data": { "uri": "x:a" } })];
    for (code, data) in [
        (-32602, json!("é")),
        (-32603, json!(null)),
        (-32000, json!([1.5, { "a": {} }])),
        (-32022, json!(1)),
        (1, json!({})),
    ] {
        errors.push(json!({ "code": code, "message": "m", "data": data }));
        errors.push(json!({ "code": code, "message": "é\n\"" }));
    }
    let of_modern = player.pair.server.era() == Era::Modern;
    if of_modern {
        let data = json!({ "uri": "x:a", "com.acme/x": 1 });
        errors[0] = json!({ "code": -32602, "message": "none there", "data": data });
        // concerns the version of the connection, which the gateway handles
        errors.retain(|error| error["code"] != -32022);
    }
    for (error, (method, name)) in errors.into_iter().zip(REQUESTS.into_iter().cycle()) {
        let outcome = json!({ "error": error });
        let shown = error_shown(error.clone(), player.pair);
        assert_eq!(given(player, outcome.clone()).await["error"], shown, "{player:?}");
        assert_eq!(
            prepared(player, method, &request(method, name), outcome.clone()).await["error"],
            shown,
            "{player:?}"
        );
        if of_modern && error["data"]["uri"] == "x:a" {
            // this code has many meanings
            let answer = prepared(player, "resources/read", &json!({ "uri": "x:a" }), outcome).await;
            let code = if player.is_stateless() { -32602 } else { -32002 };
            assert_eq!(answer["error"]["code"], code, "{player:?}: {answer}");
            assert_eq!(answer["error"]["data"], error["data"], "{player:?}: {answer}");
        }
    }
    for method in ["x/do", "tasks/nothing"] {
        let refused = player.ask(method, json!({})).await;
        assert_eq!(refused["error"]["code"], -32601, "{player:?}: {refused}");
    }
}

/// An error that may become a server request becomes one, and the call is repeated after the page was visited.
async fn pages_that_are_asked_for(player: &mut Player, outcome: &Value) {
    let page = json!({ "mode": "url", "url": "https://example.com/c", "message": "Log in" });
    for (method, name) in REQUESTS {
        player.play(json!([["prepare", method, outcome]])).await;
        let call = player.send(method, request(method, name)).await;
        if method == "completion/complete" {
            // no server request is possible there
            assert_eq!(player.answer(&call).await["error"]["code"], -32603, "{player:?}");
            continue;
        }
        let question = player.next("elicitation/create").await;
        assert_eq!(question["params"], page, "{player:?}");
        let result = match method {
            "prompts/get" => json!({ "messages": [] }),
            _ => json!({ "contents": [] }),
        };
        player.play(json!([["prepare", method, { "result": result }]])).await;
        player.reply(&question, json!({ "action": "accept" })).await;
        assert_eq!(player.answer(&call).await["result"], result, "{player:?}");
        let again = player.play(json!([["request", method]])).await;
        assert_eq!(again[method], request(method, name), "{player:?}");
    }
    let call = player.script(json!([["give", outcome]])).await;
    for _ in 0..2 {
        let question = player.next("elicitation/create").await;
        assert_eq!(question["params"], page, "{player:?}");
        player.reply(&question, json!({ "action": "accept" })).await;
    }
    player.next("elicitation/create").await;
    player.leave(&call);
}

/// ERR: codes with another meaning, or none, in the other era (`translation` 2.3).
fn error_shown(mut error: Value, Pair { client, server, .. }: Pair) -> Value {
    if client.era() == server.era() {
        return error;
    }
    let code = error["code"].as_i64().unwrap();
    match code {
        -32002 if client.era() == Era::Modern => error["code"] = (-32602).into(),
        -32019..=-32000 if client.era() == Era::Legacy => {}
        -32022..=-32000 => {
            error["code"] = (-32603).into();
            let data = &mut error["data"];
            match data {
                Value::Object(data) => drop(data.insert("upstreamCode".to_owned(), code.into())),
                Value::Null => *data = json!({ "upstreamCode": code }),
                _ => *data = json!({ "upstreamCode": code, "upstreamData": data }),
            }
        }
        _ => {}
    }
    error
}

fn request(method: &str, name: &str) -> Value {
    match method {
        "resources/read" => json!({ "uri": name }),
        "completion/complete" => {
            json!({ "ref": { "type": "ref/prompt", "name": name }, "argument": { "name": "a", "value": "" } })
        }
        _ => json!({ "name": name }),
    }
}

/// E42: an error that older clients do not know becomes one that they can act on.
async fn pages_that_are_required_first(player: &mut Player) {
    let Pair { client, server, .. } = player.pair;
    if server != V2025_11_25 {
        return;
    }
    player.begin("pages that are required first");
    let page = json!({ "mode": "url", "elicitationId": "e", "url": "https://example.com/c", "message": "Log in" });
    let mut error = json!({ "code": -32042, "message": "first", "data": { "elicitations": [page] } });
    let outcome = json!({ "error": error });
    if player.is_stateless() {
        return pages_that_are_asked_for(player, &outcome).await;
    }
    let called = given(player, outcome.clone()).await;
    if client == V2025_11_25 {
        assert_eq!(called["error"], error, "{player:?}");
    } else {
        let text = "Log in\nOpen https://example.com/c and then call the tool again.";
        let result = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
        assert_eq!(called["result"], result, "{player:?}");
        error["code"] = (-32603).into();
    }
    for (method, name) in REQUESTS {
        assert_eq!(
            prepared(player, method, &request(method, name), outcome.clone()).await["error"],
            error,
            "{player:?}"
        );
    }
}
