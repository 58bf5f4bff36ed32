//! Content of the demonstration backend: lists, resources and prompts.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    counter, duplex,
    results::{IMPLEMENTATION, LONGEST, REVISION, read_only},
};
use crate::mcp::{ErrorObject, Payload, meta};

/// The resource that never changes.
const WELCOME: &str = "demo://welcome";
/// Prefix of the URIs that the template makes.
const GREETING: &str = "demo://greeting/";
const WELCOME_TEXT: &str = "# Welcome to Lockkeeper\n\n\
    This server is built in, so that there is something to try before anything is configured.\n\n\
    - Call the tool `echo`, `add`, `time_now` or `countdown`.\n\
    - See what a server can ask of its client: `survey`, `haiku`, `list_roots`.\n\
    - See log messages come: `log`.\n\
    - Subscribe to `demo://counter`, and move it with `count_up`.\n\
    - Read `demo://greeting/` followed by your name.\n\
    - Use the prompt `introduce`.\n\n\
    Then put your own servers into `lockkeeper.toml`: a `command`, or a `url`, under `[servers.<name>]`.\n";

/// The answer to `server/discover`.
pub(super) fn discover() -> Value {
    json!({
        "supportedVersions": [REVISION.as_str()],
        "capabilities": {
            "tools": {}, "resources": { "subscribe": true }, "prompts": {}, "logging": {}, "completions": {},
        },
        "instructions": "A demonstration: try the tool `add`, or `countdown` to see progress and cancellation.",
        "_meta": { meta::SERVER_INFO: serde_json::from_str::<Value>(IMPLEMENTATION).unwrap_or_default() },
    })
}

/// The answer to `tools/list`.
pub(super) fn tools() -> Value {
    let (Value::Array(mut tools), Value::Array(more)) = (plain_tools(), duplex::tools()) else { return json!({}) };
    tools.extend(more);
    json!({ "tools": tools })
}

fn plain_tools() -> Value {
    json!([
        {
            "name": "echo", "title": "Echo",
            "description": "Returns the message unchanged. Use it to check that calls get through.",
            "inputSchema": {
                "type": "object", "required": ["message"],
                "properties": { "message": { "type": "string", "description": "What to give back" } },
            },
            "annotations": read_only("Echo"),
        },
        {
            "name": "add", "title": "Add two numbers",
            "description": "Adds two numbers. The sum comes as text, and as structured content that follows the schema.",
            "inputSchema": {
                "type": "object", "required": ["a", "b"],
                "properties": {
                    "a": { "type": "number", "description": "The first number" },
                    "b": { "type": "number", "description": "The second number" },
                },
            },
            "outputSchema": {
                "type": "object", "required": ["sum"],
                "properties": { "sum": { "type": "number", "description": "a + b" } },
            },
            "annotations": read_only("Add two numbers"),
        },
        {
            "name": "time_now", "title": "What time is it?",
            "description": "Returns the gateway's time in UTC, such as 2026-01-31T12:00:00Z.",
            "inputSchema": { "type": "object", "properties": {} },
            "annotations": read_only("What time is it?"),
        },
        {
            "name": "countdown", "title": "Count down",
            "description": "Counts down one number a second and reports progress at each. It can be cancelled at any time.",
            "inputSchema": {
                "type": "object", "required": ["from"],
                "properties": { "from": {
                    "type": "integer", "minimum": 1, "maximum": LONGEST, "description": "Where to begin, in seconds",
                } },
            },
            "annotations": read_only("Count down"),
        },
    ])
}

/// The answer to `resources/list`.
pub(super) fn resources() -> Value {
    json!({ "resources": [{
        "uri": WELCOME, "name": "welcome", "title": "Welcome", "mimeType": "text/markdown",
        "description": "What this server is, and what to try first.",
    }, {
        "uri": counter::URI, "name": "counter", "title": "A counter", "mimeType": "text/plain",
        "description": "It moves when `count_up` is called, and by itself while somebody is subscribed to it.",
    }] })
}

/// The answer to `resources/templates/list`.
pub(super) fn resource_templates() -> Value {
    json!({ "resourceTemplates": [{
        "uriTemplate": format!("{GREETING}{{name}}"), "name": "greeting", "title": "A greeting", "mimeType": "text/plain",
        "description": "A greeting for the name at the end of the URI.",
    }] })
}

/// The answer to `resources/read`.
pub(super) fn read(uri: &str, counter: u64) -> Result<Value, ErrorObject> {
    let contents = |kind: &str, text: &str| json!({ "contents": [{ "uri": uri, "mimeType": kind, "text": text }] });
    let greeted = uri.strip_prefix(GREETING).filter(|name| !name.is_empty() && !name.contains('/'));
    match (uri, greeted) {
        (counter::URI, _) => Ok(contents("text/plain", &counter.to_string())),
        (WELCOME, _) => Ok(contents("text/markdown", WELCOME_TEXT)),
        (_, Some(name)) => {
            let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
            Ok(contents("text/plain", &format!("Hello, {name}! The gate is open.")))
        }
        _ => Err(ErrorObject::with_data(ErrorObject::RESOURCE_NOT_FOUND, "Resource not found", &json!({ "uri": uri }))
            .written_in(REVISION)),
    }
}

/// The answer to `prompts/list`.
pub(super) fn prompts() -> Value {
    json!({ "prompts": [{
        "name": "introduce", "title": "Introduce yourself",
        "description": "Asks the model to introduce itself and to try the tools of this server.",
        "arguments": [{ "name": "name", "description": "Whom to introduce it to", "required": false }],
    }] })
}

/// The answer to `prompts/get`.
pub(super) fn prompt(params: &Payload) -> Result<Value, ErrorObject> {
    #[derive(Deserialize)]
    struct Get {
        name: String,
        #[serde(default)]
        arguments: Value,
    }
    let get: Get = params.view().ok_or_else(|| ErrorObject::invalid_params("`name` is missing"))?;
    if get.name != "introduce" {
        return Err(ErrorObject::invalid_params(&format!("Unknown prompt: {}", get.name)));
    }
    let to = get.arguments["name"].as_str().unwrap_or("me");
    let text = format!(
        "Introduce yourself to {to} in two sentences. Then add 2 and 40 with the tool `add`, and tell the sum."
    );
    Ok(json!({
        "description": "An introduction",
        "messages": [{ "role": "user", "content": { "type": "text", "text": text } }],
    }))
}
