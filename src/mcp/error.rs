//! The error member of a JSON-RPC response.

use std::fmt;

use bytes::Bytes;
use serde_json::{Value, json as data};

use super::{
    Era, Revision,
    json::{self, draft::Draft},
    meta,
};
use crate::model::BackendId;

/// Members of an error's data that hold advice for clients; see [`Retry`].
const RETRYABLE: &str = "retryable";
const MAY_HAVE_RUN: &str = "mayHaveRun";
const LOGIN_REQUIRED: &str = "loginRequired";
const AT_ANOTHER_REPLICA: &str = "atAnotherReplica";

/// The error with which a request ended: its code, and the whole object as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorObject {
    code: i64,
    json: Bytes,
    revision: Option<Revision>,
}

/// Why a backend does not serve a call.
#[derive(Debug, Clone, Copy)]
pub struct Unavailable<'a> {
    pub backend: &'a BackendId,
    /// The reason, for people.
    pub reason: &'a str,
    /// Retry advice for the client.
    pub retry: Retry,
    /// Versions that the server supports; empty unless the gateway knows none of them.
    pub supported: &'a [String],
}

/// May the client send the same request again?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Yes: the call did not run, and the cause may be temporary.
    Possible,
    /// Yes, at another replica, where the server runs.
    Elsewhere,
    /// Not without checking: the call may have run.
    MayHaveRun,
    /// No: only after a change of the configuration or the server. Also if the server refused the request.
    Useless,
    /// Yes, once the user has supplied what the server needs.
    AfterLogin,
}

impl ErrorObject {
    /// The text is not JSON (JSON-RPC 2.0).
    pub const PARSE_ERROR: i64 = -32700;
    /// The JSON is not a request (JSON-RPC 2.0).
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist (JSON-RPC 2.0).
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters are wrong (JSON-RPC 2.0).
    pub const INVALID_PARAMS: i64 = -32602;
    /// The fault is on this side (JSON-RPC 2.0).
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The resource does not exist (MCP 2024-11-05 to 2025-11-25, resources).
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The user must visit a page first (MCP 2025-11-25, elicitation).
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// The headers do not match the body (MCP 2026-07-28, transports).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client did not declare what the server needs (MCP 2026-07-28).
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// The gateway does not support the version of the request (MCP 2026-07-28, versioning).
    pub const UNSUPPORTED_VERSION: i64 = -32022;

    /// An error of the gateway's own.
    pub fn new(code: i64, message: &str) -> Self {
        Self::build(code, &data!({ "code": code, "message": message }))
    }

    /// An error of the gateway's own, with data.
    pub fn with_data(code: i64, message: &str, data: &Value) -> Self {
        Self::build(code, &data!({ "code": code, "message": message, "data": data }))
    }

    /// Reads the error object of a peer; `None` if it has no code or no message. Some peers write the code as a string.
    pub fn read(json: Bytes) -> Option<Self> {
        json::member(&json, "message")?;
        let written = json::member(&json, "code")?;
        if let Ok(code) = written.parse() {
            return Some(Self { code, json, revision: None });
        }
        let code: i64 = json::unquote(written)?.trim().parse().ok()?;
        Some(Self { code, json: json::with_member(&json, "code", &code.to_string()), revision: None })
    }

    /// The same error, marked as written by a peer that speaks `revision`: some codes have a meaning only in one
    /// revision.
    #[must_use]
    pub fn written_in(self, revision: Revision) -> Self {
        Self { revision: Some(revision), ..self }
    }

    /// The same error with an edited object; unchanged if `json` is not an error object.
    #[must_use]
    pub fn edited(self, json: Bytes) -> Self {
        match Self::read(json) {
            Some(edited) => Self { revision: self.revision, ..edited },
            None => self,
        }
    }

    /// The version it was written in; `None` for the gateway's own errors, which mean the same in every version.
    pub const fn revision(&self) -> Option<Revision> {
        self.revision
    }

    /// `-32602` with this message.
    pub fn invalid_params(message: &str) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    /// `-32602` for parameters without the string `key`.
    pub fn missing_string(key: &str) -> Self {
        Self::invalid_params(&format!("`{key}` is missing or is no string"))
    }

    /// `-32602` for a task that does not exist or belongs to another user. Both get the same error.
    pub fn unknown_task() -> Self {
        Self::invalid_params("Unknown task: it does not exist, has expired, or is not yours")
    }

