//! JSON-RPC 2.0 envelopes: bytes to messages and back.
//!
//! An envelope is parsed once, and its parts are slices of the input. Payloads are not parsed.

use std::borrow::Cow;

use bytes::{BufMut as _, Bytes, BytesMut};
use bytestring::ByteString;

use super::{
    ErrorObject, IndexedJson, Method, control,
    json::{self, check::check, scan::Elements},
    line_separators, spelling,
};
use crate::support::piece::{is_small_part, piece};

/// Maximum number of messages in a batch; `batch` cannot be configured higher.
const MAX_BATCH: usize = 10_000;

/// Maximum length of a method, and of an id as JSON text, in bytes.
const MAX_NAME: usize = 1024;

/// Id of a request: a string or a number, kept as written so that it can be returned exactly.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestId(Bytes);

/// One JSON-RPC request, notification or response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A method with an id.
    Request {
        /// The id that the answer must have.
        id: RequestId,
        method: Method,
        /// The text of `params`; empty if absent.
        params: IndexedJson,
    },
    /// A method without an id.
    Notification {
        method: Method,
        /// The text of `params`; empty if absent.
        params: IndexedJson,
    },
    /// The answer to a request.
    Response {
        /// The request's id; `None` in an error for a request that could not be read.
        id: Option<RequestId>,
        /// The text of `result`, or the error.
        outcome: Result<Bytes, ErrorObject>,
    },
}

/// The content of one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    Single(Message),
    /// A batch (2025-03-26): each element is a message, or its error.
    Batch(Vec<Result<Message, Malformed>>),
}

/// Why a text is not a JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is not JSON: `-32700`.
    #[error("Parse error: the text is not JSON")]
    NotJson,
    /// It is JSON, but not a message: `-32600`, with the id if it is readable.
    #[error("Invalid Request: {reason}")]
    NotAMessage {
        reason: Cow<'static, str>,
        /// `None` if it is not readable.
        id: Option<RequestId>,
    },
    /// It is meant as the answer to this request, which gets no other: `-32600`.
    #[error("Invalid Request: the answer cannot be read: {reason}")]
    BrokenAnswer { reason: String, id: RequestId },
    /// Its parameters are a list, or a control member has two readings: `-32602`.
    #[error("Invalid params: {reason}")]
    InvalidParams {
        /// The reason, which names the member.
        reason: String,
        /// Id of the request; `None` for a notification.
        id: Option<RequestId>,
    },
}

// === impl RequestId ===

impl RequestId {
    /// The id for answers to a request with an unreadable id (JSON-RPC 2.0, section 5).
    pub const NULL: Self = Self(Bytes::from_static(b"null"));

    /// A numeric id made by the gateway.
    pub fn number(id: u64) -> Self {
        Self(id.to_string().into())
    }

    /// A string id made by the gateway.
    pub fn string(id: &str) -> Self {
        Self(json::quote(id).into())
    }

    /// Reads the JSON text of an id; `None` if it is neither a string nor a number.
    pub fn read(text: &Bytes) -> Option<Self> {
        let first = *text.first()?;
        (first == b'"' || first == b'-' || first.is_ascii_digit()).then(|| Self(text.clone()))
    }

    /// JSON text of the id.
    pub const fn json(&self) -> &Bytes {
        &self.0
    }

    /// The number, if the gateway made the id.
    pub fn as_number(&self) -> Option<u64> {
        std::str::from_utf8(&self.0).ok()?.parse().ok()
    }

    /// The gateway's number, if a peer returned it as another JSON type: as a string (`"2"`), or with a fraction of
    /// zero (`2.0`).
    pub fn as_returned_number(&self) -> Option<u64> {
        returned_number(std::str::from_utf8(&self.0).ok()?)
    }
}

