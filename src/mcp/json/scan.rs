//! JSON tokens in one pass; the cost depends on the length of the text, not on its depth.

use std::ops::Range;

use serde_json::Value;

use crate::support::off_worker::debug_assert_off_worker;

/// One token of a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    OpenObject,
    OpenArray,
    /// The end of an object or array.
    Close,
    /// A member name, with its quotes.
    Key(&'a str),
    /// A string with its quotes, a number, `true`, `false` or `null`.
    Scalar(&'a str),
}

/// Tokens of a JSON text, with their positions. Invalid JSON yields some tokens, then ends.
#[derive(Debug)]
pub struct Tokens<'a> {
    text: &'a str,
    at: usize,
    /// For each open level, true if it is an object.
    levels: Vec<bool>,
    /// True if a string would be a member name.
    name_next: bool,
}

// === impl Tokens ===

impl<'a> Tokens<'a> {
    /// Reads the tokens of `text`.
    pub fn of(text: &'a str) -> Self {
        debug_assert_off_worker(text.len());
        Self { text, at: 0, levels: Vec::new(), name_next: false }
    }

    fn opened(&mut self, is_object: bool) -> Token<'a> {
        self.levels.push(is_object);
        self.name_next = is_object;
        if is_object { Token::OpenObject } else { Token::OpenArray }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = (Token<'a>, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.text.as_bytes();
        loop {
            let start = self.at;
            let byte = *bytes.get(start)?;
            self.at += 1;
            let token = match byte {
                b',' => {
                    self.name_next = self.levels.last().copied().unwrap_or_default();
                    continue;
                }
                b':' | b' ' | b'\t' | b'\r' | b'\n' => continue,
                b'{' => self.opened(true),
                b'[' => self.opened(false),
                b'}' | b']' => {
                    self.levels.pop();
                    self.name_next = false;
                    Token::Close
                }
                b'"' => {
                    self.at = end_of_string(bytes, start);
                    let string = self.text.get(start..self.at)?;
                    if std::mem::take(&mut self.name_next) { Token::Key(string) } else { Token::Scalar(string) }
                }
                _ => {
                    self.at = end_of_word(bytes, start);
                    Token::Scalar(self.text.get(start..self.at)?)
                }
            };
            return Some((token, start..self.at));
        }
    }
}

/// The members of one JSON object: each name as written, with its quotes, and the text of its value. Allocates nothing,
/// and skips the content of values. The text must be valid JSON; other text yields some members, then ends.
#[derive(Debug)]
pub struct Members<'a> {
    text: &'a str,
    at: usize,
}

// === impl Members ===

impl<'a> Members<'a> {
    /// The members of `text`; none if it is not an object.
    pub fn of(text: &'a str) -> Self {
        debug_assert_off_worker(text.len());
        let open = text.bytes().position(|byte| !byte.is_ascii_whitespace());
        let at = open.filter(|open| text.as_bytes()[*open] == b'{').map_or(text.len(), |open| open + 1);
        Self { text, at }
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.text.as_bytes();
        // only a comma and white space separate two members
        let name = self.at + bytes.get(self.at..)?.iter().position(|byte| *byte == b'"')?;
        let name = name..end_of_string(bytes, name);
        let between = |byte: &u8| matches!(byte, b':' | b' ' | b'\t' | b'\r' | b'\n');
        let value = name.end + bytes.get(name.end..)?.iter().position(|byte| !between(byte))?;
        let value = value..end_of_value(bytes, value);
        self.at = value.end;
        Some((self.text.get(name)?, self.text.get(value)?))
    }
}

/// The elements of one JSON array. Allocates nothing, and skips the content of elements. The text must be valid JSON;
/// other text yields some elements, then ends.
#[derive(Debug)]
pub struct Elements<'a> {
    text: &'a str,
    at: usize,
}

// === impl Elements ===

impl<'a> Elements<'a> {
    /// The elements of `text`; none if it is not an array.
    pub fn of(text: &'a str) -> Self {
        debug_assert_off_worker(text.len());
        let open = text.bytes().position(|byte| !byte.is_ascii_whitespace());
        let at = open.filter(|open| text.as_bytes()[*open] == b'[').map_or(text.len(), |open| open + 1);
        Self { text, at }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.text.as_bytes();
        let between = |byte: &u8| matches!(byte, b',' | b' ' | b'\t' | b'\r' | b'\n');
        let start = self.at + bytes.get(self.at..)?.iter().position(|byte| !between(byte))?;
        if matches!(bytes[start], b']' | b'}') {
            self.at = bytes.len();
            return None;
        }
        self.at = end_of_value(bytes, start);
        self.text.get(start..self.at)
    }
}

