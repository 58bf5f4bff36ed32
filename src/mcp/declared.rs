//! Capabilities that a client must declare to receive a server request.

use super::{ClientInfo, ErrorObject, LackingFeature, Method, Payload, Untranslatable, json::Object};

/// The feature that `client` needs for this request and did not declare; `None` if it may get the request.
pub(crate) fn missing(client: &ClientInfo, method: &Method, params: &Payload) -> Option<LackingFeature> {
    let able = |name| client.capabilities.has(name);
    match method {
        Method::CreateMessage if !able("sampling") => Some(LackingFeature::Sampling),
        Method::Elicit if !able("elicitation") => Some(LackingFeature::Elicitation),
        Method::Elicit => missing_mode(client, params),
        Method::RootsList if !able("roots") => Some(LackingFeature::Roots),
        // tasks of 2025-11-25 that the client runs
        method if method.is_of_core_tasks() && !able("tasks") => Some(LackingFeature::Tasks),
        _ => None,
    }
}

/// The same for a server that knows what the client declared (2026-07-28): tools in sampling must be declared too.
pub(crate) fn missing_strictly(client: &ClientInfo, method: &Method, params: &Payload) -> Option<LackingFeature> {
    missing(client, method, params).or_else(|| {
        let brings = |key| params.member(key).is_some();
        let needs = *method == Method::CreateMessage && (brings("tools") || brings("toolChoice"));
        (needs && !declares(client, "sampling", "tools")).then_some(LackingFeature::SamplingTools)
    })
}

/// Checks that `client` declared that it can answer this request. Reports it if not.
///
/// # Errors
///
/// The error for the server (`translation` 4.6): `-32602`, and `-32601` for roots and tasks that were not declared.
pub(crate) fn can_be_asked(client: &ClientInfo, method: &Method, params: &Payload) -> Result<(), ErrorObject> {
    let Some(feature) = missing(client, method, params) else { return Ok(()) };
    let refusal = Untranslatable::undeclared(feature, params, client);
    refusal.report();
    Err(match refusal.feature {
        LackingFeature::Tasks => ErrorObject::method_not_found(method.as_str()),
        _ => refusal.error(),
    })
}

/// A client that declares no mode of elicitation supports only `form` (2025-11-25, elicitation), like all earlier
/// clients.
fn missing_mode(client: &ClientInfo, params: &Payload) -> Option<LackingFeature> {
    let has = |mode| declares(client, "elicitation", mode);
    match params.string("mode").as_deref() {
        Some("url") => (!has("url")).then_some(LackingFeature::ElicitationByUrl),
        _ => (!has("form") && has("url")).then_some(LackingFeature::ElicitationByForm),
    }
}

/// True if `client` declares this part of a capability.
pub(crate) fn declares(client: &ClientInfo, capability: &str, part: &str) -> bool {
    let all = Object::parse(client.capabilities.json());
    let parts = all.and_then(|all| Object::parse(all.get(capability)?.as_bytes()));
    parts.is_some_and(|parts| parts.get(part).is_some())
}
