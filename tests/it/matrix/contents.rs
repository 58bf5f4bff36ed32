//! Content of results, each kind once: as the server writes it, and as a client of each version reads it.

use lockkeeper::mcp::{
    Era,
    Revision::{self, V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25},
};
use serde_json::{Value, json};

use crate::kit::player::{Pair, Player};

/// All of it, in one session.
pub(super) async fn cross(player: &mut Player) {
    blocks_of_a_tool(player).await;
    structured_content(player).await;
    structured_content_of_any_schema(player).await;
    messages_of_a_prompt(player).await;
    contents_of_a_resource(player).await;
}

/// A content block, and the first version that has it.
fn blocks() -> Vec<(Revision, Value)> {
    let old = json!({ "audience": ["user", "assistant"], "priority": 0.25 });
    let new = json!({ "audience": ["user"], "priority": 1, "lastModified": "2025-01-12T15:00:58Z" });
    let meta = json!({ "com.acme/x": { "type": "audio" } });
    vec![
        (V2024_11_05, json!({ "type": "text", "text": "" })),
        (V2024_11_05, json!({ "type": "text", "text": "é\u{1f600}\n\"\\", "annotations": old })),
        (V2025_06_18, json!({ "type": "text", "text": "t", "annotations": new, "_meta": meta })),
        (V2024_11_05, json!({ "type": "image", "data": "AA==", "mimeType": "image/png", "annotations": old })),
        (
            V2025_06_18,
            json!({ "type": "image", "data": "AA==", "mimeType": "image/png", "annotations": new, "_meta": meta }),
        ),
        (V2025_03_26, json!({ "type": "audio", "data": "UklGRg==", "mimeType": "audio/wav" })),
        (V2025_03_26, json!({ "type": "audio", "data": "UklGRg==", "mimeType": "audio/mp3", "annotations": old })),
        (
            V2025_06_18,
            json!({ "type": "audio", "data": "UklGRg==", "mimeType": "audio/wav", "annotations": new, "_meta": meta }),
        ),
        (V2024_11_05, json!({ "type": "resource", "resource": { "uri": "x:a", "text": "t" } })),
        (
            V2024_11_05,
            json!({ "type": "resource", "resource": { "uri": "x:a", "mimeType": "text/plain", "text": "t" }, "annotations": old }),
        ),
        (
            V2024_11_05,
            json!({ "type": "resource", "resource": { "uri": "x:b", "mimeType": "image/png", "blob": "AA==" } }),
        ),
        (
            V2025_06_18,
            json!({ "type": "resource", "resource": { "uri": "x:b", "blob": "AA==", "_meta": meta }, "annotations": new, "_meta": meta }),
        ),
        (V2025_06_18, json!({ "type": "resource_link", "uri": "x:a", "name": "a" })),
        (
            V2025_06_18,
            json!({ "type": "resource_link", "uri": "x:a", "name": "a", "title": "A", "description": "d \"q\"",
            "mimeType": "text/plain", "size": 7, "annotations": new, "_meta": meta }),
        ),
        (
            V2025_11_25,
            json!({ "type": "resource_link", "uri": "x:a", "name": "a", "icons": [{ "src": "https://example.com/i.png" }] }),
        ),
    ]
}

/// The block as a client of this version reads it (`translation` 3.3, AUD and LNK): its kind, the first version that
/// has the kind, and the form in older ones.
fn lowered(block: &Value, client: Revision) -> Value {
    let mut form = match block["type"].as_str() {
        // the beginning of the SHA-256 of the four bytes
        Some("audio") if client < V2025_03_26 => json!({ "type": "resource", "resource":
            { "uri": "urn:gw:inline:sha256:a40ff3d5900fb769", "mimeType": block["mimeType"], "blob": block["data"] } }),
        Some("resource_link") if client < V2025_06_18 => {
            let mut link = block.clone();
            let members = link.as_object_mut().unwrap();
            members.retain(|name, _| !["type", "annotations", "_meta"].contains(&name.as_str()));
            json!({ "type": "text", "text": format!("[resource_link] {link}") })
        }
        _ => return block.clone(),
    };
    for name in ["annotations", "_meta"] {
        if let Some(kept) = block.get(name) {
            form[name] = kept.clone();
        }
    }
    form
}

/// Blocks that the server writes, and their form for the client. Between equal versions nothing changes, so the server
/// uses only its version's kinds; otherwise it may use newer ones too.
fn said_and_read(pair: Pair) -> (Vec<Value>, Vec<Value>) {
    let says = |since: &Revision| *since <= pair.server || pair.client != pair.server;
    let said: Vec<Value> = blocks().into_iter().filter(|(since, _)| says(since)).map(|(_, block)| block).collect();
    let read = said.iter().map(|block| lowered(block, pair.client)).collect();
    (said, read)
}

async fn blocks_of_a_tool(player: &mut Player) {
    player.begin("content of a tool");
    let (said, read) = said_and_read(player.pair);
    for rest in [json!({}), json!({ "isError": false }), json!({ "isError": true, "_meta": { "com.acme/x": 1 } })] {
        let result = |content: &[Value]| {
            let mut result = rest.clone();
            result["content"] = content.into();
            result
        };
        assert_eq!(given(player, json!({ "result": result(&said) })).await["result"], result(&read), "{player:?}");
    }
    assert_eq!(
        given(player, json!({ "result": { "content": [] } })).await["result"],
        json!({ "content": [] }),
        "{player:?}"
    );
}