    /// `-32601` for this method.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(Self::METHOD_NOT_FOUND, &format!("Method not found: {method}"))
    }

    /// `-32601` for a server that asks for roots of a client that does not declare them, as the pages of 2024-11-05 to
    /// 2025-11-25 require (client, roots, *Error Handling*).
    pub fn roots_not_supported() -> Self {
        let data = data!({ "reason": "Client does not have roots capability" });
        Self::with_data(Self::METHOD_NOT_FOUND, "Roots not supported", &data)
    }

    /// `-32021` for a client that needs the tasks extension but did not declare it (tasks extension, *Protocol
    /// Errors*).
    pub fn undeclared_tasks() -> Self {
        let data = data!({ "requiredCapabilities": { "extensions": { meta::TASKS_EXTENSION: {} } } });
        Self::with_data(Self::MISSING_CAPABILITY, "Missing required client capability", &data)
    }

    /// `-32603` with this message.
    pub fn internal(message: &str) -> Self {
        Self::new(Self::INTERNAL_ERROR, message)
    }

    /// `-32603` for a call that did not run, and that the client may send again.
    pub fn retryable(message: &str) -> Self {
        Self::with_data(Self::INTERNAL_ERROR, message, &data!({ "retryable": true }))
    }

    /// `-32603` for a call that may have run but has no answer. An agent must not repeat it without checking.
    pub fn lost(message: &str) -> Self {
        let mut data = data!({});
        Retry::MayHaveRun.tell(&mut data);
        Self::with_data(Self::INTERNAL_ERROR, message, &data)
    }

    /// [`ErrorObject::lost`] for a call whose answer the gateway no longer has, or never had.
    pub fn lost_answer() -> Self {
        Self::lost(
            "The answer to this call is gone: the gateway was restarted, or the answer came too long ago. The call may have \
             run: look before you send it again",
        )
    }

    /// [`ErrorObject::lost`] for a call that was ended to free memory for messages.
    pub fn out_of_memory() -> Self {
        Self::lost(
            "The gateway ended this call: its memory for messages is used up, and too much of it by you or this server. The \
             call may have run: look before you send it again, read the streams that you have open, or ask for less at once",
        )
    }

    /// `-32603` for a call that a server does not serve. The data has the server's name (also in the older member
    /// `backend`), the reason, the retry advice, and the server's versions if they are the reason (`translation` 4.6).
    pub fn unavailable(message: &str, unavailable: &Unavailable<'_>) -> Self {
        let Unavailable { backend, reason, retry, supported } = unavailable;
        let mut data = data!({ "backend": backend.as_str(), "server": backend.as_str(), "reason": reason });
        retry.tell(&mut data);
        if !supported.is_empty() {
            data["supported"] = data!(supported);
        }
        Self::with_data(Self::INTERNAL_ERROR, message, &data)
    }

    /// The same error with the server's name in its data, if the data is an object.
    #[must_use]
    pub fn naming_backend(self, backend: &BackendId) -> Self {
        let name = json::quote(backend.as_str());
        self.with_datum("backend", &name).with_datum("server", &name)
    }

    /// The same error, attributed to this server. If it is the gateway's own, it names the server, also in its message.
    #[must_use]
    pub fn about(self, backend: &BackendId) -> Self {
        if self.revision.is_some() || self.code != Self::INTERNAL_ERROR {
            return self;
        }
        let (message, name) = (self.message(), format!("`{backend}`"));
        let named = self.naming_backend(backend);
        if message.contains(&name) {
            return named;
        }
        let json = json::with_member(&named.json, "message", &json::quote(&format!("Server {name}: {message}")));
        named.edited(json)
    }

    /// The same error with a member added to its data; unchanged if the data has that member or is not an object.
    #[must_use]
    pub(super) fn with_datum(self, name: &str, value: &str) -> Self {
        let text = String::from_utf8_lossy(&self.json).into_owned();
        let mut error = Draft::of(&text);
        match error.edit("data") {
            Some(data) if data.is_object() && !data.has(name) => data.add(name, value),
            Some(_) => return self,
            None => error.add("data", format!("{{{}:{value}}}", json::quote(name))),
        }
        let edited = error.text();
        self.edited(edited.into())
    }

    /// True for a temporary error of the gateway: an idempotent request, such as a poll, is worth another try.
    pub fn may_pass(&self) -> bool {
        self.tells(RETRYABLE) || self.tells(MAY_HAVE_RUN)
    }

    /// True for an error of the gateway about a server where the user must log in: see [`Retry::AfterLogin`].
    pub fn requires_login(&self) -> bool {
        self.tells(LOGIN_REQUIRED)
    }

    /// True for an error of the gateway about a server that runs at another replica, where it may be fine.
    pub fn is_elsewhere(&self) -> bool {
        self.tells(AT_ANOTHER_REPLICA)
    }

    /// True if the member `name` of the data is true in an error of the gateway's own.
    fn tells(&self, name: &str) -> bool {
        let told = || serde_json::from_slice::<Value>(&self.json).ok().map(|error| error["data"][name] == true);
        self.revision.is_none() && told() == Some(true)
    }

    /// True if the error is about the message as such, not about the request in it.
    pub const fn is_of_the_frame(&self) -> bool {
        matches!(self.code, Self::PARSE_ERROR | Self::INVALID_REQUEST)
    }

    /// True if a server of 2026-07-28 rejects what the gateway puts around a call: the form of the message, the
    /// headers, or the version. The client cannot change any of these.
    pub fn is_envelope_fault(&self) -> bool {
        let modern = self.revision.is_some_and(|revision| revision.era() == Era::Modern);
        let of_headers = matches!(self.code, Self::HEADER_MISMATCH | Self::UNSUPPORTED_VERSION);
        modern && (self.is_of_the_frame() || of_headers)
    }

    pub const fn code(&self) -> i64 {
        self.code
    }

    /// The message; empty if it is not a string.
    pub fn message(&self) -> String {
        serde_json::from_slice::<Value>(&self.json)
            .ok()
            .and_then(|error| error["message"].as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// The whole object as written.
    pub const fn json(&self) -> &Bytes {
        &self.json
    }

    fn build(code: i64, object: &Value) -> Self {
        Self { code, json: object.to_string().into(), revision: None }
    }
}

impl Retry {
    /// Adds retry advice to an error's data.
    fn tell(self, data: &mut Value) {
        match self {
            Self::Possible => data[RETRYABLE] = true.into(),
            Self::Elsewhere => {
                data[RETRYABLE] = true.into();
                data[AT_ANOTHER_REPLICA] = true.into();
            }
            Self::MayHaveRun => {
                data[RETRYABLE] = false.into();
                data[MAY_HAVE_RUN] = true.into();
            }
            Self::AfterLogin => data[LOGIN_REQUIRED] = true.into(),
            Self::Useless => {}
        }
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message(), self.code)
    }
}
