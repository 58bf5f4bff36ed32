//! Scripted servers of one era or another, by the name of what they do. The tool `x` of each says that name.

use lockkeeper::{
    mcp::Revision,
    model::{BackendSpec, EraChoice},
};
use serde_json::{Value, json};

use super::scripted_servers::Scripts;
use crate::kit::{
    carriers::Actor,
    scripted::{Script, ScriptedServer},
};

/// A backend whose era has to be detected.
pub(super) fn spec(scripts: &Scripts, mode: &str) -> BackendSpec {
    changing(scripts, server(mode))
}

/// The same with a server that may be another one at each start.
pub(super) fn changing(scripts: &Scripts, server: impl Actor) -> BackendSpec {
    let spec = scripts.serve("era", server);
    // on a slow machine, an answering server must not count as silent
    BackendSpec { era: EraChoice::Auto, probe_timeout: spec.start_timeout, ..spec }
}

pub(crate) fn server(mode: &str) -> ScriptedServer {
    let script = Script::named("scripted").any_tool(json!([["text", mode]]));
    let legacy = |steps: Value| {
        ScriptedServer::scripted(Revision::NEWEST_LEGACY, script.clone().on("server/discover", json!([steps])))
    };
    let unsupported = |versions: &str| {
        let supported: Vec<&str> = versions.split(',').collect();
        let data = json!({ "supported": supported, "requested": "x" });
        json!(["give", { "error": { "code": -32022, "message": "Unsupported protocol version", "data": data } }])
    };
    match mode {
        "dual" => ScriptedServer::of_both_eras(&script),
        "older" => legacy(discovered("2025-06-18")),
        // what servers of both eras say once they have a session
        "both" => legacy(discovered("2026-07-28")),
        "locked" => legacy(
            json!(["give", { "error": { "code": -32600, "message": "the 2026-07-28 envelope is not accepted here" } }]),
        ),
        "newer" => legacy(discovered("2099-01-01")),
        "exit" => legacy(json!(["die"])),
        "silent" => legacy(json!(["hold"])),
        "refuses" => refusing(&script, &json!(["give", { "error": { "code": -32603, "message": "no key" } }])),
        "modern" | "only" => modern(script.usual("initialize")),
        "only=exit" => modern(script.on("initialize", json!([["die"]]))),
        "only=silent" => modern(script.on("initialize", json!([["hold"]]))),
        _ => {
            if let Some(code) = mode.strip_prefix("only") {
                return modern(script.on("initialize", json!([error(code)])));
            }
            if let Some(code) = mode.strip_prefix("code") {
                return legacy(error(code));
            }
            if let Some(versions) = mode.strip_prefix("supports=") {
                return legacy(unsupported(versions));
            }
            refusing(&script, &unsupported(mode.strip_prefix("says=").unwrap()))
        }
    }
}

/// A server without sessions. It says something about a call that was given up, and then answers another.
fn modern(script: Script) -> ScriptedServer {
    let other = json!({ "level": "warning", "data": "of the other" });
    let script = script.hidden("given up", json!([["hold"]])).hidden(
        "held",
        json!([["hear", "notifications/cancelled"], ["tell", "notifications/message", other], ["text", "mine"]]),
    );
    ScriptedServer::scripted(Revision::V2026_07_28, script)
}

/// A server that answers the handshake so.
fn refusing(script: &Script, step: &Value) -> ScriptedServer {
    ScriptedServer::scripted(Revision::NEWEST_LEGACY, script.clone().on("initialize", json!([step])))
}

/// The step of a server with this version.
fn discovered(version: &str) -> Value {
    json!(["give", { "result": {
        "resultType": "complete", "supportedVersions": [version], "capabilities": { "tools": {} },
        "ttlMs": 0, "cacheScope": "private",
        "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "scripted", "version": "9" } },
    } }])
}

fn error(code: &str) -> Value {
    json!(["give", { "error": { "code": code.parse::<i64>().unwrap(), "message": "no" } }])
}
