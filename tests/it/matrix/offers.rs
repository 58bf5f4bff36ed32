//! The server's lists in `kit/scripted/offers.json`: server information, tools, prompts, resources and templates, with every member
//! of its version. All lists but that of tools have pages of two entries.

use lockkeeper::mcp::{
    Era,
    Revision::{V2025_03_26, V2025_06_18, V2025_11_25},
};
use serde_json::{Value, json};

use crate::kit::{
    player::{Pair, Player},
    scripted::Offers,
};

/// All of it, in one session.
pub(super) async fn cross(player: &mut Player) {
    handshake(player);
    lists(player).await;
    cursors(player).await;
}

fn handshake(player: &mut Player) {
    player.begin("handshake");
    let Pair { client, server, .. } = player.pair;
    let instructions = Offers::of(server).instructions();
    let mut capabilities = json!({ "tools": { "listChanged": true }, "prompts": { "listChanged": true },
        "resources": { "subscribe": true, "listChanged": true }, "logging": {}, "completions": {} });
    // TSK
    if client == V2025_11_25 && server == V2025_11_25 {
        capabilities["tasks"] = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
    }
    if player.is_stateless() && server == V2025_11_25 {
        capabilities["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
    }
    let mut expected = json!({ "capabilities": capabilities, "instructions": instructions });
    if player.is_stateless() {
        expected["supportedVersions"] = json!([client.as_str()]);
    } else {
        expected["protocolVersion"] = client.as_str().into();
        expected["serverInfo"] = Offers::of(server).identity();
    }
    assert_eq!(player.greeting, expected, "{player:?}");
}

async fn lists(player: &mut Player) {
    player.begin("lists");
    let pair = player.pair;
    let lists = [
        ("tools/list", "tools", vec![json!({ "name": "script", "inputSchema": { "type": "object" } })]),
        ("prompts/list", "prompts", vec![json!({ "name": "p" })]),
        ("resources/list", "resources", vec![json!({ "uri": "x:r", "name": "r" })]),
        ("resources/templates/list", "resourceTemplates", vec![]),
    ];
    for (method, kind, mut entries) in lists {
        entries.extend(Offers::of(pair.server).entries(kind));
        let mut expected = json!({ kind: entries.into_iter().map(|entry| shown(entry, pair)).collect::<Vec<Value>>() });
        if kind == "tools" {
            // a list in one page passes unchanged
            expected["_meta"] = json!({ "com.acme/list": 1 });
        }
        // the second time, the gateway has it cached
        for params in [json!({}), Value::Null, json!({ "_meta": { "progressToken": 1 } })] {
            let listed = player.ask(method, params).await;
            assert_eq!(listed["result"], expected, "{player:?}");
        }
    }
}

/// An entry as the client reads it (`translation` 3.3, TSK and TTL).
fn shown(mut entry: Value, Pair { client, server, .. }: Pair) -> Value {
    // TSK: only that version has it
    if client != V2025_11_25 {
        entry.as_object_mut().unwrap().remove("execution");
    }
    let tool = entry.get("inputSchema").is_some();
    if tool && client.era() == Era::Legacy {
        for schema in ["inputSchema", "outputSchema"] {
            if let Some(properties) = entry.pointer_mut(&format!("/{schema}/properties")) {
                properties.as_object_mut().unwrap().values_mut().for_each(boolean);
            }
        }
        entry.get_mut("outputSchema").into_iter().for_each(any_root);
    }
    if tool && client == V2025_03_26 && server >= V2025_06_18 && entry.get("title").is_some() {
        let title = entry["title"].clone();
        let annotations = &mut entry["annotations"];
        if annotations.get("title").is_none() {
            annotations["title"] = title;
        }
    }
    entry
}

/// OUT: a schema of any value becomes the schema of an object with that value.
fn any_root(schema: &mut Value) {
    if schema["type"] != "object" {
        let mut inner = schema.take();
        if let Some(reference) = inner.pointer_mut("/items/$ref") {
            *reference = "#/properties/result/$defs/n".into();
        }
        *schema = json!({ "type": "object", "properties": { "result": inner }, "required": ["result"] });
    }
}

/// SCH: a schema that is no object.
fn boolean(schema: &mut Value) {
    match schema {
        Value::Bool(true) => *schema = json!({}),
        Value::Bool(false) => *schema = json!({ "not": {} }),
        _ => {}
    }
}

/// The gateway reads all pages itself, so the client's cursors are invalid. An empty one is none: some clients begin with it.
async fn cursors(player: &mut Player) {
    player.begin("cursors");
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let whole = player.ask(method, Value::Null).await;
        let mut first = player.ask(method, json!({ "cursor": "" })).await;
        first["id"] = whole["id"].clone();
        assert_eq!(first, whole, "{player:?}");
        for cursor in ["2", "gwc1.AAAA"] {
            let refused = player.ask(method, json!({ "cursor": cursor })).await;
            assert_eq!(refused["error"]["code"], -32602, "{player:?}: {refused}");
        }
    }
}
