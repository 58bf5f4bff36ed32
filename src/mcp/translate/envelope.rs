//! The envelope that 2026-07-28 adds to each message: the client's description of itself in requests; the result type,
//! cache hints and the server's name in results. The gateway adds and removes all of it here.

use bytes::Bytes;

use super::{
    super::{
        ClientInfo, LackingFeature, Method, Payload, Revision,
        json::{draft::Draft, quote},
        meta::{
            self, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, RELATED_TASK, SUBSCRIPTION_ID,
            TASKS_EXTENSION,
        },
        methods::{ResultShape, TASK_IDS},
    },
    facts::Kind,
    refusal::{Cause, Untranslatable},
    translation::{Translation, consume_meta},
};

/// The kind of a result, from its member `resultType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultType {
    Complete,
    Task,
}

/// Removes the envelope of a request. Also removes answers to server requests of 2026-07-28 from any request that the
/// protocol defines: a legacy server gets each answer as a separate message. In an unknown method these members may
/// mean something else, so they stay.
pub(super) fn open_request(request: &mut Draft<'_>, method: &Method) {
    consume_meta(request, &[PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL]);
    if !matches!(method, Method::Other(_)) {
        request.remove_all(&["inputResponses", "requestState"]);
    }
}

/// Removes the tag that names the stream of a notification.
pub(super) fn open_notification(notification: &mut Draft<'_>) {
    consume_meta(notification, &[SUBSCRIPTION_ID]);
}

/// Adds the envelope to a request, with all that is known about the client.
pub(super) fn seal_request(request: &mut Draft<'_>, translation: &Translation<'_>) {
    consume_meta(request, &[RELATED_TASK]);
    // the extension, *Error Handling*: a client that does not declare it may not ask about its tasks either
    let asks_for_task = match translation.facts.method {
        Method::ToolsCall => request.remove("task"),
        Method::Listen => request.get("notifications").is_some_and(|filter| filter.has(TASK_IDS)),
        method => method.is_of_tasks_extension(),
    };
    let Some(client) = translation.facts.client else { return };
    if asks_for_task {
        write_envelope(request, translation.to, client, &with_tasks(client.capabilities.mirrored()));
    } else {
        write_envelope(request, translation.to, client, &String::from_utf8_lossy(client.capabilities.mirrored()));
    }
}

/// The parameters of a 2026-07-28 request in their envelope. The description of `client` is written if the version is
/// missing, as in requests that the gateway makes itself. If the parameters have an envelope, the buffer stays the
/// same.
#[must_use]
pub fn with_envelope(params: Payload, client: &ClientInfo) -> Payload {
    if meta::has_envelope(params.indexed()) {
        return params;
    }
    let Ok(text) = std::str::from_utf8(params.json()) else { return params };
    let mut request = Draft::of(if text.is_empty() { "{}" } else { text });
    write_envelope(&mut request, params.revision, client, &String::from_utf8_lossy(client.capabilities.mirrored()));
    params.rewritten(request.text().into())
}

/// Writes `revision` and the description of `client` into `_meta`.
fn write_envelope(request: &mut Draft<'_>, revision: Revision, client: &ClientInfo, capabilities: &str) {
    let implementation = String::from_utf8_lossy(&client.implementation);
    let version = quote(revision.as_str());
    let members =
        [(PROTOCOL_VERSION, version.as_str()), (CLIENT_INFO, &implementation), (CLIENT_CAPABILITIES, capabilities)];
    write_meta(request, &members);
}

/// Sets these members in `_meta`.
fn write_meta(draft: &mut Draft<'_>, members: &[(&str, &str)]) {
    match draft.edit(meta::META) {
        Some(meta) if meta.is_object() => members.iter().for_each(|(key, value)| meta.set(key, *value)),
        Some(meta) => meta.replace(object(members)),
        None => draft.add(meta::META, object(members)),
    }
}

