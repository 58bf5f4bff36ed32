//! JSON-RPC 2.0 envelopes: bytes to messages and back. Knows nothing of methods' meaning and of revisions.
//!
//! An envelope is parsed once and its parts are slices of what was read; payloads are not looked into.

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{ErrorObject, Method, json};

/// The id of a request: a string or a number, kept as it was written so that it can be echoed exactly.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestId(Bytes);

/// One JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A method with an id.
    Request {
        /// What the answer must carry.
        id: RequestId,
        /// What is asked for.
        method: Method,
        /// The text of `params`; empty where absent.
        params: Bytes,
    },
    /// A method without an id.
    Notification {
        /// What is told.
        method: Method,
        /// The text of `params`; empty where absent.
        params: Bytes,
    },
    /// The answer to a request.
    Response {
        /// The request's id; `None` in an error whose request could not be read.
        id: Option<RequestId>,
        /// The text of `result`, or the error.
        outcome: Result<Bytes, ErrorObject>,
    },
}

/// What came in one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// One message.
    Single(Message),
    /// A batch (2025-03-26): each element is a message, or the error that it deserves.
    Batch(Vec<Result<Message, Malformed>>),
}

/// The text is no JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is no JSON: `-32700`.
    #[error("Parse error: the text is not JSON")]
    NotJson,
    /// It is JSON and no message: `-32600`. The id is given where it could be read.
    #[error("Invalid Request: {reason}")]
    NotAMessage {
        /// What is wrong.
        reason: &'static str,
        /// The id, where it could be read.
        id: Option<RequestId>,
    },
}

// === impl RequestId ===

impl RequestId {
    /// What stands in the place of an id that could not be read (JSON-RPC 2.0, section 5); no request has it.
    pub const NULL: Self = Self(Bytes::from_static(b"null"));

    /// An id of the gateway's own.
    pub fn number(id: u64) -> Self {
        Self(id.to_string().into())
    }

    /// An id of the gateway's own.
    pub fn string(id: &str) -> Self {
        Self(json::quote(id).into())
    }

    /// Reads the JSON text of an id; `None` where it is neither a string nor a number.
    pub fn read(text: &Bytes) -> Option<Self> {
        let first = *text.first()?;
        (first == b'"' || first == b'-' || first.is_ascii_digit()).then(|| Self(text.clone()))
    }

    /// The JSON text.
    pub const fn json(&self) -> &Bytes {
        &self.0
    }

    /// The id as one of the gateway's own numbers.
    pub fn as_number(&self) -> Option<u64> {
        std::str::from_utf8(&self.0).ok()?.parse().ok()
    }
}

// === impl Message ===

/// The members of an envelope, as far as JSON-RPC names them. Present members are told from absent ones, `null` included.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Message {
    /// Reads one message; what it keeps are slices of `text`.
    pub fn parse(text: &Bytes) -> Result<Self, Malformed> {
        let envelope: Envelope<'_> = match serde_json::from_slice(text) {
            Ok(envelope) => envelope,
            Err(error) if error.is_data() => return Err(malformed("it is no JSON object of a message's form")),
            Err(_) => return Err(Malformed::NotJson),
        };
        envelope.into_message(text)
    }

    /// Writes the message.
    pub fn encode(&self) -> Bytes {
        let mut text = BytesMut::with_capacity(64 + self.payload_len());
        text.put_slice(br#"{"jsonrpc":"2.0""#);
        match self {
            Self::Request { id, method, params } => {
                put_member(&mut text, "id", id.json());
                put_member(&mut text, "method", json::quote(method.as_str()).as_bytes());
                put_member(&mut text, "params", params);
            }
            Self::Notification { method, params } => {
                put_member(&mut text, "method", json::quote(method.as_str()).as_bytes());
                put_member(&mut text, "params", params);
            }
            Self::Response { id, outcome } => {
                put_member(&mut text, "id", id.as_ref().map_or(b"".as_slice(), |id| id.json()));
                match outcome {
                    Ok(result) => put_member(&mut text, "result", result),
                    Err(error) => put_member(&mut text, "error", error.json()),
                }
            }
        }
        text.put_u8(b'}');
        text.freeze()
    }

    /// The successful answer to `id`.
    pub fn result(id: RequestId, result: Bytes) -> Self {
        Self::Response { id: Some(id), outcome: Ok(result) }
    }

    /// The failed answer to `id`.
    pub fn error(id: RequestId, error: ErrorObject) -> Self {
        Self::Response { id: Some(id), outcome: Err(error) }
    }

    /// The bytes of its payload: what it weighs, but for the envelope.
    pub fn payload_len(&self) -> usize {
        match self {
            Self::Request { params, .. } | Self::Notification { params, .. } => params.len(),
            Self::Response { outcome: Ok(result), .. } => result.len(),
            Self::Response { outcome: Err(error), .. } => error.json().len(),
        }
    }
}

