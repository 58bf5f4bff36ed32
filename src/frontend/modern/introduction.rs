//! `server/discover` as clients of 2026-07-28 are answered. Knows nothing of how it is asked for.

use crate::mcp::{Call, Context, Method, Outcome, Payload, Reply, Revision, Server, json::draft::Draft, meta};

/// What the server says of itself, with the versions that are spoken in this way: those with a handshake are asked for in
/// another.
pub(super) fn discovered(server: &dyn Server, context: Context) -> Reply {
    let params = Payload::absent(Revision::V2026_07_28);
    let reply = server.call(Call { method: Method::Discover, params, context });
    Reply::later(async move {
        Reply::done(match reply.outcome().await {
            Outcome::Complete(result) => Outcome::Complete(introduction(&result)),
            other => other,
        })
    })
}

/// The result of `server/discover` as clients of this version get it: everything that the server says of itself, but that
/// tasks of tools are an extension in this version (`translation` 3.5).
fn introduction(result: &Payload) -> Payload {
    let text = String::from_utf8_lossy(result.json()).into_owned();
    let mut draft = Draft::of(&text);
    draft.set("resultType", "\"complete\"");
    draft.set("supportedVersions", format!("[\"{}\"]", Revision::V2026_07_28));
    draft.set("ttlMs", "0");
    draft.set("cacheScope", "\"private\"");
    for capabilities in draft.each("capabilities") {
        let mut tools = capabilities.get("tasks");
        for part in ["requests", "tools", "call"] {
            tools = tools.and_then(|tasks| tasks.get(part));
        }
        let has_tasks = tools.is_some();
        capabilities.remove("tasks");
        if has_tasks {
            if capabilities.get("extensions").is_none_or(|extensions| !extensions.is_object()) {
                capabilities.set("extensions", "{}");
            }
            capabilities.each("extensions").for_each(|extensions| extensions.set(meta::TASKS_EXTENSION, "{}"));
        }
    }
    let json = draft.text();
    Payload::new(Revision::V2026_07_28, json.into())
}
