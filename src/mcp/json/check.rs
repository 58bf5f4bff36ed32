//! JSON validation (RFC 8259): reads each byte once, at any depth.

use std::ops::Range;

use crate::support::off_worker::debug_assert_off_worker;

/// Reads `text`. If it is an object, passes each member to `member`: the name as written, with its quotes, and the text
/// of the value. Returns `false` if the text is not JSON; then ignore the members passed so far.
pub(crate) fn check<'a>(text: &'a str, mut member: impl FnMut(&'a str, &'a str)) -> bool {
    debug_assert_off_worker(text.len());
    let mut reader = Reader { bytes: text.as_bytes(), at: 0, levels: Levels::default() };
    let mut show = |name: Range<usize>, value: Range<usize>| member(&text[name], &text[value]);
    reader.value(&mut show).is_some() && reader.at == text.len()
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    levels: Levels,
}

/// The open objects and arrays, one bit for each level; the innermost levels are in `word`.
#[derive(Default)]
struct Levels {
    depth: usize,
    word: u64,
    outer: Vec<u64>,
}

// === impl Reader ===

impl Reader<'_> {
    /// Reads one value and the white space around it.
    fn value(&mut self, show: &mut impl FnMut(Range<usize>, Range<usize>)) -> Option<()> {
        let (mut name, mut value) = (0..0, 0);
        loop {
            self.space();
            if self.levels.depth == 1 {
                value = self.at;
            }
            let is_object = match self.bytes.get(self.at)? {
                b'{' => Some(true),
                b'[' => Some(false),
                _ => None,
            };
            match is_object {
                None => self.scalar()?,
                Some(is_object) => {
                    self.at += 1;
                    self.space();
                    if !self.takes(if is_object { b'}' } else { b']' }) {
                        self.levels.push(is_object);
                        self.next_name(&mut name)?;
                        continue;
                    }
                }
            }
            loop {
                if self.levels.depth == 1 && self.levels.is_in_object() {
                    show(name.clone(), value..self.at);
                }
                self.space();
                if self.levels.depth == 0 {
                    return Some(());
                }
                if !self.takes(if self.levels.is_in_object() { b'}' } else { b']' }) {
                    break;
                }
                self.levels.pop();
            }
            self.takes(b',').then_some(())?;
            self.next_name(&mut name)?;
        }
    }

    /// Reads the name of the next member, if an object is open. Stores names of the outermost object in `name`.
    fn next_name(&mut self, name: &mut Range<usize>) -> Option<()> {
        if !self.levels.is_in_object() {
            return Some(());
        }
        self.space();
        let start = self.at;
        self.string()?;
        if self.levels.depth == 1 {
            *name = start..self.at;
        }
        self.space();
        self.takes(b':').then_some(())
    }

    fn scalar(&mut self) -> Option<()> {
        match self.bytes.get(self.at)? {
            b'"' => self.string(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    fn string(&mut self) -> Option<()> {
        self.takes(b'"').then_some(())?;
        loop {
            self.at += special(&self.bytes[self.at..])?;
            match self.bytes[self.at] {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => self.escape()?,
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<()> {
        self.at += match self.bytes.get(self.at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
            b'u' if self.bytes.get(self.at + 2..self.at + 6)?.iter().all(u8::is_ascii_hexdigit) => 6,
            _ => return None,
        };
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        self.takes(b'-');
        if !self.takes(b'0') {
            self.digits()?;
        }
        if self.takes(b'.') {
            self.digits()?;
        }
        if self.takes(b'e') || self.takes(b'E') {
            let _ = self.takes(b'+') || self.takes(b'-');
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (count > 0).then_some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let is_here = self.bytes[self.at..].starts_with(word);
        self.at += word.len();
        is_here.then_some(())
    }

    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Skips `byte` if it comes next.
    fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(is_next);
        is_next
    }
}

// === impl Levels ===

impl Levels {
    fn push(&mut self, is_object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.word);
        }
        self.word = self.word << 1 | u64::from(is_object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.word >>= 1;
        self.depth -= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.word = self.outer.pop().unwrap_or_default();
        }
    }

    const fn is_in_object(&self) -> bool {
        self.depth > 0 && self.word & 1 == 1
    }
}

/// Position of the first byte that a string cannot contain unescaped: a quote, a backslash, a control character. Reads
/// eight bytes at a time first, since most strings are short, then whole blocks.
pub(super) fn special(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        if index == FIRST_WORDS {
            return special_far(bytes, 8 * index);
        }
        if let Some(at) = special_in(*word) {
            return Some(8 * index + at);
        }
    }
    rest.iter().position(|byte| is_special(*byte)).map(|at| 8 * words.len() + at)
}

const FIRST_WORDS: usize = 16;

/// Position of the first special byte from `begin` on.
fn special_far(bytes: &[u8], begin: usize) -> Option<usize> {
    // checks every byte of a block, which the compiler vectorizes
    let is_plain = |block: &&[u8; 64]| !block.iter().fold(false, |found, byte| found | is_special(*byte));
    let (blocks, _) = bytes[begin..].as_chunks::<64>();
    let end = begin + 64 * blocks.iter().take_while(is_plain).count();
    bytes[end..].iter().position(|byte| is_special(*byte)).map(|at| end + at)
}

const fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | ..b' ')
}

