//! Server requests, each form once: the request that a client of each version gets, the server's view of its answer,
//! and the server's error if there is no form.

use lockkeeper::mcp::{
    Era,
    Revision::{self, V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25},
};
use serde_json::{Value, json};

use super::features::refused;
use crate::kit::player::{self, Door, Pair, Player};

/// The client's version has no form for the request, or the client did not declare support (`translation` 4.6).
const NOT_ASKED: i64 = -32602;
/// The server's version has no form for an answer.
const NOT_ANSWERED: i64 = -32603;

/// A server request, and its answer.
struct AskedRequest {
    method: &'static str,
    params: Value,
    /// The request at the client, or the error code at the server.
    shown: Result<Value, i64>,
    answer: Value,
    /// The answer at the server.
    understood: Result<Value, i64>,
}

/// All of it, in one session.
pub(super) async fn cross(player: &mut Player) {
    let pair = player.pair;
    player.begin("sampling");
    ask_all(player, sampling(pair)).await;
    player.begin("elicitation");
    ask_all(player, elicitation(pair)).await;
    a_bound_is_kept(player).await;
    player.begin("roots");
    ask_all(player, roots(pair)).await;
}

/// All capabilities of a client of this version.
pub(super) fn capabilities(client: Revision) -> Value {
    let mut capabilities = player::capabilities(client);
    capabilities["experimental"] = json!({ "com.acme/x": { "a": 1 } });
    if client >= V2025_11_25 {
        capabilities["sampling"] = json!({ "tools": {} });
    }
    capabilities
}

/// Sends the requests in order: in one call, or in one each if a refused request ends the call.
async fn ask_all(player: &mut Player, all: Vec<AskedRequest>) {
    if player.pair.server.era() == Era::Modern {
        for one in all {
            ask_alone(player, one).await;
        }
        return;
    }
    let steps: Vec<Value> = (all.iter().enumerate())
        .flat_map(|(at, one)| {
            [json!(["ask", format!("q{at}"), one.method, one.params]), json!(["answer", format!("q{at}")])]
        })
        .collect();
    let call = player.script(steps.into()).await;
    for one in &all {
        let Ok(shown) = &one.shown else { continue };
        let question = player.next(one.method).await;
        assert_eq!(question["params"], *shown, "{player:?}");
        player.reply(&question, one.answer.clone()).await;
    }
    let told = player.told(&call).await;
    for (at, one) in all.iter().enumerate() {
        let got = &told[format!("q{at}")];
        match one.shown.as_ref().and(one.understood.as_ref()) {
            Ok(understood) => assert_eq!(got, understood, "{player:?}: {}", one.params),
            Err(code) => assert_eq!(got["code"], *code, "{player:?}: {got} to {}", one.params),
        }
    }
}

async fn ask_alone(player: &mut Player, one: AskedRequest) {
    let call = player.script(json!([["ask", "q", one.method, one.params], ["answer", "q"]])).await;
    let Ok(shown) = one.shown else {
        if player.is_stateless() {
            let answer = player.answer(&call).await;
            assert_eq!(answer["error"]["code"], -32021, "{player:?}: {answer}");
            return;
        }
        return refused(player, &call).await;
    };
    let mut question = player.next(one.method).await;
    if player.pair.client == V2025_11_25 && question["params"]["mode"] == "url" {
        // ELU: an id of the gateway
        assert!(question["params"]["elicitationId"].is_string(), "{player:?}: {question}");
        question["params"] = without(&question["params"], "elicitationId");
    }
    assert_eq!(question["params"], shown, "{player:?}");
    player.reply(&question, one.answer).await;
    assert_eq!(player.told(&call).await["q"], one.understood.unwrap(), "{player:?}");
}

/// Every request with the first answer, and every answer to the first request.
fn sampling(pair: Pair) -> Vec<AskedRequest> {
    let questions = of(pair.server, sampling_questions());
    let answers = of(pair.client, sampling_answers());
    let asked = |question: &Value, answer: &Value| AskedRequest {
        method: "sampling/createMessage",
        params: question.clone(),
        shown: sampling_shown(question, pair),
        answer: answer.clone(),
        understood: sampling_understood(answer, pair),
    };
    let mut all: Vec<AskedRequest> = questions.iter().map(|question| asked(question, &answers[0])).collect();
    all.extend(answers.iter().map(|answer| asked(&questions[0], answer)));
    all
}

/// Those that this version has.
fn of(version: Revision, forms: Vec<(Revision, Value)>) -> Vec<Value> {
    forms.into_iter().filter(|(since, _)| *since <= version).map(|(_, form)| form).collect()
}