impl Envelope<'_> {
    fn into_message(self, text: &Bytes) -> Result<Message, Malformed> {
        let slice = |value: &RawValue| text.slice_ref(value.get().as_bytes());
        let id = self.id.map(slice).and_then(|text| RequestId::read(&text));
        let refuse = |reason| Err(Malformed::NotAMessage { reason, id: id.clone() });
        if self.jsonrpc.is_none_or(|version| version.get() != "\"2.0\"") {
            return refuse("`jsonrpc` is not \"2.0\"");
        }
        let params = self.params.map(slice).unwrap_or_default();
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => {
                let Some(method) = json::unquote(method.get()) else { return refuse("`method` is no string") };
                if !params.is_empty() && params[0] != b'{' {
                    return refuse("`params` is no object");
                }
                let method = Method::parse(&method);
                match (self.id, id) {
                    (None, _) => Ok(Message::Notification { method, params }),
                    (Some(_), Some(id)) => Ok(Message::Request { id, method, params }),
                    (Some(_), None) => Err(malformed("`id` is neither a string nor a number")),
                }
            }
            (None, Some(result), None) => match id {
                Some(id) => Ok(Message::result(id, slice(result))),
                None => Err(malformed("a result has no `id`")),
            },
            (None, None, Some(error)) => match ErrorObject::read(slice(error)) {
                Some(error) => Ok(Message::Response { id, outcome: Err(error) }),
                None => refuse("`error` is no error object"),
            },
            _ => refuse("it is neither a request, a notification nor a response"),
        }
    }
}

// === impl Frame ===

impl Frame {
    /// Reads one message, or a batch of them. An empty batch is malformed (JSON-RPC 2.0, section 6).
    pub fn parse(text: &Bytes) -> Result<Self, Malformed> {
        if text.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'[') {
            return Message::parse(text).map(Self::Single);
        }
        let elements: Vec<&RawValue> = serde_json::from_slice(text).map_err(|_| Malformed::NotJson)?;
        if elements.is_empty() {
            return Err(malformed("the batch is empty"));
        }
        let messages = elements.iter().map(|element| Message::parse(&text.slice_ref(element.get().as_bytes())));
        Ok(Self::Batch(messages.collect()))
    }
}

// === impl Malformed ===

impl Malformed {
    /// The error that this deserves.
    pub fn to_error(&self) -> ErrorObject {
        let code = match self {
            Self::NotJson => ErrorObject::PARSE_ERROR,
            Self::NotAMessage { .. } => ErrorObject::INVALID_REQUEST,
        };
        ErrorObject::new(code, &self.to_string())
    }

    /// The id of the request, where it could be read.
    pub fn id(&self) -> Option<&RequestId> {
        match self {
            Self::NotJson => None,
            Self::NotAMessage { id, .. } => id.as_ref(),
        }
    }
}

fn malformed(reason: &'static str) -> Malformed {
    Malformed::NotAMessage { reason, id: None }
}

fn put_member(text: &mut BytesMut, key: &str, value: &[u8]) {
    if !value.is_empty() {
        text.put_slice(b",\"");
        text.put_slice(key.as_bytes());
        text.put_slice(b"\":");
        text.put_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &'static str) -> Result<Message, Malformed> {
        Message::parse(&Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn ids_and_payloads_are_kept_as_they_were_written() {
        let text = r#"{"jsonrpc":"2.0","id":1.50,"method":"tools/call","params":{ "a":1e400, "a":[ ] }}"#;
        assert_eq!(parse(text).unwrap().encode(), text);
        let text = r#"{"jsonrpc":"2.0","id":"é","error":{"code":-1,"message":"no", "x":null}}"#;
        assert_eq!(parse(text).unwrap().encode(), text);
    }

    #[test]
    fn what_is_no_message_is_refused_with_the_id_that_it_has() {
        let code = |text| parse(text).unwrap_err().to_error().code();
        assert_eq!(code("{"), -32700);
        assert_eq!(code("[]"), -32600);
        assert_eq!(code("3"), -32600);
        assert_eq!(code(r#"{"id":1,"method":"ping"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#), -32600);
        let malformed = parse(r#"{"jsonrpc":"2.0","id":7,"method":7}"#).unwrap_err();
        assert_eq!(malformed.id(), Some(&RequestId::number(7)));
    }

    #[test]
    fn an_error_may_lack_its_id() {
        let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#;
        assert!(matches!(parse(error), Ok(Message::Response { id: None, outcome: Err(_) })));
    }

    #[test]
    fn a_batch_judges_each_of_its_elements() {
        let text = r#" [{"jsonrpc":"2.0","method":"notifications/initialized"}, 1]"#;
        let Ok(Frame::Batch(messages)) = Frame::parse(&Bytes::from_static(text.as_bytes())) else { panic!("a batch") };
        assert_eq!(messages.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false]);
        assert!(Frame::parse(&Bytes::from_static(b"[]")).is_err());
    }
}
