//! The answer to `server/discover` for clients without sessions.

use crate::mcp::{Call, Context, Method, Outcome, Payload, Reply, Revision, Server, extensions, json::draft::Draft};

/// Answers `server/discover` with the server information, and with the versions that need no session. The others are
/// negotiated in a handshake.
pub(super) fn discover(server: &dyn Server, context: Context) -> Reply {
    let params = Payload::absent(Revision::NEWEST);
    let reply = server.call(Call { method: Method::Discover, params, context });
    Reply::later(async move {
        Reply::done(match reply.outcome().await {
            Outcome::Complete(result) => Outcome::Complete(translated(&result)),
            other => other,
        })
    })
}

/// The result of `server/discover`, with the extensions of this version (`translation` 3.5).
fn translated(result: &Payload) -> Payload {
    let text = String::from_utf8_lossy(result.json()).into_owned();
    let mut draft = Draft::of(&text);
    draft.set("resultType", "\"complete\"");
    let versions = Revision::MODERN.map(|revision| format!("\"{revision}\""));
    draft.set("supportedVersions", format!("[{}]", versions.join(",")));
    draft.set("ttlMs", "0");
    draft.set("cacheScope", "\"private\"");
    if let Some(capabilities) = draft.edit("capabilities") {
        extensions::for_request(capabilities);
    }
    let json = draft.text();
    Payload::new(Revision::NEWEST, json.into())
}
