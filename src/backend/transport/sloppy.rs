//! Texts that are almost messages. They are tried only after strict parsing has failed.
//!
//! Programs print texts of their callers among their messages. So a line with other text in front of its `{` is not
//! read as a message: it could answer another user's call.

use std::borrow::Cow;

use bytes::Bytes;

use crate::{
    mcp::{
        Message, RequestId, json,
        jsonrpc::{Frame, Malformed},
    },
    support::printable,
};

/// Maximum number of characters of a prompt in front of a message.
const MAX_PROMPT: usize = 4;
/// Number of braces in a line at which the first message is looked for.
const MAX_STARTS: usize = 16;
const PROMPT: &[u8] = b">$#%: ";
const BOM: &[u8] = "\u{feff}".as_bytes();

/// A lenient reading of a text.
pub(super) enum SloppyReading {
    Frame(Frame),
    /// An answer that cannot be read; its id is the only one in it.
    Broken(RequestId),
}

/// Members of a text that may be the answer to a request, as far as they can be read.
#[derive(Default)]
struct AnswerMembers {
    has_version: bool,
    has_outcome: bool,
    ids: Vec<RequestId>,
}

/// The message at the end of `line`: after white space, a byte order mark, control characters, terminal sequences such
/// as colours, and a short prompt. `None` if other text comes first.
pub(super) fn without_prefix(line: &Bytes) -> Option<Bytes> {
    let (mut rest, mut prompt) = (&line[..], 0);
    loop {
        rest = match rest {
            [b'{', ..] => return Some(line.slice_ref(without_suffix(rest))),
            [0x1b, sequence @ ..] => after_sequence(sequence),
            [byte, after @ ..] if byte.is_ascii_control() => after,
            [byte, after @ ..] if PROMPT.contains(byte) && prompt < MAX_PROMPT => {
                prompt += 1;
                after
            }
            text => text.strip_prefix(BOM)?,
        };
    }
}

/// The message at the end of `line`, after any other text: what a program prints before its first message may lack a
/// line end.
pub(super) fn after_banner(line: &Bytes) -> Option<Bytes> {
    let starts = line.iter().enumerate().filter(|(_, byte)| **byte == b'{').take(MAX_STARTS);
    starts.map(|(at, _)| line.slice(at..)).find(|text| Message::parse(text).is_ok())
}

/// Tries to read a text that is not a message.
pub(super) fn read(text: &Bytes, malformed: &Malformed) -> Option<SloppyReading> {
    if let Malformed::NotAMessage { id: None, .. } = malformed {
        return read_notification(text);
    }
    if *malformed != Malformed::NotJson {
        return None;
    }
    let text = without_prefix(text)?;
    let text: Bytes = match String::from_utf8_lossy(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(repaired) => repaired.into(),
    };
    match Frame::parse(&text) {
        Ok(frame) => Some(SloppyReading::Frame(frame)),
        Err(Malformed::BrokenAnswer { id, .. }) => Some(SloppyReading::Broken(id)),
        Err(Malformed::NotJson) => AnswerMembers::of(&text).answered().map(SloppyReading::Broken),
        Err(_) => None,
    }
}

/// The first 200 bytes of a text, printable, for the log.
pub(super) fn start(text: &[u8]) -> String {
    printable(&String::from_utf8_lossy(&text[..text.len().min(200)]))
}

/// A notification with a null id.
fn read_notification(text: &Bytes) -> Option<SloppyReading> {
    let object = json::Object::parse(text)?;
    let is_meant = object.get("id") == Some("null") && object.string("method")?.starts_with("notifications/");
    let text = json::without_member(text, "id");
    let frame = Frame::parse(&text).ok().filter(|_| is_meant)?;
    Some(SloppyReading::Frame(frame))
}

/// The text after a terminal sequence (ECMA-48), whose escape character comes before `sequence`: parameters and a
/// letter, or anything up to a bell.
fn after_sequence(sequence: &[u8]) -> &[u8] {
    let end = match sequence {
        [b'[', parameters @ ..] => parameters.iter().position(|byte| (0x40..=0x7e).contains(byte)).map(|at| at + 2),
        [b']', text @ ..] => text.iter().position(|byte| *byte == 0x07 || *byte == 0x1b).map(|at| at + 2),
        _ => Some(1),
    };
    sequence.get(end.unwrap_or(sequence.len())..).unwrap_or_default()
}

/// Removes terminal sequences and control characters at the end.
fn without_suffix(text: &[u8]) -> &[u8] {
    let mut text = text;
    loop {
        let trimmed = text.trim_ascii_end();
        let escape = trimmed.iter().rposition(|byte| *byte == 0x1b);
        let is_end = |at: &usize| trimmed.get(at + 1..).is_some_and(|after| after_sequence(after).is_empty());
        text = match (trimmed, escape.filter(is_end)) {
            (_, Some(at)) => &trimmed[..at],
            ([before @ .., byte], None) if byte.is_ascii_control() => before,
            (trimmed, None) => return trimmed,
        };
    }
}

// === impl AnswerMembers ===

