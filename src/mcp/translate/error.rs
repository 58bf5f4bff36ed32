//! Translates errors whose code has its meaning in one revision only. Some errors become results, because a model can
//! react to a tool error.

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
    /// Translates a server's error for a client of `target`. The result is an error, or a result where the call ends
    /// better that way. Errors of the gateway, and errors that a client sends as its answer to a server request, pass
    /// unchanged. Between equal revisions, and for codes with the same meaning, the buffer stays the same.
    pub fn into_revision(self, target: Revision, facts: &Facts<'_>) -> Outcome {
        let Some(from) = self.revision().filter(|from| *from != target && facts.kind == Kind::Result) else {
            return Outcome::Failed(self);
        };
        let (of_modern, modern) = (from > Revision::NEWEST_LEGACY, target > Revision::NEWEST_LEGACY);
        match self.code() {
            Self::RESOURCE_NOT_FOUND if modern => match facts.uri {
                // 2026-07-28 uses the code of invalid parameters; only the URI distinguishes this error from others
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
            // in one era these codes pass between neighbours; in the other they are undefined, or free for any use
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

    /// `-32603` with the same message and data, and the original code, for an error that concerns only gateway and
    /// server.
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

    /// True for the code of an unknown resource. 2026-07-28 has no own code, so the error must have the requested URI.
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

    /// The error's data; `null` if it is absent or unreadable.
    fn data(&self) -> Value {
        serde_json::from_slice::<Value>(self.json()).map(|mut error| error["data"].take()).unwrap_or_default()
    }
}

/// The elicitations of a `-32042`, as requests of 2026-07-28. There is no state: the client simply repeats its call.
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