/// The answer to a call that ends this way at the server.
pub(super) async fn given(player: &mut Player, outcome: Value) -> Value {
    let call = player.script(json!([["give", outcome]])).await;
    player.answer(&call).await
}

/// STR and STA: the first version that has it, structured content, the texts beside it, and whether clients of versions
/// without it, and those of others, get it as a further text.
async fn structured_content(player: &mut Player) {
    player.begin("structured content");
    let Pair { client, server, .. } = player.pair;
    let object = json!({ "a": 1, "b": [true, null] });
    let table: Vec<(Revision, Value, Vec<&str>, [bool; 2])> = vec![
        (V2025_06_18, object.clone(), vec![], [true, false]),
        (V2025_06_18, object.clone(), vec!["{\"b\": [true, null], \"a\":1.0}"], [false, false]),
        (V2025_06_18, object, vec!["{\"a\":1}", "no"], [true, false]),
        (V2025_06_18, json!({}), vec!["null"], [true, false]),
        // structured content that is no object is new in 2026-07-28
        (Revision::V2026_07_28, json!([1, "2"]), vec![], [true, true]),
        (Revision::V2026_07_28, json!([1, "2"]), vec!["one, two"], [true, false]),
        (Revision::V2026_07_28, json!(null), vec!["null"], [false, false]),
        (Revision::V2026_07_28, json!(null), vec![], [true, true]),
    ];
    let text = |text: &str| json!({ "type": "text", "text": text });
    for (since, value, texts, further) in table {
        if since > server && client == server {
            continue;
        }
        let said: Vec<Value> = texts.into_iter().map(text).collect();
        let mut read = said.clone();
        let newest = player.is_stateless();
        // writers of every member mean that there is none
        let is_absent = value.is_null() && server.era() == Era::Legacy;
        if !is_absent && client != server && !newest && further[usize::from(client >= V2025_06_18)] {
            read.push(text(&value.to_string()));
        }
        let shown = if value.is_object() || newest { value.clone() } else { json!({ "result": value }) };
        let answer = given(player, json!({ "result": { "content": said, "structuredContent": value } })).await;
        let mut expected = json!({ "content": read, "structuredContent": shown });
        if is_absent {
            expected.as_object_mut().unwrap().remove("structuredContent");
        }
        assert_eq!(answer["result"], expected, "{player:?}");
    }
}

/// OUT and STA: a tool whose output schema was changed to an object returns such an object.
async fn structured_content_of_any_schema(player: &mut Player) {
    player.begin("structured content of any schema");
    if player.pair.server.era() == Era::Legacy {
        return;
    }
    for (tool, value) in [
        ("either", json!({ "any": 1 })),
        ("either", json!(null)),
        ("counting", json!([1, 2])),
        ("titled", json!({ "n": 1 })),
    ] {
        let result = json!({ "content": [{ "type": "text", "text": "said" }], "structuredContent": value });
        let asked = json!({ "name": tool, "arguments": { "steps": [["give", { "result": result }]] } });
        let mut expected = result;
        if !player.is_stateless() && tool != "titled" {
            expected["structuredContent"] = json!({ "result": value });
        }
        if player.pair.client < V2025_06_18 {
            // STR
            let further = json!({ "type": "text", "text": value.to_string() });
            expected["content"].as_array_mut().unwrap().push(further);
        }
        assert_eq!(player.ask("tools/call", asked).await["result"], expected, "{player:?}");
    }
}

async fn messages_of_a_prompt(player: &mut Player) {
    player.begin("messages of a prompt");
    let (said, read) = said_and_read(player.pair);
    let result = |blocks: Vec<Value>| {
        let roles = ["user", "assistant"].into_iter().cycle();
        let messages: Vec<Value> =
            blocks.into_iter().zip(roles).map(|(block, role)| json!({ "role": role, "content": block })).collect();
        json!({ "description": "d", "messages": messages, "_meta": { "com.acme/x": 1 } })
    };
    let asked = json!({ "name": "p", "arguments": { "a": "v", "b": "" }, "_meta": { "com.acme/y": 1 } });
    let answer = prepared(player, "prompts/get", &asked, json!({ "result": result(said) })).await;
    assert_eq!(answer["result"], result(read), "{player:?}");
}

async fn contents_of_a_resource(player: &mut Player) {
    player.begin("contents of a resource");
    let mut contents = vec![
        json!({ "uri": "x:a", "text": "t" }),
        json!({ "uri": "x:a", "mimeType": "text/plain", "text": "" }),
        json!({ "uri": "x:a/b", "mimeType": "image/png", "blob": "AA==" }),
    ];
    if player.pair.server >= V2025_06_18 {
        contents.push(json!({ "uri": "x:a", "text": "t", "_meta": { "com.acme/x": 1 } }));
    }
    for result in [json!({ "contents": [] }), json!({ "contents": contents, "_meta": { "com.acme/x": 1 } })] {
        let answer = prepared(player, "resources/read", &json!({ "uri": "x:a" }), json!({ "result": result })).await;
        assert_eq!(answer["result"], result, "{player:?}");
    }
}

/// The answer to a request that ends this way at the server, which gets the request unchanged.
pub(super) async fn prepared(player: &mut Player, method: &str, asked: &Value, outcome: Value) -> Value {
    player.play(json!([["prepare", method, outcome]])).await;
    let answer = player.ask(method, asked.clone()).await;
    let told = player.play(json!([["request", method]])).await;
    assert_eq!(told[method], *asked, "{player:?}");
    answer
}