impl AnswerMembers {
    /// Finds the top-level members of the first object in `text`, which is not valid JSON. Strings may contain any
    /// bytes.
    fn of(text: &Bytes) -> Self {
        let (mut members, mut depth, mut at) = (Self::default(), 0_usize, 0);
        while let Some(byte) = text.get(at) {
            match byte {
                b'"' => {
                    let end = end_of_string(text, at);
                    let value = text.slice(at..end);
                    at = end;
                    if depth == 1 && text[at..].trim_ascii_start().starts_with(b":") {
                        at = text.len() - text[at..].trim_ascii_start().len() + 1;
                        members.note(&value, &text.slice(at..));
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            at += 1;
            if depth == 0 {
                break;
            }
        }
        members
    }

    /// Records a member, from its quoted name and the text after its colon.
    fn note(&mut self, name: &[u8], after: &Bytes) {
        match name {
            b"\"jsonrpc\"" => self.has_version = true,
            b"\"result\"" | b"\"error\"" => self.has_outcome = true,
            b"\"id\"" => {
                let value = after.slice_ref(after.trim_ascii_start());
                let end = match value.first() {
                    Some(b'"') => end_of_string(&value, 0),
                    _ => {
                        value.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'.')).unwrap_or(value.len())
                    }
                };
                self.ids.extend(RequestId::read(&value.slice(..end)));
            }
            _ => {}
        }
    }

    /// Id of the request that the text answers; `None` if it is not clearly an answer.
    fn answered(mut self) -> Option<RequestId> {
        let is_answer = self.has_version && self.has_outcome && self.ids.len() == 1;
        self.ids.pop().filter(|_| is_answer)
    }
}

/// Position after the string that begins at `start`.
fn end_of_string(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixed(text: &str) -> Option<String> {
        without_prefix(&Bytes::copy_from_slice(text.as_bytes())).map(|text| String::from_utf8(text.to_vec()).unwrap())
    }

    fn broken(text: &[u8]) -> Option<String> {
        match read(&Bytes::copy_from_slice(text), &Malformed::NotJson) {
            Some(SloppyReading::Broken(id)) => Some(String::from_utf8(id.json().to_vec()).unwrap()),
            _ => None,
        }
    }

    #[test]
    fn a_message_may_follow_marks_of_a_terminal_and_a_short_prompt_and_nothing_else() {
        for before in [
            "",
            "\u{feff}",
            "\0\0",
            "\x1b[32m",
            "\x1b[0;1m\x1b[K",
            "\x1b]0;title\x07",
            "> ",
            "$ ",
            ">>> ",
            "\r\x1b[2K\t",
        ] {
            assert_eq!(prefixed(&format!("{before}{{\"a\":1}}\x1b[0m")).as_deref(), Some("{\"a\":1}"), "{before:?}");
        }
        for before in ["LOG: ", ">>>>>", "0", "\u{e9}", "a\x1b[m", "[", "\u{a0}", "\"x\" "] {
            assert_eq!(prefixed(&format!("{before}{{\"a\":1}}")), None, "{before:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_become_replacement_characters() {
        let text = Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"caf\xe9\"}}");
        let Some(SloppyReading::Frame(Frame::Single(message))) = read(&text, &Malformed::NotJson) else { panic!() };
        assert_eq!(message, Message::result(RequestId::number(1), "{\"a\":\"caf\u{fffd}\"}".into()));
    }

    #[test]
    fn a_broken_answer_names_its_only_id() {
        let answer =
            |id: &str, result: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}").into_bytes();
        for (text, id) in [
            (answer("7", "{\"a\":\"x\ty\"}"), Some("7")),
            (answer("7", "NaN"), Some("7")),
            (answer("7", "{\"text\":\"cut of"), Some("7")),
            (answer("\"7\"", "{'a':1}"), Some("\"7\"")),
            (answer("7.0", "{,}"), Some("7.0")),
            (answer("7,\"id\":8", "{,}"), None),
            (answer("null", "{,}"), None),
            (answer("7", "{\"id\":8,,}"), Some("7")),
            (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"x\",}".to_vec(), None),
            (b"{\"id\":7,\"result\":{,}}".to_vec(), None),
            // the second object belongs to other text
            (b"{\"level\":\"info\"}{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}".to_vec(), None),
            (b"{\"log\":{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}},}".to_vec(), None),
            (b"said {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{,}}".to_vec(), None),
        ] {
            assert_eq!(broken(&text).as_deref(), id, "{}", String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn what_a_program_prints_before_its_first_message_may_have_no_line_end() {
        let message = r#"{"jsonrpc":"2.0","id":0,"result":{}}"#;
        let line = |before: &str| Bytes::from(format!("{before}{message}"));
        assert_eq!(after_banner(&line("Ready {v1} ")).unwrap(), message);
        assert!(after_banner(&Bytes::from_static(b"Ready {v1}")).is_none());
    }

    #[test]
    fn a_notification_whose_id_is_null_is_one() {
        let text = r#"{"jsonrpc":"2.0","id":null,"method":"notifications/progress","params":{}}"#;
        let malformed = Frame::parse(&Bytes::from(text)).unwrap_err();
        let read = read(&Bytes::from(text), &malformed);
        assert!(matches!(read, Some(SloppyReading::Frame(Frame::Single(Message::Notification { .. })))));
    }
}