/// The JSON object with these members. Their names need no escapes.
fn object(members: &[(&str, &str)]) -> String {
    let mut text =
        String::with_capacity(members.iter().map(|(key, value)| key.len() + value.len() + 4).sum::<usize>() + 1);
    for (key, value) in members {
        text.extend([if text.is_empty() { "{\"" } else { ",\"" }, key, "\":", value]);
    }
    text.push('}');
    text
}

/// The same capabilities, and the tasks extension.
fn with_tasks(capabilities: &Bytes) -> String {
    let text = String::from_utf8_lossy(capabilities);
    let mut capabilities = Draft::of(&text);
    if let Some(extensions) = capabilities.edit_object("extensions") {
        extensions.set(TASKS_EXTENSION, "{}");
    }
    capabilities.text()
}

/// Removes the envelope of a result, and returns its kind. A legacy server's stray type is ignored.
pub(super) fn open_result(result: &mut Draft<'_>, translation: &Translation<'_>) -> Result<ResultType, Untranslatable> {
    let kind = match result.get("resultType") {
        None => ResultType::Complete,
        Some(kind) if kind.is("complete") || translation.from < Revision::V2026_07_28 => ResultType::Complete,
        Some(kind) if kind.is("task") => ResultType::Task,
        // the side that keeps the state handles server requests; other kinds belong to extensions that were not
        // declared
        Some(_) => return Err(translation.refuse(LackingFeature::ResultType, Cause::Result)),
    };
    result.remove("resultType");
    // a stray hint of a legacy server stays if the member may mean something else
    if translation.facts.method.is_cacheable() {
        result.remove("ttlMs");
        result.remove("cacheScope");
    }
    consume_meta(result, &[meta::SERVER_INFO, SUBSCRIPTION_ID]);
    Ok(kind)
}

/// Adds the envelope to a result.
pub(super) fn seal_result(result: &mut Draft<'_>, kind: ResultType, translation: &Translation<'_>) {
    consume_meta(result, &[RELATED_TASK]);
    result.set("resultType", if kind == ResultType::Task { "\"task\"" } else { "\"complete\"" });
    if translation.facts.method.is_cacheable() {
        result.set("ttlMs", "0");
        result.set("cacheScope", "\"private\"");
    }
    let Some(server) = translation.server else { return };
    write_meta(result, &[(meta::SERVER_INFO, server)]);
}

/// Adds the rest of a legacy result: the result of the handshake has the receiver's version, and an empty result stays
/// empty, because deployed clients and servers refuse any member in it.
pub(super) fn settle_legacy_result(result: &mut Draft<'_>, translation: &Translation<'_>) {
    if translation.facts.kind != Kind::Result || translation.to > Revision::NEWEST_LEGACY {
        return;
    }
    match translation.facts.method {
        Method::Initialize => result.set("protocolVersion", format!("\"{}\"", translation.to)),
        method if method.result() == ResultShape::Empty => result.retain_members(|_, _| false),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn enveloped(params: &'static str) -> String {
        let params = Payload::new(Revision::V2026_07_28, Bytes::from_static(params.as_bytes()));
        let capabilities = Bytes::from_static(br#"{"roots":{"listChanged":true},"tasks":{}}"#);
        let client = ClientInfo {
            implementation: Bytes::from_static(br#"{"name":"c","version":"1"}"#),
            capabilities: crate::mcp::Capabilities::new(capabilities),
            ..ClientInfo::gateway()
        };
        String::from_utf8_lossy(with_envelope(params, &client).json()).into_owned()
    }

    #[test]
    fn a_request_without_an_envelope_gets_one() {
        assert_snapshot!(enveloped(""), @r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}}"#);
        assert_snapshot!(enveloped(r#"{"cursor": "x","_meta":{"v/x":1.0}}"#), @r#"{"cursor": "x","_meta":{"v/x":1.0,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}}"#);
    }

    #[test]
    fn an_envelope_that_is_there_stays_as_it_was_written() {
        let given = r#"{ "_meta": {"io.modelcontextprotocol/protocolVersion" : "2026-07-28" } }"#;
        assert_eq!(enveloped(given), given);
    }
}
