//! Classification of JSON-RPC messages and batches. Input: a seed byte, and a text.
//!
//! Oracles: the rules of the envelope, written again over a tree of `serde_json`; another spelling of the same value is the
//! same message; a message that is written is read as the same.

use bytes::Bytes;
use lockkeeper::mcp::{
    Message, Method, Payload, RequestId, Revision,
    jsonrpc::{Frame, Malformed},
};
use serde_json::value::RawValue;

use super::{
    input::{Dice, Speller},
    tree::{Members, Tree},
};

/// What a text is.
#[derive(Debug, PartialEq)]
enum Class {
    Request { id: Tree, method: String, params: Option<Tree> },
    Notification { method: String, params: Option<Tree> },
    Result { id: Tree, result: Tree },
    Error { id: Option<Tree>, code: i64 },
    Broken { id: Tree },
    NotAMessage { id: Option<Tree> },
    NotJson,
}

const NAMES: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut dice = Dice::new(data);
    let seed = dice.byte();
    let text = Bytes::copy_from_slice(dice.rest());
    let read = Frame::parse(&text);
    let is_json = serde_json::from_slice::<&RawValue>(&text).is_ok();
    assert_eq!(matches!(read, Err(Malformed::NotJson)), !is_json, "{text:?}");
    let _ = Frame::parse(&text).and_then(Frame::unambiguous);
    let Some(tree) = std::str::from_utf8(&text).ok().and_then(Tree::read) else { return };
    compare(&read, &tree, &text);
    for spelling in 0..2 {
        let respelled = Bytes::from(Speller::new(u64::from(seed) << 8 | spelling).respell(&tree));
        let again = Frame::parse(&respelled);
        compare(&again, &tree, &respelled);
        let ways = |frame: Result<Frame, Malformed>| kinds(&frame.and_then(Frame::unambiguous));
        assert_eq!(ways(again), ways(read.clone()), "{text:?} as {respelled:?}");
    }
    if let Ok(frame) = read {
        let messages = match frame {
            Frame::Single(message) => vec![message],
            Frame::Batch(messages) => messages.into_iter().flatten().collect(),
        };
        for message in messages {
            encoded(&message);
        }
    }
}

/// Texts like these.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":1}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":0.5}}"#,
        r#"{"jsonrpc":"2.0","id":"a","result":{"content":[]}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},1]"#,
        r#"{"jsonrpc":"2.0","id":1,"method":null,"params":null,"error":"no"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[],"result":null}"#,
    ];
    texts.into_iter().map(|text| [b"0", text.as_bytes()].concat()).collect()
}

fn compare(read: &Result<Frame, Malformed>, tree: &Tree, text: &Bytes) {
    match (read, tree) {
        (Ok(Frame::Batch(messages)), Tree::Array(elements)) => {
            assert_eq!(messages.len(), elements.len(), "{text:?}");
            for (message, element) in messages.iter().zip(elements) {
                assert_eq!(class_of(message), expected(element), "{element} in {text:?}");
            }
        }
        (Err(Malformed::NotAMessage { id: None, .. }), Tree::Array(elements)) => {
            assert!(elements.is_empty() || elements.len() > 10_000, "{text:?}");
        }
        (_, Tree::Array(_)) => panic!("{read:?} of {text:?}"),
        (Ok(Frame::Single(message)), tree) => {
            assert_eq!(class_of(&Ok(message.clone())), expected(tree), "{text:?}");
        }
        (Err(malformed), tree) => assert_eq!(class_of(&Err(malformed.clone())), expected(tree), "{text:?}"),
        (Ok(Frame::Batch(_)), _) => panic!("a batch of {text:?}"),
    }
}

fn tree_of(text: &[u8]) -> Tree {
    std::str::from_utf8(text).ok().and_then(Tree::read).expect("a part of a valid text")
}

fn class_of(read: &Result<Message, Malformed>) -> Class {
    let id_of = |id: &RequestId| tree_of(id.json());
    let params_of = |params: &[u8]| (!params.is_empty()).then(|| tree_of(params));
    match read {
        Ok(Message::Request { id, method, params }) => {
            Class::Request { id: id_of(id), method: method.as_str().to_owned(), params: params_of(params) }
        }
        Ok(Message::Notification { method, params }) => {
            Class::Notification { method: method.as_str().to_owned(), params: params_of(params) }
        }
        Ok(Message::Response { id, outcome: Ok(result) }) => {
            Class::Result { id: id_of(id.as_ref().expect("an id")), result: tree_of(result) }
        }
        Ok(Message::Response { id, outcome: Err(error) }) => {
            let written = tree_of(error.json());
            let code = written.get("code").and_then(|code| code.to_string().parse().ok());
            assert_eq!(code, Some(error.code()));
            Class::Error { id: id.as_ref().map(id_of), code: error.code() }
        }
        Err(Malformed::BrokenAnswer { id, .. }) => Class::Broken { id: id_of(id) },
        Err(malformed @ (Malformed::NotAMessage { .. } | Malformed::InvalidParams { .. })) => {
            Class::NotAMessage { id: malformed.id().map(id_of) }
        }
        Err(Malformed::NotJson) => Class::NotJson,
    }
}

