//! Capabilities that a client must declare to be sent a request. Knows nothing of streams and sessions.

use super::{ClientInfo, ErrorObject, Method, Payload, json::Object};

/// A capability that a client did not declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MissingCapability {
    /// Its name: `sampling`, `elicitation`, `roots`, `tasks`.
    pub(crate) capability: &'static str,
    /// The part of it, if the client declared another part.
    pub(crate) part: Option<&'static str>,
}

/// The capability that `client` would need for this request; `None` if it declared what is needed.
pub(crate) fn missing(client: &ClientInfo, method: &Method, params: &Payload) -> Option<MissingCapability> {
    let able = |name| client.capabilities.has(name);
    let whole = |capability| Some(MissingCapability { capability, part: None });
    match method {
        Method::CreateMessage if !able("sampling") => whole("sampling"),
        Method::Elicit if !able("elicitation") => whole("elicitation"),
        Method::Elicit => {
            let mode = missing_mode(client, params)?;
            Some(MissingCapability { capability: "elicitation", part: Some(mode) })
        }
        Method::RootsList if !able("roots") => whole("roots"),
        // 2025-11-25 tasks: those that the client itself executes
        method if method.is_of_core_tasks() && !able("tasks") => whole("tasks"),
        _ => None,
    }
}

/// The same toward a server that had to know what the client declared (2026-07-28): tools in sampling are declared too.
pub(crate) fn missing_strictly(client: &ClientInfo, method: &Method, params: &Payload) -> Option<MissingCapability> {
    missing(client, method, params).or_else(|| {
        let brings = |key| params.member(key).is_some();
        let needs = *method == Method::CreateMessage && (brings("tools") || brings("toolChoice"));
        (needs && !declares(client, "sampling", "tools"))
            .then_some(MissingCapability { capability: "sampling", part: Some("tools") })
    })
}

/// Checks that `client` declared that it can answer this request.
///
/// # Errors
///
/// The error for the server (`translation` 4.6): `-32602`, and `-32601` for roots and tasks that were not declared.
pub(crate) fn can_be_asked(client: &ClientInfo, method: &Method, params: &Payload) -> Result<(), ErrorObject> {
    let refusal = |name: &str| ErrorObject::invalid_params(&format!("the client did not declare `{name}`"));
    Err(match missing(client, method, params) {
        None => return Ok(()),
        Some(MissingCapability { capability: "roots", .. }) => ErrorObject::roots_not_supported(),
        Some(MissingCapability { capability: "tasks", .. }) => ErrorObject::method_not_found(method.as_str()),
        Some(MissingCapability { part: Some(_), .. }) => refusal("elicitation in this mode"),
        Some(MissingCapability { capability, part: None }) => refusal(capability),
    })
}

/// 2025-11-25 elicitation: a client that declares no mode supports only `form`, as all earlier clients do.
fn missing_mode(client: &ClientInfo, params: &Payload) -> Option<&'static str> {
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
