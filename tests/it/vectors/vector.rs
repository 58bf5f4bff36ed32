//! One vector: a message of one revision, and the message that the other side gets. Knows nothing of how it is tested.

use std::{env, fs, path::PathBuf};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

/// A line of a file of vectors.
#[derive(Debug, Deserialize)]
pub(crate) struct Vector {
    pub(crate) id: String,
    /// The version of the sender.
    pub(crate) from: String,
    /// The version of the receiver.
    pub(crate) to: String,
    /// `client>backend` and so on; `gateway` if it is an end.
    pub(crate) direction: String,
    pub(crate) given: Box<RawValue>,
    pub(crate) expect: Value,
    #[serde(default)]
    pub(crate) method: Option<String>,
    /// The assumed state.
    #[serde(default)]
    pub(crate) ctx: Value,
    #[serde(default)]
    pub(crate) profile: Option<String>,
    #[serde(default)]
    pub(crate) expect_valid: Option<bool>,
    pub(crate) group: String,
}

/// The vectors of the project.
pub(crate) fn own() -> Vec<Vector> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    read(&["translation.jsonl", "sessions.jsonl"].map(|name| folder.join(name)))
}

/// The vectors of the files in `TRANSLATION_VECTORS`, a path list.
#[expect(clippy::disallowed_methods, reason = "further vectors are named from outside")]
pub(crate) fn further() -> Vec<Vector> {
    read(&env::var_os("TRANSLATION_VECTORS").iter().flat_map(env::split_paths).collect::<Vec<_>>())
}

fn read(paths: &[PathBuf]) -> Vec<Vector> {
    let texts: Vec<String> = paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let lines = texts.iter().flat_map(|text| text.lines()).filter(|line| !line.trim().is_empty());
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl Vector {
    pub(crate) fn is_shape(&self) -> bool {
        self.group == "shape"
    }

    /// True if one side is of the version without sessions.
    pub(crate) fn is_modern(&self) -> bool {
        [self.from.as_str(), self.to.as_str()].contains(&"2026-07-28")
    }

    /// The input, as a value.
    pub(crate) fn given(&self) -> Value {
        serde_json::from_str(self.given.get()).unwrap()
    }

    /// The input message, without its carrier.
    pub(crate) fn message(&self) -> Value {
        let mut given = self.given();
        given.get_mut("body").map(Value::take).unwrap_or(given)
    }

    /// True if it has one message as input and expects one, from one side to the other.
    pub(crate) fn is_one_message(&self) -> bool {
        self.given().get("jsonrpc").is_some() && self.expected().is_some() && self.direction != "client>gateway"
    }

    /// The expected message, without its carrier.
    pub(crate) fn expected(&self) -> Option<&Value> {
        let body = self.expect.get("body").unwrap_or(&self.expect);
        body.get("jsonrpc").or_else(|| body.get("drop")).map(|_| body)
    }

    /// The expected steps at this side (`client`, `backend`), in this direction (`in` or `out` of the gateway).
    pub(crate) fn steps<'a>(&'a self, side: &'a str, dir: &'a str) -> impl Iterator<Item = &'a Value> {
        let steps = self.expect["seq"].as_array().into_iter().flatten();
        steps.filter(move |step| step["side"] == side && step["dir"] == dir)
    }

    /// The method that the input answers, if it is an answer.
    pub(crate) fn answered(&self) -> Option<&str> {
        self.ctx["method"].as_str().or(self.method.as_deref())
    }

    /// Tells whether the server of the vector assigns a session id over HTTP. It assigns none if the vector says so
    /// (`ctx.session` is null, false or `none`), if the gateway is expected to send no such header (null), or if the
    /// headers of the server's `initialize` response are given and the session id is not among them.
    pub(crate) fn has_session_id(&self) -> bool {
        let without = |value: &Value| value.is_null() || *value == false || *value == "none";
        let sent = session_header(&self.expect["http"]["headers"]).is_some_and(without);
        let given = self.given();
        let greets = self.answered() == Some("initialize") && self.direction.starts_with("backend");
        let assigned = given["http"]["headers"]
            .as_object()
            .is_none_or(|_| session_header(&given["http"]["headers"]).is_some_and(|value| !without(value)));
        !(self.ctx.get("session").is_some_and(without) || sent || (greets && !assigned))
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.profile.as_deref() == Some("strict")
    }
}

/// The `Mcp-Session-Id` among these headers; null means that there is none.
fn session_header(headers: &Value) -> Option<&Value> {
    let mut headers = headers.as_object()?.iter();
    headers.find(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id")).map(|(_, value)| value)
}

/// The value without tokens and ids that the gateway creates, and without texts of errors.
pub(crate) fn leave_minted(mut value: Value) -> Value {
    leave_words(&mut value);
    match value {
        Value::Object(members) => {
            let left = members.into_iter().map(|(name, value)| match name.as_str() {
                "progressToken" | "elicitationId" | "requestState" => (name, json!("minted")),
                _ => (name, leave_minted(value)),
            });
            Value::Object(left.collect())
        }
        Value::Array(elements) => Value::Array(elements.into_iter().map(leave_minted).collect()),
        other => other,
    }
}

/// Removes the text of an error response.
pub(crate) fn leave_words(message: &mut Value) {
    if let Some(error) = message.get_mut("error").and_then(Value::as_object_mut) {
        error.remove("message");
    }
}
