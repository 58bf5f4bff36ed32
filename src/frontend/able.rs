//! What a client can be asked, by what it said of itself. Knows nothing of streams and sessions.

use crate::mcp::{ClientInfo, ErrorObject, Method, Payload, json::Object};

/// Whether `client` has said that it can answer such a question.
///
/// # Errors
///
/// The error for the server (`translation` 4.6): `-32602`, and `-32601` for roots and tasks that were not declared.
pub(crate) fn can_be_asked(client: &ClientInfo, method: &Method, params: &Payload) -> Result<(), ErrorObject> {
    let able = |name| client.capabilities.has(name);
    let refusal = |name: &str| Err(ErrorObject::invalid_params(&format!("the client did not declare `{name}`")));
    match method {
        Method::CreateMessage if !able("sampling") => refusal("sampling"),
        Method::Elicit if !able("elicitation") => refusal("elicitation"),
        Method::Elicit if !has_mode(client, params) => refusal("elicitation in this mode"),
        Method::RootsList if !able("roots") => Err(ErrorObject::roots_not_supported()),
        // 2025-11-25 tasks: those that the client itself executes
        method if method.is_of_core_tasks() && !able("tasks") => Err(ErrorObject::method_not_found(method.as_str())),
        _ => Ok(()),
    }
}

/// 2025-11-25 elicitation: a client that names no mode has `form` alone, as has every client before.
fn has_mode(client: &ClientInfo, params: &Payload) -> bool {
    let modes =
        Object::parse(client.capabilities.json()).and_then(|all| Object::parse(all.get("elicitation")?.as_bytes()));
    let has = |mode| modes.as_ref().is_some_and(|modes| modes.get(mode).is_some());
    match params.string("mode").as_deref() {
        Some("url") => has("url"),
        _ => has("form") || !has("url"),
    }
}
