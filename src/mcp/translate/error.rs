//! Error codes with a meaning in one revision only. Some errors become results: a model can act on a tool error.

use serde_json::Value;

use super::{
    super::{
        ErrorObject, Method, Outcome, Payload, Revision,
        json::{self, draft::Draft},
    },
    facts::{Facts, Kind},
    refusal,
};

// === impl ErrorObject ===

impl ErrorObject {
    /// The error of a server for a client of `target`: an error, or a result where that ends the call better. Errors of
    /// the gateway, and client errors that answer a server request, pass unchanged. Equal revisions, and codes with the
    /// same meaning, return the same buffer.
    pub fn into_revision(self, target: Revision, facts: &Facts<'_>) -> Outcome {
        let Some(from) = self.revision().filter(|from| *from != target && facts.kind == Kind::Result) else {
            return Outcome::Failed(self);
        };
        let (of_modern, modern) = (from > Revision::NEWEST_LEGACY, target > Revision::NEWEST_LEGACY);
        match self.code() {
            Self::RESOURCE_NOT_FOUND if modern => match facts.uri {
                // 2026-07-28 marks it among invalid parameters only by the URI
                Some(uri) => self.with_datum("uri", &json::quote(uri)).recoded(Self::INVALID_PARAMS),
                None => self.recoded(Self::INVALID_PARAMS),
            },
            Self::INVALID_PARAMS if of_modern && self.is_resource_not_found(facts) => {
                self.recoded(Self::RESOURCE_NOT_FOUND)
            }
            Self::URL_ELICITATION_REQUIRED if !of_modern && target != Revision::V2025_11_25 => {
                self.url_required(target, facts)
            }
            Self::MISSING_CAPABILITY if of_modern && *facts.method == Method::ToolsCall => {
                Outcome::Complete(refusal::tool_error(target, &self.message()))
            }
            // in one era these codes pass between neighbours; in the other they have no meaning, or any
            Self::HEADER_MISMATCH | Self::UNSUPPORTED_VERSION | Self::MISSING_CAPABILITY if of_modern != modern => {
                Outcome::Failed(self.hidden())
            }
            -32019..=-32000 if modern => Outcome::Failed(self.hidden()),
            _ => Outcome::Failed(self),
        }
    }

    /// The same object with another code.
    fn recoded(self, code: i64) -> Outcome {
        let json = json::with_member(self.json(), "code", &code.to_string());
        Outcome::Failed(self.edited(json))
    }

    /// `-32603` with the same message and data, and the original code: an error between gateway and server.
    #[must_use]
    pub fn hidden(self) -> Self {
        let code = self.code();
        let text = String::from_utf8_lossy(self.json()).into_owned();
        let mut error = Draft::of(&text);
        error.set("code", Self::INTERNAL_ERROR.to_string());
        match error.edit("data") {
            Some(data) if data.is_object() => data.set("upstreamCode", code.to_string()),
            Some(data) => data.replace(format!("{{\"upstreamCode\":{code},\"upstreamData\":{}}}", data.text())),
            None => error.add("data", format!("{{\"upstreamCode\":{code}}}")),
        }
        let edited = error.text();
        self.edited(edited.into())
    }

    /// True for the code of an unknown resource. 2026-07-28 has none of its own, so the URI of the error must be the
    /// requested one.
    fn is_resource_not_found(&self, facts: &Facts<'_>) -> bool {
        let data = self.data();
        *facts.method == Method::ResourcesRead && facts.uri.is_some() && data["uri"].as_str() == facts.uri
    }

    fn url_required(self, target: Revision, facts: &Facts<'_>) -> Outcome {
        let modern = target > Revision::NEWEST_LEGACY;
        let mut data = self.data();
        let elicitations = data["elicitations"].take();
        let pages = elicitations.as_array().map_or(&[][..], Vec::as_slice);
        let asked = facts.client_has("elicitation", "url") && !pages.is_empty();
        // 2026-07-28, MRTR: only these three results may have server requests
        let asks = facts.method.may_require_input();
        if modern && asked && asks {
            return Outcome::InputRequired(ask(pages));
        }
        if modern && !asked {
            let required = serde_json::json!({ "requiredCapabilities": { "elicitation": { "url": {} } } });
            return Outcome::Failed(Self::with_data(Self::MISSING_CAPABILITY, &self.message(), &required));
        }
        if *facts.method != Method::ToolsCall {
            return self.recoded(Self::INTERNAL_ERROR);
        }
        let lines = pages.iter().map(|page| {
            let message = page["message"].as_str().unwrap_or("A page must be visited first.");
            format!("{message}\nOpen {} and then call the tool again.", page["url"].as_str().unwrap_or_default())
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        let text = if text.is_empty() { self.message() } else { text };
        Outcome::Complete(refusal::tool_error(target, &text))
    }

    /// The data; `null` if absent or unreadable.
    fn data(&self) -> Value {
        serde_json::from_slice::<Value>(self.json()).map(|mut error| error["data"].take()).unwrap_or_default()
    }
}

/// The elicitations of a `-32042` as requests of 2026-07-28. There is no state: the client simply repeats the call.
fn ask(pages: &[Value]) -> Payload {
    let question = |page: &Value| {
        serde_json::json!({
            "method": "elicitation/create",
            "params": { "mode": "url", "url": page["url"], "message": page["message"] },
        })
    };
    let requests: serde_json::Map<String, Value> =
        pages.iter().enumerate().map(|(index, page)| (format!("r{}", index + 1), question(page))).collect();
    Payload::of(
        Revision::V2026_07_28,
        &serde_json::json!({ "resultType": "input_required", "inputRequests": requests }),
    )
}
