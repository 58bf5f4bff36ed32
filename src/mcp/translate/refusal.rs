//! Payloads that cannot be delivered, because the receiver's version has no form for them or the client did not declare
//! what they need, and the error for each side.

use std::fmt;

use serde_json::json;

use super::super::{
    ClientInfo, ErrorObject, LackingFeature, Method, Outcome, Payload, Revision, ServerOrigin,
    lacking_feature::CapabilityPart,
};
use crate::support::printable_name;

/// Maximum length of a translated payload: this many times the original length, and [`GROWTH_ALLOWANCE`] more. The
/// rules stay far below it for any sensible payload.
pub(super) const MAX_GROWTH: usize = 8;
/// Bytes that any payload may grow by in translation: a form with a thousand choices becomes a thousand labelled
/// fields.
pub(super) const GROWTH_ALLOWANCE: usize = 2 << 20;

/// Maximum length of a reason in the log, in characters.
const MAX_REASON: usize = 400;

/// A payload that cannot be delivered. The code that gets this must [report](Self::report) it once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untranslatable {
    /// The feature that the receiver does not have.
    pub feature: LackingFeature,
    /// The revision that it was written in.
    pub from: Revision,
    /// The revision of the receiver.
    pub to: Revision,
    /// The server that wrote the payload or was to receive it; `None` for the gateway's own.
    pub origin: Option<ServerOrigin>,
    /// The cause, which decides who gets an error.
    pub cause: Cause,
}

/// The kind of payload that cannot be translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// A server request of a kind or mode that the client's version cannot declare.
    ServerRequest,
    /// A server request that the client has not declared support for.
    Undeclared,
    /// An answer that the server's revision cannot express.
    Answer,
    /// An answer that breaks a bound of the original form. The converted form could not express the bound, so the user
    /// can be asked again.
    AskAgain {
        /// The name of the form field.
        field: String,
        /// The bound, as a text for the user.
        bound: String,
    },
    /// A request whose method the server's revision does not have.
    Request,
    /// A custom server request: servers of 2026-07-28 send no requests.
    VendorRequest,
    /// A result that the client's revision cannot express.
    Result,
    /// A notification that the target does not know. It is dropped and counted.
    Notification,
    /// A payload that would become more than eight times as long, and 2 MiB more.
    Growth,
}

// === impl Untranslatable ===

impl Untranslatable {
    /// The error for the side that sent the payload, or asked for it: `-32602` for a legacy server whose request cannot
    /// be sent, so that it can go on; `-32601` for a method that does not exist; `-32603` for everything else.
    pub fn error(&self) -> ErrorObject {
        match self.cause {
            Cause::Undeclared if self.feature == LackingFeature::Roots => ErrorObject::roots_not_supported(),
            Cause::ServerRequest | Cause::Undeclared => ErrorObject::invalid_params(&self.to_string()),
            Cause::Request | Cause::VendorRequest => ErrorObject::method_not_found(self.feature.name()),
            _ => ErrorObject::internal(&self.to_string()),
        }
    }

    /// The outcome of the call `method` whose 2026-07-28 server sent the request `key`, which has no form at the
    /// client. A tool call gets a tool error that the model can read; any other call gets `-32603` with the required
    /// capabilities.
    pub fn outcome(&self, method: &Method, key: &str) -> Outcome {
        let is_of_request = matches!(self.cause, Cause::ServerRequest | Cause::Undeclared);
        let Some(CapabilityPart { capability, part }) = self.feature.capability().filter(|_| is_of_request) else {
            return Outcome::Failed(self.error());
        };
        let asked = match capability {
            "sampling" => "sampling/createMessage",
            "roots" => "roots/list",
            _ => "elicitation/create",
        };
        let text = format!(
            "Cannot request input '{key}' ({asked}): the client did not declare the {} capability",
            self.feature.name()
        );
        if *method == Method::ToolsCall {
            return Outcome::Complete(tool_error(self.to, &text));
        }
        let needed = part.map_or_else(|| json!({}), |part| json!({ part: {} }));
        let data = json!({ "requiredCapabilities": { capability: needed } });
        Outcome::Failed(ErrorObject::with_data(ErrorObject::INTERNAL_ERROR, &text, &data))
    }

    /// Refuses a server request, because this client did not declare `feature`.
    pub(crate) fn undeclared(feature: LackingFeature, asked: &Payload, client: &ClientInfo) -> Self {
        let (from, to, origin) = (asked.revision, client.revision, asked.origin().cloned());
        Self { feature, from, to, origin, cause: Cause::Undeclared }
    }

    /// The same refusal, with the server that wrote the payload or was to receive it.
    #[must_use]
    pub fn of(self, origin: Option<&ServerOrigin>) -> Self {
        Self { origin: origin.cloned(), ..self }
    }

    /// Counts the refusal, and logs it if it is the first for this feature at this server (`translation` 4.6). Must be
    /// called once.
    pub fn report(&self) {
        let Self { feature, from, to, .. } = self;
        let backend = self.origin.as_ref().map_or("", |origin| origin.backend().as_str());
        let labels = [
            ("server", backend.to_owned()),
            ("feature", feature.label().to_owned()),
            ("from", from.to_string()),
            ("to", to.to_string()),
        ];
        metrics::counter!("lockkeeper_untranslatable_total", &labels).increment(1);
        // without a server, the gateway chose the name, and there is no account to remember it for
        let Some(origin) = &self.origin else {
            tracing::debug!(feature = feature.name(), %from, %to, "not carried: {self}");
            return;
        };
        if let Some(feature) = origin.first_refusal(feature.name()) {
            let reason = printable_name(&self.to_string(), MAX_REASON);
            tracing::warn!(server = backend, feature, %from, %to, "not carried: {reason}");
        }
    }
}

impl fmt::Display for Untranslatable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { feature, from, to, cause, .. } = self;
        let feature = feature.name();
        match cause {
            Cause::Undeclared => write!(f, "the client did not declare `{feature}`"),
            Cause::ServerRequest => {
                write!(f, "the client speaks MCP {to} and cannot be asked for {feature} (asked in {from})")
            }
            Cause::Answer => write!(f, "the client's answer uses {feature}, which MCP {to} has no form for"),
            Cause::AskAgain { field, bound } => write!(f, "the answer to {field} must have {bound}"),
            Cause::VendorRequest => write!(f, "MCP {to} has no form for the server's request {feature}"),
            Cause::Request => write!(f, "the server speaks MCP {to}, which has no method {feature}"),
            Cause::Result => write!(f, "the server's answer uses {feature}, which MCP {to} has no form for"),
            Cause::Notification => write!(f, "MCP {to} has no notification {feature}"),
            Cause::Growth => {
                let who = self.origin.as_ref().map(|origin| format!("server `{}`", origin.backend()));
                let who = who.as_deref().unwrap_or("a client");
                write!(f, "what {who} sent would be more than {MAX_GROWTH} times as long in MCP {to}")
            }
        }
    }
}

impl std::error::Error for Untranslatable {}

/// The result of a failed tool call that a model can read and act on (all revisions, tools).
pub fn tool_error(revision: Revision, text: &str) -> Payload {
    let result = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
    Payload::of(revision, &result)
}
