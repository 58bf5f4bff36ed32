//! The outcome of a call for which a user must visit a page first, in a form that the client understands (`UP-7`).

use serde_json::json;

use crate::{
    mcp::{ClientInfo, ErrorObject, Feature, Method, Outcome, Revision, translate::tool_error},
    model::AccessPage,
    support::Digest,
};

/// Error code: the user must visit a page first (2025-11-25, elicitation, *URL Elicitation Required Error*).
const URL_ELICITATION_REQUIRED: i64 = -32042;

/// The outcome; `None` if the method has no form for it. A client that opens pages gets a URL elicitation, which
/// becomes an `InputRequiredResult` in 2026-07-28 (`translation` E42). Other clients get the address as text.
pub(super) fn outcome(method: &Method, client: &ClientInfo, page: &AccessPage) -> Option<Outcome> {
    if !method.may_require_input() {
        return None;
    }
    let AccessPage { url, message } = page;
    if client.revision.has(Feature::UrlElicitation) && client.capabilities.is_elicited_by_url() {
        let id = Digest::sha256(url).short_hex(16);
        let elicitation = json!({ "mode": "url", "elicitationId": id, "url": url, "message": message });
        let data = json!({ "elicitations": [elicitation] });
        let error = ErrorObject::with_data(URL_ELICITATION_REQUIRED, message, &data);
        return Some(Outcome::Failed(error.written_in(Revision::NEWEST_LEGACY)));
    }
    let text = format!("{message}\nOpen {url} in a browser, and then call again.");
    Some(match method {
        Method::ToolsCall => Outcome::Complete(tool_error(client.revision, &text)),
        _ => Outcome::Failed(ErrorObject::internal(&text)),
    })
}