/// Removes the white space between tokens.
pub fn compact(text: &str) -> String {
    debug_assert_off_worker(text.len());
    let bytes = text.as_bytes();
    let mut compacted = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'"' => end_of_string(bytes, at),
            b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                continue;
            }
            _ => {
                let ends = |byte: &u8| matches!(byte, b'"' | b' ' | b'\t' | b'\r' | b'\n');
                bytes[at..].iter().position(ends).map_or(bytes.len(), |length| at + length)
            }
        };
        compacted.push_str(text.get(at..end).unwrap_or_default());
        at = end;
    }
    compacted
}

/// A value to compare with others: members may be in any order, and numbers are compared by value. Values that are too
/// deep or too large for that are compared as text.
#[derive(Debug)]
pub struct Measure {
    value: Option<Value>,
    compact: String,
}

// === impl Measure ===

impl Measure {
    pub fn of(text: &str) -> Self {
        Self { value: serde_json::from_str(text).ok(), compact: compact(text) }
    }

    /// True if `text` is the same value. The cost depends only on the length of `text`.
    pub fn is(&self, text: &str) -> bool {
        match (&self.value, serde_json::from_str(text)) {
            (Some(value), Ok(other)) => same(value, &other),
            _ => self.compact == compact(text),
        }
    }
}

/// The recursion is bounded, because `serde_json` reads at most 128 levels.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => one == other,
    }
}

/// End of the value that begins at `start`.
fn end_of_value(bytes: &[u8], start: usize) -> usize {
    match bytes.get(start) {
        Some(b'"') => end_of_string(bytes, start),
        Some(b'{' | b'[') => end_of_nested(bytes, start),
        Some(b'}' | b']') => start + 1,
        Some(_) => end_of_word(bytes, start),
        None => bytes.len(),
    }
}

/// End of the object or array that begins at `start`.
fn end_of_nested(bytes: &[u8], start: usize) -> usize {
    let (mut depth, mut at) = (1_usize, start + 1);
    while let Some(byte) = bytes.get(at) {
        match KINDS[usize::from(*byte)] {
            ByteKind::Other => at += 1,
            ByteKind::Quote => at = end_of_string(bytes, at),
            ByteKind::Open => {
                depth += 1;
                at += 1;
            }
            ByteKind::Close => {
                depth -= 1;
                at += 1;
                if depth == 0 {
                    return at;
                }
            }
        }
    }
    bytes.len()
}

/// Bytes, by their meaning outside of strings.
#[derive(Clone, Copy)]
enum ByteKind {
    Other,
    Quote,
    Open,
    Close,
}

static KINDS: [ByteKind; 256] = {
    let mut kinds = [ByteKind::Other; 256];
    kinds[b'"' as usize] = ByteKind::Quote;
    kinds[b'{' as usize] = ByteKind::Open;
    kinds[b'[' as usize] = ByteKind::Open;
    kinds[b'}' as usize] = ByteKind::Close;
    kinds[b']' as usize] = ByteKind::Close;
    kinds
};

/// End of the number or literal that begins at `start`.
fn end_of_word(bytes: &[u8], start: usize) -> usize {
    let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
    bytes[start..].iter().position(ends).map_or(bytes.len(), |length| start + length)
}

/// End of the string that begins at `start`, including the closing quote.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = bytes.get(at..).and_then(quote_or_escape) {
        if bytes[at + found] == b'"' {
            return at + found + 1;
        }
        at += found + 2;
    }
    bytes.len()
}

/// Position of the first quote or backslash. Reads eight bytes at a time first: most strings are short, and the faster
/// search has a start-up cost.
fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    let (words, _) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().take(FIRST_WORDS).enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zero_bytes(word ^ QUOTES) | zero_bytes(word ^ BACKSLASHES);
        if found != 0 {
            return Some(8 * index + found.trailing_zeros() as usize / 8);
        }
    }
    let begun = 8 * words.len().min(FIRST_WORDS);
    memchr::memchr2(b'"', b'\\', &bytes[begun..]).map(|found| begun + found)
}

const FIRST_WORDS: usize = 8;
const QUOTES: u64 = u64::from_le_bytes([b'"'; 8]);
const BACKSLASHES: u64 = u64::from_le_bytes([b'\\'; 8]);