/// Reads a number of the gateway's from JSON text. A peer may return it as a string, or with a fraction of zero, but in
/// canonical decimal.
pub fn returned_number(text: &str) -> Option<u64> {
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let digits = match (quoted, text.split_once('.')) {
        (Some(quoted), _) => quoted,
        (None, Some((whole, fraction))) => {
            let is_zero = !fraction.is_empty() && fraction.bytes().all(|digit| digit == b'0');
            whole.get(..if is_zero { whole.len() } else { 0 })?
        }
        (None, None) => text,
    };
    let is_canonical =
        digits.bytes().all(|digit| digit.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if is_canonical { digits.parse().ok() } else { None }
}

// === impl Message ===

/// Members of an envelope, in the order of [`Envelope::members`].
const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// An envelope as received. Absent members differ from `null` members.
#[derive(Default)]
struct Envelope<'a> {
    /// Texts of the members, in the order of [`MEMBERS`].
    members: [Option<&'a str>; MEMBERS.len()],
    /// A member that is there more than once.
    repeated: Option<&'static str>,
    /// A member in another spelling, which some readers accept.
    misspelled: Option<&'static str>,
}

impl Message {
    /// Reads one message; its parts are slices of `text`.
    pub fn parse(text: &Bytes) -> Result<Self, Malformed> {
        let text = ByteString::try_from(text.clone()).map_err(|_| Malformed::NotJson)?;
        let mut envelope = Envelope::default();
        if !check(&text, |name, value| envelope.take(name, value)) {
            return Err(Malformed::NotJson);
        }
        if !json::is_object(&text) {
            return Err(malformed("it is no JSON object of a message's form"));
        }
        envelope.into_message(&text)
    }

    /// Writes the message, with Unicode's line separators as escapes.
    pub fn encode(&self) -> Bytes {
        let mut text = BytesMut::with_capacity(64 + self.payload().len());
        self.put_head(&mut text);
        text.put_slice(self.payload());
        text.put_u8(b'}');
        line_separators::escaped(text.freeze())
    }

    /// Writes the message in three consecutive parts, so that the payload is not copied.
    pub fn encode_in_parts(&self) -> [Bytes; 3] {
        let mut head = BytesMut::with_capacity(64);
        self.put_head(&mut head);
        let [head, payload] = [head.freeze(), self.payload().clone()].map(line_separators::escaped);
        [head, payload, Bytes::from_static(b"}")]
    }

    /// Writes everything before the payload, which is the last member.
    fn put_head(&self, text: &mut BytesMut) {
        text.put_slice(br#"{"jsonrpc":"2.0""#);
        let name = match self {
            Self::Request { id, method, .. } => {
                put_member(text, "id", id.json());
                put_method(text, method);
                "params"
            }
            Self::Notification { method, .. } => {
                put_method(text, method);
                "params"
            }
            Self::Response { id, outcome } => {
                put_member(text, "id", id.as_ref().map_or(b"".as_slice(), |id| id.json()));
                if outcome.is_ok() { "result" } else { "error" }
            }
        };
        if !self.payload().is_empty() {
            put_name(text, name);
        }
    }

    /// The successful answer to the request `id`.
    pub fn result(id: RequestId, result: Bytes) -> Self {
        Self::Response { id: Some(id), outcome: Ok(result) }
    }

    /// The failed answer to the request `id`.
    pub fn error(id: RequestId, error: ErrorObject) -> Self {
        Self::Response { id: Some(id), outcome: Err(error) }
    }

    fn unambiguous(self) -> Result<Self, Malformed> {
        let (method, params, id) = match &self {
            Self::Request { id, method, params } => (method, params, Some(id)),
            Self::Notification { method, params } => (method, params, None),
            // the server that sent the request decides about the answer
            Self::Response { .. } => return Ok(self),
        };
        match control::ambiguity(method, params) {
            Some(ambiguity) => Err(Malformed::InvalidParams { reason: ambiguity.to_string(), id: id.cloned() }),
            None => Ok(self),
        }
    }

    /// Size of the payload in bytes, without the envelope.
    pub fn payload_len(&self) -> usize {
        self.payload().len()
    }

    /// JSON text of the payload; empty if there is none.
    fn payload(&self) -> &Bytes {
        match self {
            Self::Request { params, .. } | Self::Notification { params, .. } => params,
            Self::Response { outcome: Ok(result), .. } => result,
            Self::Response { outcome: Err(error), .. } => error.json(),
        }
    }
}

impl<'a> Envelope<'a> {
    /// Records a member; `name` is as written, with its quotes.
    fn take(&mut self, name: &str, value: &'a str) {
        let name = json::name_of(name);
        match MEMBERS.iter().position(|member| name == *member) {
            Some(place) if self.members[place].is_none() => self.members[place] = Some(value),
            // a repeated id identifies no request, so it takes precedence over other repeated members
            Some(place) => self.repeated = self.repeated.filter(|name| *name == "id").or(Some(MEMBERS[place])),
            None => {
                let meant = MEMBERS.iter().find(|member| spelling::is_other_spelling(&name, member));
                self.misspelled = self.misspelled.or(meant.copied());
            }
        }
    }

    fn into_message(self, text: &ByteString) -> Result<Message, Malformed> {
        let slice = |value: &str| piece(text.as_bytes().slice_ref(value.as_bytes()), text.len());
        let [jsonrpc, given_id, method, params, result, error] = self.members;
        // some peers write every member, with null for the unused ones
        let is_there = |value: &&str| *value != "null";
        let method = method.filter(is_there);
        let params = params.filter(|params| is_there(params) && !is_empty_list(params));
        let (result, error) = match method {
            Some(_) => (result.filter(is_there), error.filter(is_there)),
            None => (result, error),
        };
        let id = given_id.filter(|_| self.repeated != Some("id")).and_then(|text| RequestId::read(&slice(text)));
        // programs may print other lines with an id; a real answer has these members too
        let is_answer = jsonrpc.is_some() && method.is_none() && (result.is_some() || error.is_some());
        let refuse = |reason: &str| {
            let reason = reason.to_owned();
            Err(match id.clone() {
                Some(id) if is_answer => Malformed::BrokenAnswer { reason, id },
                id => Malformed::NotAMessage { reason: Cow::Owned(reason), id },
            })
        };
        if let Some(name) = self.repeated {
            return refuse(&format!("`{name}` is there more than once"));
        }
        // without a method, misspelled members do no harm
        if let (Some(name), Some(_)) = (self.misspelled, method) {
            return refuse(&format!("a member can be read as `{name}`; names are case-sensitive, send `{name}` alone"));
        }
        // hardly any peer writes it with escapes
        let is_second =
            |version| version == "\"2.0\"" || json::unquoted(version).is_some_and(|version| version == "2.0");
        if !jsonrpc.is_some_and(is_second) {
            return refuse("`jsonrpc` is not \"2.0\"");
        }
        let part = |value: &str| {
            if is_small_part(value.len(), text.len()) { ByteString::from(value) } else { text.slice_ref(value) }
        };
        let params = params.map(part).unwrap_or_default();
        match (method, result, error) {
            (Some(method), None, None) => read_begun(method, params, given_id, id),
            // some servers write both members, with null for the unused one
            (None, Some("null"), Some("null")) => refuse("`result` and `error` are both null"),
            (None, Some(result), None | Some("null")) => match id {
                Some(id) => Ok(Message::result(id, slice(result))),
                None => Err(malformed("a result has no `id`")),
            },
            (None, None | Some("null"), Some(error)) => match read_error(error, slice) {
                Some(error) => Ok(Message::Response { id, outcome: Err(error) }),
                None => refuse("`error` is no error object"),
            },
            (None, Some(_), Some(_)) => refuse("it has both `result` and `error`"),
            _ => refuse("it is neither a request, a notification nor a response"),
        }
    }
}

/// Makes a request or notification from the text of its method, its parameters, and its id as written and as read.
fn read_begun(
    method: &str,
    params: ByteString,
    given_id: Option<&str>,
    id: Option<RequestId>,
) -> Result<Message, Malformed> {
    let refuse = |reason: String| Err(Malformed::NotAMessage { reason: Cow::Owned(reason), id: id.clone() });
    let Some(method) = json::unquoted(method) else { return refuse("`method` is no string".to_owned()) };
    if params.starts_with('[') {
        let reason = "`params` is a list, and has to be an object".to_owned();
        return Err(Malformed::InvalidParams { reason, id });
    }
    if !params.is_empty() && !params.starts_with('{') {
        return refuse("`params` is no object".to_owned());
    }
    if method.len() > MAX_NAME {
        return refuse(format!("`method` is longer than {MAX_NAME} bytes"));
    }
    if given_id.is_some_and(|id| id.len() > MAX_NAME) {
        return refuse(format!("`id` is longer than {MAX_NAME} bytes"));
    }
    let (method, params) = (Method::parse(&method), params.into());
    match (given_id, id) {
        (None, _) => Ok(Message::Notification { method, params }),
        (Some(_), Some(id)) => Ok(Message::Request { id, method, params }),
        (Some(_), None) => Err(malformed("`id` is neither a string nor a number")),
    }
}

// === impl Frame ===

impl Frame {
    /// Reads one message, or a batch. A batch that is empty (JSON-RPC 2.0, section 6), or has more than `MAX_BATCH`
    /// messages, is malformed as a whole.
    pub fn parse(text: &Bytes) -> Result<Self, Malformed> {
        if !text.trim_ascii_start().starts_with(b"[") {
            return Message::parse(text).map(Self::Single);
        }
        let read = std::str::from_utf8(text).ok().filter(|text| check(text, |_, _| {}));
        let elements = || Elements::of(read.unwrap_or_default());
        match elements().take(MAX_BATCH + 1).count() {
            _ if read.is_none() => Err(Malformed::NotJson),
            0 => Err(malformed("the batch is empty")),
            1..=MAX_BATCH => {
                let messages = elements().map(|element| Message::parse(&text.slice_ref(element.as_bytes())));
                Ok(Self::Batch(messages.collect()))
            }
            _ => Err(malformed("the batch has more than 10,000 messages")),
        }
    }

    /// Checks a client's frame: each request and notification must have only one reading, so that a server reads what
    /// the gateway checked. Messages with two readings become malformed.
    pub fn unambiguous(self) -> Result<Self, Malformed> {
        Ok(match self {
            Self::Single(message) => Self::Single(message.unambiguous()?),
            Self::Batch(messages) => {
                Self::Batch(messages.into_iter().map(|message| message.and_then(Message::unambiguous)).collect())
            }
        })
    }
}

// === impl Malformed ===

impl Malformed {
    /// The JSON-RPC error to answer with.
    pub fn to_error(&self) -> ErrorObject {
        let code = match self {
            Self::NotJson => ErrorObject::PARSE_ERROR,
            Self::NotAMessage { .. } | Self::BrokenAnswer { .. } => ErrorObject::INVALID_REQUEST,
            Self::InvalidParams { .. } => ErrorObject::INVALID_PARAMS,
        };
        ErrorObject::new(code, &self.to_string())
    }

    /// Id of the request, if it is readable.
    pub fn id(&self) -> Option<&RequestId> {
        match self {
            Self::NotJson => None,
            Self::NotAMessage { id, .. } | Self::InvalidParams { id, .. } => id.as_ref(),
            Self::BrokenAnswer { id, .. } => Some(id),
        }
    }
}

/// Reads the error of an answer. Some servers write a plain string.
fn read_error<'a>(error: &'a str, slice: impl Fn(&'a str) -> Bytes) -> Option<ErrorObject> {
    match json::unquote(error) {
        Some(text) => Some(ErrorObject::internal(&text)),
        None => ErrorObject::read(slice(error)),
    }
}

fn is_empty_list(text: &str) -> bool {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).is_some_and(|inner| inner.trim_ascii().is_empty())
}

fn malformed(reason: &'static str) -> Malformed {
    Malformed::NotAMessage { reason: Cow::Borrowed(reason), id: None }
}

fn put_method(text: &mut BytesMut, method: &Method) {
    match method {
        Method::Other(name) => put_member(text, "method", json::quote(name).as_bytes()),
        known => {
            text.put_slice(b",\"method\":\"");
            text.put_slice(known.as_str().as_bytes());
            text.put_u8(b'"');
        }
    }
}

fn put_member(text: &mut BytesMut, key: &str, value: &[u8]) {
    if !value.is_empty() {
        put_name(text, key);
        text.put_slice(value);
    }
}

fn put_name(text: &mut BytesMut, key: &str) {
    text.put_slice(b",\"");
    text.put_slice(key.as_bytes());
    text.put_slice(b"\":");
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
        assert_eq!(parse(text).unwrap().encode_in_parts().concat(), text.as_bytes());
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
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#), -32602);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#), -32600);
        let malformed = parse(r#"{"jsonrpc":"2.0","id":7,"method":7}"#).unwrap_err();
        assert_eq!(malformed.id(), Some(&RequestId::number(7)));
    }

    #[test]
    fn parameters_that_are_null_or_an_empty_list_are_absent() {
        for params in ["null", "[]", "[ \n ]"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":"1","method":"ping","params":{params}}}"#);
            let expected =
                Message::Request { id: RequestId::string("1"), method: Method::Ping, params: IndexedJson::default() };
            assert_eq!(Message::parse(&text.into()), Ok(expected), "{params}");
        }
    }

    #[test]
    fn members_that_are_null_beside_those_that_count_are_absent() {
        let answer = parse(r#"{"jsonrpc":"2.0","id":2,"method":null,"params":null,"result":{},"error":null}"#);
        assert_eq!(answer, Ok(Message::result(RequestId::number(2), Bytes::from_static(b"{}"))));
        let asked = parse(r#"{"jsonrpc":"2.0","id":2,"method":"ping","params":null,"result":null,"error":null}"#);
        assert!(matches!(asked, Ok(Message::Request { method: Method::Ping, .. })));
        let failed = parse(r#"{"jsonrpc":"2.0","id":2,"result":null,"error":"boom"}"#).unwrap();
        let Message::Response { outcome: Err(error), .. } = failed else { panic!("an error") };
        assert_eq!((error.code(), &*error.message()), (ErrorObject::INTERNAL_ERROR, "boom"));
    }

    #[test]
    fn a_number_is_known_again_as_text_and_with_a_fraction_of_zero_alone() {
        for (text, number) in [
            ("2", Some(2)),
            ("\"2\"", Some(2)),
            ("2.0", Some(2)),
            ("10.00", Some(10)),
            ("0.0", Some(0)),
            ("\"0\"", Some(0)),
            ("2.5", None),
            ("2.", None),
            ("\"02\"", None),
            ("\" 2\"", None),
            ("\"2.0\"", None),
            ("\"+2\"", None),
            ("-2.0", None),
            ("2e0", None),
            ("\"\"", None),
            (".0", None),
            ("null", None),
        ] {
            assert_eq!(returned_number(text), number, "{text}");
        }
    }

    #[test]
    fn line_separators_are_written_as_escapes_in_the_payload_and_in_an_id() {
        let text = format!(r#"{{"jsonrpc":"2.0","id":"a{0}","method":"ping","params":{{"b":"{0}"}}}}"#, "\u{2028}");
        let message = Message::parse(&text.into()).unwrap();
        let written = r#"{"jsonrpc":"2.0","id":"a\u2028","method":"ping","params":{"b":"\u2028"}}"#;
        assert_eq!(message.encode(), written);
        assert_eq!(message.encode_in_parts().concat(), written.as_bytes());
    }

    #[test]
    fn a_method_or_an_id_that_is_too_long_is_refused_under_the_id() {
        for (method, id, named) in [(1025, 1, "`method`"), (1, 1023, "`id`")] {
            let (method, id) = ("m".repeat(method), "i".repeat(id));
            let text = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}"}}"#);
            let malformed = Message::parse(&text.into()).unwrap_err();
            assert_eq!(malformed.to_error().code(), -32600);
            assert!(malformed.to_string().contains(named), "{malformed}");
            assert_eq!(malformed.id(), Some(&RequestId::string(&id)));
        }
        let longest = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"{}"}}"#, "i".repeat(1022), "m".repeat(1024));
        assert!(Message::parse(&longest.into()).is_ok());
    }

    #[test]
    fn a_small_member_of_a_large_message_keeps_none_of_it() {
        let filler = "x".repeat(1 << 20);
        let text =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"data":1}},"x":"{filler}"}}"#);
        let text = Bytes::from(text);
        let is_part = |part: &Bytes| text.as_ptr_range().contains(&part.as_ptr());
        let small = Message::parse(&text).unwrap();
        assert!(small.payload() == r#"{"data":1}"# && !is_part(small.payload()));
        let text = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{{"x":"{filler}"}}}}"#);
        let text = Bytes::from(text);
        let is_part = |part: &Bytes| text.as_ptr_range().contains(&part.as_ptr());
        let Message::Request { id, params, .. } = Message::parse(&text).unwrap() else { panic!("a request") };
        assert!(is_part(&params) && !is_part(id.json()), "the id outlasts the parameters");
    }

    #[test]
    fn a_member_of_the_envelope_is_there_once_and_in_its_own_spelling() {
        for (text, named, id) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","Method":"tools/call"}"#, "`method`", Some(1)),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","m\u0065thod":"tools/call"}"#, "`method`", Some(1)),
            (r#"{"jsonrpc":"2.0","id":1,"ID":2,"method":"ping"}"#, "`id`", Some(1)),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, "`id`", None),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","param\u017f":{}}"#, "`params`", Some(1)),
            (r#"{"jsonrpc":"2.0","JSONRPC":"2.0","method":"notifications/cancelled"}"#, "`jsonrpc`", None),
        ] {
            let malformed = parse(text).unwrap_err();
            assert_eq!(malformed.to_error().code(), -32600, "{text}");
            assert!(malformed.to_string().contains(named), "{malformed}");
            assert_eq!(malformed.id().cloned(), id.map(RequestId::number), "{text}");
        }
        assert!(parse(r#"{"jsonrpc":"2.0","id":1,"result":{},"Id":2,"x":1,"X":2,"x":3}"#).is_ok());
    }

    #[test]
    fn a_frame_of_a_client_can_be_read_in_one_way_only() {
        let read = |text: &'static str| Frame::parse(&Bytes::from_static(text.as_bytes())).and_then(Frame::unambiguous);
        let malformed =
            read(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","Name":"b"}}"#).unwrap_err();
        assert_eq!((malformed.to_error().code(), malformed.id()), (-32602, Some(&RequestId::number(7))));
        let batch = r#"[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"ProgressToken":2}},
            {"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":"q","result":{"_meta":{},"_META":{}}}]"#;
        let Ok(Frame::Batch(messages)) = read(batch) else { panic!("a batch") };
        assert_eq!(messages.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, true]);
    }

    #[test]
    fn an_answer_with_a_null_member_is_read_as_without_it() {
        let read = |members: &str| Message::parse(&format!(r#"{{"jsonrpc":"2\u002e0","id":"7",{members}}}"#).into());
        let result = read(r#""result":{},"error":null"#).unwrap();
        assert!(matches!(result, Message::Response { outcome: Ok(result), .. } if result == "{}"));
        let error = read(r#""result":null,"error":{"code":-1,"message":"no"}"#).unwrap();
        assert!(matches!(error, Message::Response { outcome: Err(error), .. } if error.code() == -1));
    }

    #[test]
    fn an_answer_that_cannot_be_read_names_its_request() {
        for text in [
            r#"{"jsonrpc":"2.0","id":7,"result":null,"error":null}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{},"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":[-32000,"x"]}"#,
            r#"{"jsonrpc":"1.0","id":7,"result":{}}"#,
        ] {
            assert!(
                matches!(parse(text), Err(Malformed::BrokenAnswer { id, .. }) if id == RequestId::number(7)),
                "{text}"
            );
        }
        for text in [
            r#"{"id":7,"result":{},"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"id":7,"result":{},"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"id":8,"result":{},"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"level":"info"}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"x","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":{},"error":{}}"#,
        ] {
            assert!(matches!(parse(text), Err(Malformed::NotAMessage { .. })), "{text}");
        }
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

    #[test]
    fn a_batch_that_is_too_long_is_refused_as_one() {
        let batch = |length: usize| Frame::parse(&format!("[{}]", vec!["1"; length].join(",")).into());
        assert!(matches!(batch(MAX_BATCH), Ok(Frame::Batch(messages)) if messages.len() == MAX_BATCH));
        let refused = batch(MAX_BATCH + 1).unwrap_err();
        assert_eq!((refused.to_error().code(), refused.id()), (-32600, None));
        assert_eq!(Frame::parse(&Bytes::from_static(b"[1,")), Err(Malformed::NotJson));
    }
}
