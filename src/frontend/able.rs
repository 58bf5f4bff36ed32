//! What a client can be asked, by what it said of itself. Knows nothing of streams and sessions.

use crate::mcp::{ClientInfo, ErrorObject, Method, Payload, json::Object};

/// What a client would have to declare to be asked something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lack {
    /// The capability: `sampling`, `elicitation`, `roots`, `tasks`.
    pub(crate) capability: &'static str,
    /// The part of it, where it has declared another.
    pub(crate) part: Option<&'static str>,
}

/// What `client` lacks to be asked such a question; `None` where it has said that it can answer.
pub(crate) fn lack(client: &ClientInfo, method: &Method, params: &Payload) -> Option<Lack> {
    let able = |name| client.capabilities.has(name);
    let whole = |capability| Some(Lack { capability, part: None });
    match method {
        Method::CreateMessage if !able("sampling") => whole("sampling"),
        Method::Elicit if !able("elicitation") => whole("elicitation"),
        Method::Elicit => lacking_mode(client, params).map(|mode| Lack { capability: "elicitation", part: Some(mode) }),
        Method::RootsList if !able("roots") => whole("roots"),
        // 2025-11-25 tasks: those that the client itself executes
        method if method.is_of_core_tasks() && !able("tasks") => whole("tasks"),
        _ => None,
    }
}

/// The same for a server that had to know what the client declared (2026-07-28): tools in sampling are declared too.
pub(crate) fn strict_lack(client: &ClientInfo, method: &Method, params: &Payload) -> Option<Lack> {
    lack(client, method, params).or_else(|| {
        let brings = |key| params.object().is_some_and(|params| params.get(key).is_some());
        let needs = *method == Method::CreateMessage && (brings("tools") || brings("toolChoice"));
        (needs && !declares(client, "sampling", "tools"))
            .then_some(Lack { capability: "sampling", part: Some("tools") })
    })
}

/// Whether `client` has said that it can answer such a question.
///
/// # Errors
///
/// The error for the server (`translation` 4.6): `-32602`, and `-32601` for roots and tasks that were not declared.
pub(crate) fn can_be_asked(client: &ClientInfo, method: &Method, params: &Payload) -> Result<(), ErrorObject> {
    let refusal = |name: &str| ErrorObject::invalid_params(&format!("the client did not declare `{name}`"));
    Err(match lack(client, method, params) {
        None => return Ok(()),
        Some(Lack { capability: "roots", .. }) => ErrorObject::roots_not_supported(),
        Some(Lack { capability: "tasks", .. }) => ErrorObject::method_not_found(method.as_str()),
        Some(Lack { part: Some(_), .. }) => refusal("elicitation in this mode"),
        Some(Lack { capability, part: None }) => refusal(capability),
    })
}

/// 2025-11-25 elicitation: a client that names no mode has `form` alone, as has every client before.
fn lacking_mode(client: &ClientInfo, params: &Payload) -> Option<&'static str> {
    let has = |mode| declares(client, "elicitation", mode);
    match params.string("mode").as_deref() {
        Some("url") => (!has("url")).then_some("url"),
        _ => (!has("form") && has("url")).then_some("form"),
    }
}

fn declares(client: &ClientInfo, capability: &str, part: &str) -> bool {
    let all = Object::parse(client.capabilities.json());
    let parts = all.and_then(|all| Object::parse(all.get(capability)?.as_bytes()));
    parts.is_some_and(|parts| parts.get(part).is_some())
}