/// The highest bit of each zero byte, up to the first one; bits of later bytes may be set too.
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(u64::from_le_bytes([1; 8])) & !word & u64::from_le_bytes([0x80; 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_strings() {
        let tokens: Vec<_> =
            Tokens::of(r#"{ "a\"":["b",-1.5e3] , "c" : {"d":null} }"#).map(|(token, _)| token).collect();
        assert_eq!(
            tokens,
            [
                Token::OpenObject,
                Token::Key(r#""a\"""#),
                Token::OpenArray,
                Token::Scalar(r#""b""#),
                Token::Scalar("-1.5e3"),
                Token::Close,
                Token::Key(r#""c""#),
                Token::OpenObject,
                Token::Key(r#""d""#),
                Token::Scalar("null"),
                Token::Close,
                Token::Close,
            ]
        );
    }

    #[test]
    fn white_space_goes_and_strings_stay() {
        assert_eq!(compact("{ \"a b\" : [ 1 ,\n\"é \\\" x\" ] }"), "{\"a b\":[1,\"é \\\" x\"]}");
    }

    fn same_value(one: &str, other: &str) -> bool {
        Measure::of(one).is(other)
    }

    #[test]
    fn values_are_the_same_however_they_are_spelt() {
        assert!(same_value(r#"{"a":1,"b":[1e2]}"#, r#"{ "b":[100], "a":1.0 }"#));
        assert!(!same_value(r#"{"a":1}"#, r#"{"a":1,"b":2}"#));
        assert!(same_value(r"[1e400]", r"[ 1e400 ]"));
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(same_value(&deep, &deep));
    }

    #[test]
    fn members_are_found_without_a_look_into_their_values() {
        let text = r#" { "a\"" : [ {"x":"]}"} ,2] ,"b":-1.5e3, "a\"":"\\" , "c" : {"d":{}} , "":null}"#;
        let members: Vec<_> = Members::of(text).collect();
        assert_eq!(
            members,
            [
                (r#""a\"""#, r#"[ {"x":"]}"} ,2]"#),
                (r#""b""#, "-1.5e3"),
                (r#""a\"""#, r#""\\""#),
                (r#""c""#, r#"{"d":{}}"#),
                (r#""""#, "null"),
            ]
        );
        assert_eq!(Members::of(r#"["a",{"b":1}]"#).count() + Members::of("{ }").count(), 0);
        let deep = format!(r#"{{"a":{}{},"b":1}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(Members::of(&deep).count(), 2);
    }

    #[test]
    fn elements_are_found_without_a_look_into_them() {
        let text = r#" [ {"a":"]}"} ,-1.5e3, ["x",[]],"\\\"," , null , {} ]"#;
        let elements: Vec<_> = Elements::of(text).collect();
        assert_eq!(elements, [r#"{"a":"]}"}"#, "-1.5e3", r#"["x",[]]"#, r#""\\\",""#, "null", "{}"]);
        assert_eq!(Elements::of("[ ]").count() + Elements::of(r#"{"a":[1]}"#).count() + Elements::of("3").count(), 0);
        let deep = format!("[{}{},1]", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(Elements::of(&deep).count(), 2);
    }

    #[test]
    fn a_string_ends_at_its_first_quote_that_is_not_escaped() {
        for length in 0..80 {
            for rest in ["", "x", "\"", "\\\"", "\u{a2}\u{dc}!#]["] {
                let inside = "\u{a2}y!#".repeat(length);
                let text = format!("\"{inside}\"{rest}");
                assert_eq!(end_of_string(text.as_bytes(), 0), inside.len() + 2, "{text}");
                let text = format!("\"{inside}\\\"{inside}\\\\\"{rest}");
                assert_eq!(end_of_string(text.as_bytes(), 0), 2 * inside.len() + 6, "{text}");
                let open = format!("\"{inside}");
                assert_eq!(end_of_string(open.as_bytes(), 0), open.len(), "{open}");
            }
        }
    }

    #[test]
    fn what_is_no_json_is_no_danger() {
        for text in ["\"", "\"\\", "{\"", "]]]", "{\"a", "[1", "é", "{\"a\":}", "{\"a\"", "{}]\"a\":1", "{\"a\":]"] {
            assert!(Tokens::of(text).count() < 10);
            assert!(Members::of(text).count() < 3 && Elements::of(text).count() < 3);
            compact(text);
        }
    }
}