/// The rules of the envelope.
fn expected(tree: &Tree) -> Class {
    let Some(Members(members)) = tree.members() else { return Class::NotAMessage { id: None } };
    let count = |name: &str| members.iter().filter(|(held, _)| held == name).count();
    let first = |name: &str| members.iter().find(|(held, _)| held == name).map(|(_, value)| value);
    let is_id = |id: &Tree| match id {
        Tree::Text(_) => true,
        Tree::Literal(text) => text.starts_with(|first: char| first == '-' || first.is_ascii_digit()),
        _ => false,
    };
    let id = first("id").filter(|id| count("id") == 1 && is_id(id)).cloned();
    let is_null = |value: Option<&Tree>| matches!(value, Some(Tree::Literal(text)) if text == "null");
    let there = |name: &str| first(name).filter(|value| !is_null(Some(value)));
    let is_empty_list = |value: &Tree| matches!(value, Tree::Array(elements) if elements.is_empty());
    let method = there("method");
    let of_answer = |name: &str| if method.is_some() { there(name) } else { first(name) };
    let (result, error) = (of_answer("result"), of_answer("error"));
    let is_answer = first("jsonrpc").is_some() && method.is_none() && (result.is_some() || error.is_some());
    let refused = match id.clone() {
        Some(id) if is_answer => Class::Broken { id },
        id => Class::NotAMessage { id },
    };
    let is_misspelled =
        members.iter().any(|(name, _)| NAMES.iter().any(|meant| name != meant && folded(name) == folded(meant)));
    if NAMES.iter().any(|name| count(name) > 1)
        || is_misspelled && method.is_some()
        || first("jsonrpc").and_then(Tree::text) != Some("2.0")
    {
        return refused;
    }
    let answer = if is_null(result) { None } else { result };
    let failure = if is_null(error) { None } else { error };
    match (method, result, error) {
        (Some(Tree::Text(method)), None, None) => {
            let params = there("params").filter(|params| !is_empty_list(params)).cloned();
            match (first("id"), id) {
                _ if params.as_ref().is_some_and(|params| params.members().is_none()) => refused,
                (None, _) => Class::Notification { method: method.clone(), params },
                (_, Some(id)) => Class::Request { id, method: method.clone(), params },
                (Some(_), None) => Class::NotAMessage { id: None },
            }
        }
        (None, Some(_), None | Some(_)) if failure.is_none() && (answer.is_some() || error.is_none()) => match id {
            Some(id) => Class::Result { id, result: result.cloned().unwrap_or(Tree::Literal("null".to_owned())) },
            None => Class::NotAMessage { id: None },
        },
        (None, _, Some(error)) if answer.is_none() && failure.is_some() => match code(error) {
            Some(code) => Class::Error { id, code },
            None => refused,
        },
        _ => refused,
    }
}

fn code(error: &Tree) -> Option<i64> {
    if let Tree::Text(_) = error {
        return Some(-32603);
    }
    error.get("message")?;
    match error.get("code")? {
        Tree::Literal(text) => text.parse().ok(),
        Tree::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Simple folding of the names, which are ASCII: two characters beyond ASCII fold into it.
fn folded(name: &str) -> String {
    name.replace('\u{17f}', "s").replace('\u{212a}', "k").to_ascii_lowercase()
}

/// What each message is, and the code of its error.
fn kinds(frame: &Result<Frame, Malformed>) -> Vec<(Class, Option<i64>)> {
    let kind = |message: &Result<Message, Malformed>| {
        (class_of(message), message.as_ref().err().map(|malformed| malformed.to_error().code()))
    };
    match frame {
        Ok(Frame::Single(message)) => vec![kind(&Ok(message.clone()))],
        Ok(Frame::Batch(messages)) => messages.iter().map(kind).collect(),
        Err(malformed) => vec![kind(&Err(malformed.clone()))],
    }
}

fn encoded(message: &Message) {
    let text = message.encode();
    assert_eq!(message.encode_in_parts().concat(), text);
    let again = Message::parse(&text);
    assert_eq!(class_of(&again), class_of(&Ok(message.clone())), "{text:?}");
    // but for Unicode's line separators, which are escaped
    assert!(text.windows(2).any(|two| two == b"\\u") || again.as_ref() == Ok(message), "{text:?}");
    assert_eq!(again.map(|message| message.encode()).as_ref(), Ok(&text));
    let params = match message {
        Message::Request { params, method, .. } | Message::Notification { params, method } => (params, method),
        Message::Response { .. } => return,
    };
    let payload = Payload::of_params(Revision::NEWEST, params.0.clone());
    let is_ambiguous = lockkeeper::fuzzing::is_ambiguous(&Method::parse(params.1.as_str()), &payload);
    let read = Frame::parse(&text).and_then(Frame::unambiguous);
    assert_eq!(matches!(read, Err(Malformed::InvalidParams { .. })), is_ambiguous, "{text:?}");
}