fn sampling_questions() -> Vec<(Revision, Value)> {
    let text = json!({ "type": "text", "text": "t", "annotations": { "priority": 1 } });
    let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
    let audio = json!({ "type": "audio", "data": "UklGRg==", "mimeType": "audio/wav" });
    let used = json!({ "type": "tool_use", "id": "1", "name": "t", "input": { "a": 1 } });
    let result = json!({ "type": "tool_result", "toolUseId": "1", "content": [text] });
    let asks = |messages: Value, rest: Value| {
        let mut asked = json!({ "messages": messages, "maxTokens": 9 });
        asked.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        asked
    };
    let says = |content: &Value| json!([{ "role": "user", "content": content }]);
    let tool = json!([{ "name": "t", "inputSchema": { "type": "object" } }]);
    vec![
        (
            V2024_11_05,
            asks(
                json!([{ "role": "user", "content": text }, { "role": "assistant", "content": image }]),
                json!({
            "systemPrompt": "s", "temperature": 0.5, "stopSequences": ["a"], "includeContext": "none", "metadata": { "com.acme/x": 1 },
            "modelPreferences": { "hints": [{ "name": "m" }], "costPriority": 0.5, "speedPriority": 0, "intelligencePriority": 1 } }),
            ),
        ),
        (V2024_11_05, asks(json!([]), json!({ "_meta": { "com.acme/x": 1 } }))),
        (V2024_11_05, asks(says(&text), json!({ "includeContext": "thisServer" }))),
        (V2024_11_05, asks(says(&text), json!({ "includeContext": "allServers" }))),
        (
            V2025_03_26,
            asks(json!([{ "role": "user", "content": text }, { "role": "user", "content": audio }]), json!({})),
        ),
        (V2025_11_25, asks(says(&json!([text, image])), json!({}))),
        (
            V2025_11_25,
            asks(json!([{ "role": "assistant", "content": [image], "_meta": { "com.acme/x": 1 } }]), json!({})),
        ),
        (
            V2025_11_25,
            asks(
                json!([{ "role": "user", "content": [text, text, image], "_meta": { "com.acme/x": 1 } },
            { "role": "assistant", "content": text }]),
                json!({}),
            ),
        ),
        (V2025_11_25, asks(says(&json!([text, audio])), json!({}))),
        (V2025_11_25, asks(says(&text), json!({ "tools": tool, "toolChoice": { "mode": "auto" } }))),
        (V2025_11_25, asks(says(&text), json!({ "toolChoice": { "mode": "none" } }))),
        (
            V2025_11_25,
            asks(json!([{ "role": "assistant", "content": used }, { "role": "user", "content": [result] }]), json!({})),
        ),
    ]
}

/// SMP, AUD and INC.
fn sampling_shown(question: &Value, Pair { client, server, .. }: Pair) -> Result<Value, i64> {
    let mut shown = question.clone();
    if client == server {
        return Ok(shown);
    }
    let lacks = |names: &[&str]| names.iter().any(|name| question.to_string().contains(&format!("\"{name}\"")));
    if client < V2025_03_26 && lacks(&["audio"]) || client < V2025_11_25 && lacks(&["toolChoice", "tool_use"]) {
        return Err(NOT_ASKED);
    }
    if client >= V2025_11_25 && shown["includeContext"] != "none" {
        shown.as_object_mut().unwrap().remove("includeContext");
    }
    if client < V2025_11_25 {
        let messages = question["messages"].as_array().unwrap();
        shown["messages"] = messages.iter().flat_map(one_block_each).collect();
    }
    Ok(shown)
}

/// A message of several blocks as several messages; its other members are kept once.
fn one_block_each(message: &Value) -> Vec<Value> {
    let Some(blocks) = message["content"].as_array() else { return vec![message.clone()] };
    let mut first = message.clone();
    first["content"] = blocks[0].clone();
    let rest = blocks[1..].iter().map(|block| json!({ "role": message["role"], "content": block }));
    std::iter::once(first).chain(rest).collect()
}

fn sampling_answers() -> Vec<(Revision, Value)> {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
    let audio = json!({ "type": "audio", "data": "UklGRg==", "mimeType": "audio/wav" });
    let used = json!({ "type": "tool_use", "id": "1", "name": "t", "input": {} });
    let says =
        |content: Value| json!({ "role": "assistant", "model": "m", "stopReason": "endTurn", "content": content });
    vec![
        (V2024_11_05, says(text("é\n\"\u{1f600}"))),
        (V2024_11_05, json!({ "role": "assistant", "model": "m", "content": image, "_meta": { "com.acme/x": 1 } })),
        (V2025_03_26, says(audio.clone())),
        (V2025_11_25, says(json!([text("a")]))),
        (V2025_11_25, says(json!([text("a\""), text("é"), text("")]))),
        (V2025_11_25, says(json!([audio]))),
        (V2025_11_25, says(json!([text("a"), image]))),
        (V2025_11_25, says(used.clone())),
        (V2025_11_25, says(json!([text("a"), used]))),
    ]
}