/// Position of the first special byte in a word.
const fn special_in(word: [u8; 8]) -> Option<usize> {
    let word = u64::from_le_bytes(word);
    // the highest bit of each matching byte, up to the first match; bits of later bytes may be set too
    let control = word.wrapping_sub(each(b' ')) & !word;
    let (quote, backslash) = (word ^ each(b'"'), word ^ each(b'\\'));
    let found = control | quote.wrapping_sub(each(1)) & !quote | backslash.wrapping_sub(each(1)) & !backslash;
    match found & each(0x80) {
        0 => None,
        found => Some(found.trailing_zeros() as usize / 8),
    }
}

const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};
    use serde_json::value::RawValue;

    use super::*;

    /// Parts of JSON, valid and nearly valid.
    const PARTS: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        " ",
        "\n",
        "\"",
        "\\",
        "\"a\"",
        "\"\u{e9}long enough for words\"",
        "\"\\u00e9\"",
        "\"\\u00g9\"",
        "\"\\n\\/\"",
        "\"\\x\"",
        "\"\u{1}\"",
        "\"\u{7f}\"",
        "0",
        "-1.5e+3",
        "01",
        "1.",
        "-",
        "+1",
        "1e",
        "true",
        "nul",
        "null",
        "\"k\":",
        "{\"k\":[1,{}]}",
        "[[]]",
        "\u{a0}",
    ];

    fn members(text: &str) -> Option<Vec<(&str, &str)>> {
        let mut members = Vec::new();
        check(text, |name, value| members.push((name, value))).then_some(members)
    }

    fn is_json(text: &str) -> bool {
        serde_json::from_str::<&RawValue>(text).is_ok()
    }

    proptest! {
        #[test]
        fn json_is_what_others_take_for_it(parts in vec(select(PARTS), 0..12)) {
            let text = parts.concat();
            prop_assert_eq!(members(&text).is_some(), is_json(&text), "{}", text);
        }

        #[test]
        fn a_string_ends_where_others_say(text in "\\PC{0,30}", cut in 0..40_usize) {
            let written = serde_json::to_string(&text).unwrap();
            prop_assert!(members(&written).is_some());
            let cut: String = written.chars().take(cut).chain(written.chars().skip(cut + 1)).collect();
            prop_assert_eq!(members(&cut).is_some(), is_json(&cut), "{}", cut);
        }
    }

    #[test]
    fn a_special_byte_is_found_wherever_it_stands() {
        for length in 0..300 {
            let plain = vec![b'\xe9'; length];
            assert_eq!(special(&plain), None, "{length}");
            for byte in [b'"', b'\\', b'\n', 0] {
                let text = [&*plain, &[byte], b"z\0\""].concat();
                assert_eq!(special(&text), Some(length), "{length} {byte}");
            }
        }
    }

    #[test]
    fn the_outermost_members_are_shown() {
        let text = r#" { "a" : {"b":1} ,"c":[ {"d":2}, [] ],"a":"}" , "e":{} } "#;
        let expected =
            [(r#""a""#, r#"{"b":1}"#), (r#""c""#, r#"[ {"d":2}, [] ]"#), (r#""a""#, r#""}""#), (r#""e""#, "{}")];
        assert_eq!(members(text).unwrap(), expected);
        for text in ["[{\"a\":1}]", "3", "{}"] {
            assert_eq!(members(text), Some(Vec::new()), "{text}");
        }
    }

    #[test]
    fn levels_are_told_apart_at_any_depth() {
        for depth in [1, 63, 64, 65, 128, 129, 1_000, 100_000] {
            let text = format!("{}{}", "[{\"a\":".repeat(depth), "}]".repeat(depth)).replace(":}", ":1}");
            assert!(members(&text).is_some(), "{depth}");
            let crossed = format!("{}{}", "[{\"a\":".repeat(depth), "]}".repeat(depth)).replace(":]", ":1]");
            assert!(members(&crossed).is_none(), "{depth}");
        }
    }
}
