//! JSON read token by token in one pass: whatever its depth, the cost is its length. Knows nothing of MCP.

use std::ops::Range;

use serde_json::Value;

/// One token of a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    /// `{`
    OpenObject,
    /// `[`
    OpenArray,
    /// `}` or `]`
    Close,
    /// A member name, with its quotes.
    Key(&'a str),
    /// A string with its quotes, a number, `true`, `false` or `null`.
    Scalar(&'a str),
}

/// The tokens of a JSON text, with where they lie. A text that is no JSON gives some tokens and ends.
#[derive(Debug)]
pub struct Tokens<'a> {
    text: &'a str,
    at: usize,
    /// For each open level whether it is an object.
    levels: Vec<bool>,
    /// Whether a string would be a member name.
    name_next: bool,
}

// === impl Tokens ===

impl<'a> Tokens<'a> {
    /// The tokens of `text`.
    pub const fn of(text: &'a str) -> Self {
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
                    let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
                    self.at = bytes[start..].iter().position(ends).map_or(bytes.len(), |length| start + length);
                    Token::Scalar(self.text.get(start..self.at)?)
                }
            };
            return Some((token, start..self.at));
        }
    }
}

/// The text without the white space between its tokens.
pub fn compact(text: &str) -> String {
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

/// A value to compare others with: members in any order, numbers by what they count. What is too deep or too large to be
/// read so is compared as it is written.
#[derive(Debug)]
pub struct Measure {
    value: Option<Value>,
    compact: String,
}

// === impl Measure ===

impl Measure {
    /// The value of `text`.
    pub fn of(text: &str) -> Self {
        Self { value: serde_json::from_str(text).ok(), compact: compact(text) }
    }

    /// Whether `text` is the same value. Costs no more than the length of `text`.
    pub fn is(&self, text: &str) -> bool {
        match (&self.value, serde_json::from_str(text)) {
            (Some(value), Ok(other)) => same(value, &other),
            _ => self.compact == compact(text),
        }
    }
}

/// `serde_json` reads at most 128 levels, so the recursion is bounded.
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

/// Where the string that begins at `start` ends, its closing quote included.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
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
    fn what_is_no_json_is_no_danger() {
        for text in ["\"", "\"\\", "{\"", "]]]", "{\"a", "[1", "é"] {
            assert!(Tokens::of(text).count() < 10);
            compact(text);
        }
    }
}