/// SMP and AUD, for the answer.
fn sampling_understood(answer: &Value, Pair { client, server, .. }: Pair) -> Result<Value, i64> {
    let mut understood = answer.clone();
    if client == server {
        return Ok(understood);
    }
    let one = [answer["content"].clone()];
    let blocks = answer["content"].as_array().map_or(&one[..], Vec::as_slice);
    let all = |kind: &str| blocks.iter().all(|block| block["type"] == kind);
    let any = |kind: &str| blocks.iter().any(|block| block["type"] == kind);
    if server < V2025_03_26 && any("audio") || server < V2025_11_25 && any("tool_use") {
        return Err(NOT_ANSWERED);
    }
    if server < V2025_11_25 {
        understood["content"] = match blocks {
            [block] => block.clone(),
            _ if all("text") => {
                let texts: String = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
                json!({ "type": "text", "text": texts })
            }
            _ => return Err(NOT_ANSWERED),
        };
    }
    Ok(understood)
}

/// ELC, ELU and ENM.
fn elicitation(pair: Pair) -> Vec<AskedRequest> {
    let asked = |params: &Value, shown: Result<Value, i64>, answer: Value, understood: Value| AskedRequest {
        method: "elicitation/create",
        params: params.clone(),
        shown,
        answer,
        understood: Ok(understood),
    };
    let accept = |content: Value| json!({ "action": "accept", "content": content });
    let same = |params: &Value| if pair.client < V2025_06_18 { Err(NOT_ASKED) } else { Ok(params.clone()) };
    let mut all = Vec::new();
    if pair.server >= V2025_06_18 {
        let form = plain_form();
        let filled = json!({ "s": "a@b.c", "n": 3.5, "i": -4, "b": false, "e": "g", "t": "r" });
        for answer in
            [accept(filled), accept(json!({ "s": "é" })), json!({ "action": "decline" }), json!({ "action": "cancel" })]
        {
            all.push(asked(&form, same(&form), answer.clone(), answer));
        }
    }
    if pair.server >= V2025_11_25 {
        let form = rich_form();
        let filled = json!({ "s": "x", "o": "g", "m": ["r"], "k": ["a", "c"] });
        let (shown, answer) = if pair.client == V2025_06_18 {
            (
                Ok(rich_form_lowered("m")),
                json!({ "s": "x", "o": "g", "m__0": true, "m__1": false, "k__0": true, "k__2": true }),
            )
        } else {
            (same(&form), filled.clone())
        };
        all.push(asked(&form, shown, accept(answer), accept(filled)));
        let mut page =
            json!({ "mode": "url", "message": "see", "url": "https://example.com/x", "elicitationId": "e1" });
        if pair.server.era() == Era::Modern {
            page = without(&page, "elicitationId");
        }
        let shown = match pair.client {
            V2025_11_25 => Ok(page.clone()),
            // ELU
            client if client.era() == Era::Modern => Ok(without(&page, "elicitationId")),
            _ => Err(NOT_ASKED),
        };
        for action in ["accept", "decline", "cancel"] {
            all.push(asked(&page, shown.clone(), json!({ "action": action }), json!({ "action": action })));
        }
    }
    all
}

/// An object without one member.
pub(super) fn without(object: &Value, member: &str) -> Value {
    let mut object = object.clone();
    object.as_object_mut().unwrap().remove(member);
    object
}

/// All field kinds of 2025-06-18.
fn plain_form() -> Value {
    let properties = json!({
        "s": { "type": "string", "title": "S", "description": "d", "minLength": 1, "maxLength": 9, "format": "email" },
        "n": { "type": "number", "minimum": 0, "maximum": 9 },
        "i": { "type": "integer", "title": "I" },
        "b": { "type": "boolean", "default": true },
        "e": { "type": "string", "enum": ["r", "g"] },
        "t": { "type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"] },
    });
    json!({ "message": "m", "requestedSchema": { "type": "object", "properties": properties, "required": ["s"] } })
}

/// All further field kinds of 2025-11-25.
fn rich_form() -> Value {
    let properties = json!({
        "s": { "type": "string", "default": "d" },
        "n": { "type": "integer", "default": 3 },
        "e": { "type": "string", "enum": ["r", "g"], "default": "r" },
        "o": { "type": "string", "oneOf": [{ "const": "r", "title": "Red" }, { "const": "g", "title": "Green" }], "default": "r" },
        "m": { "type": "array", "items": { "type": "string", "enum": ["r", "g"] }, "default": ["g"] },
        "k": { "type": "array", "title": "Kinds", "minItems": 1, "maxItems": 2, "items": { "anyOf": [
            { "const": "a", "title": "A" }, { "const": "b", "title": "B" }, { "const": "c", "title": "C" }] } },
    });
    json!({ "mode": "form", "message": "m", "requestedSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": properties, "required": ["o", "k"] } })
}

/// The same in 2025-06-18.
fn rich_form_lowered(message: &str) -> Value {
    let properties = json!({
        "s": { "type": "string", "default": "d" },
        "n": { "type": "integer", "default": 3 },
        "e": { "type": "string", "enum": ["r", "g"], "default": "r" },
        "o": { "type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"], "default": "r" },
        "m__0": { "type": "boolean", "title": "m: r", "default": false },
        "m__1": { "type": "boolean", "title": "m: g", "default": true },
        "k__0": { "type": "boolean", "title": "Kinds: A" },
        "k__1": { "type": "boolean", "title": "Kinds: B" },
        "k__2": { "type": "boolean", "title": "Kinds: C" },
    });
    json!({ "message": message, "requestedSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": properties, "required": ["o"] } })
}

/// Answers with too few or too many choices are asked for again, three times in all.
async fn a_bound_is_kept(player: &mut Player) {
    if player.pair.server != V2025_11_25 || player.pair.client != V2025_06_18 {
        return;
    }
    player.begin("the bounds of several choices");
    let call = player.script(json!([["ask", "q", "elicitation/create", rich_form()], ["answer", "q"]])).await;
    let (few, many) = (json!({ "k__0": false }), json!({ "k__0": true, "k__1": true, "k__2": true }));
    let least = "m (the answer to k must have at least 1 of the choices)";
    let most = "m (the answer to k must have at most 2 of the choices)";
    for (message, content) in [("m", few.clone()), (least, many), (most, few)] {
        let question = player.next("elicitation/create").await;
        assert_eq!(question["params"], rich_form_lowered(message), "{player:?}");
        player.reply(&question, json!({ "action": "accept", "content": content })).await;
    }
    assert_eq!(player.told(&call).await["q"]["code"], NOT_ANSWERED, "{player:?}");
}

fn roots(pair: Pair) -> Vec<AskedRequest> {
    let answers = vec![
        (V2024_11_05, json!({ "roots": [] })),
        (
            V2024_11_05,
            json!({ "roots": [{ "uri": "file:///a" }, { "uri": "file:///b%20c", "name": "é" }], "_meta": { "com.acme/x": 1 } }),
        ),
        (V2025_06_18, json!({ "roots": [{ "uri": "file:///a", "_meta": { "com.acme/x": 1 } }] })),
    ];
    let params = json!({ "_meta": { "com.acme/x": 1 } });
    let asked = |answer: Value| AskedRequest {
        method: "roots/list",
        params: params.clone(),
        shown: Ok(params.clone()),
        answer: answer.clone(),
        understood: Ok(answer),
    };
    of(pair.client, answers).into_iter().map(asked).collect()
}

/// A client gets no undeclared server request, and the server gets an error at once.
pub(super) async fn undeclared(door: Door, pair: Pair) {
    let form = ("elicitation/create", plain_form(), NOT_ASKED);
    let page = json!({ "mode": "url", "message": "see", "url": "https://example.com/x", "elicitationId": "e1" });
    let page = if pair.server.era() == Era::Modern { without(&page, "elicitationId") } else { page };
    let mut table = vec![(
        json!({}),
        vec![
            ("sampling/createMessage", sampling_questions().remove(0).1, NOT_ASKED),
            form.clone(),
            ("roots/list", json!({}), -32601),
        ],
    )];
    if pair.client >= V2025_11_25 && pair.server >= V2025_11_25 {
        table.push((json!({ "elicitation": {} }), vec![("elicitation/create", page.clone(), NOT_ASKED)]));
        table.push((json!({ "elicitation": { "form": {} } }), vec![("elicitation/create", page, NOT_ASKED)]));
        table.push((json!({ "elicitation": { "url": {} } }), vec![form]));
    }
    for (capabilities, questions) in table {
        let mut player = Player::open_as(door.clone(), pair, capabilities).await;
        player.begin("what the client did not declare");
        let refused = |(method, params, code): (&'static str, Value, i64)| AskedRequest {
            method,
            params,
            shown: Err(code),
            answer: Value::Null,
            understood: Err(code),
        };
        ask_all(&mut player, questions.into_iter().map(refused).collect()).await;
        player.nothing_is_left();
        player.close().await;
    }
}
