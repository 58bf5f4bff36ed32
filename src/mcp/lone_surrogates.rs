//! Halves of surrogate pairs in JSON texts, left when a program cuts a text in the middle of an emoji. JSON's grammar
//! allows their escapes, but many parsers refuse the whole text because of one.

use std::borrow::Cow;

use memchr::memchr;

/// The escape for U+FFFD, as long as the escape for a half.
const REPLACEMENT: &[u8] = br"\ufffd";

/// Replaces each half without its other half by U+FFFD; does not copy a text without any.
pub(super) fn replaced(text: &[u8]) -> Cow<'_, [u8]> {
    let mut written = Cow::Borrowed(text);
    let mut at = 0;
    // every escape, because `\\ud83d`, an escaped backslash before letters, is no surrogate
    while let Some(found) = memchr(b'\\', &text[at..]) {
        at += found;
        match unit(&text[at..]) {
            Some(0xd800..=0xdbff) if matches!(unit(&text[at + 6..]), Some(0xdc00..=0xdfff)) => at += 12,
            Some(0xd800..=0xdfff) => {
                written.to_mut()[at..at + 6].copy_from_slice(REPLACEMENT);
                at += 6;
            }
            Some(_) => at += 6,
            None => at = (at + 2).min(text.len()),
        }
    }
    written
}

/// The UTF-16 code unit that the text begins with as an escape, if it does.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_replaced_and_everything_else_stays() {
        for (text, expected) in [
            (r#"{"a":"cut \ud83d"}"#, r#"{"a":"cut \ufffd"}"#),
            (r#"["\uDE00","\ud83d\ud83d\ude00","\ud83dx"]"#, r#"["\ufffd","\ufffd\ud83d\ude00","\ufffdx"]"#),
        ] {
            assert_eq!(replaced(text.as_bytes()), expected.as_bytes(), "{text}");
        }
        for text in
            [r#""\ud83d\ude00""#, r#""\\ud83d""#, r#""\u00e4 \n \"""#, r#""\"#, r#""\u12"#, "{}", "", "\"\u{1f600}\""]
        {
            assert!(matches!(replaced(text.as_bytes()), Cow::Borrowed(same) if same == text.as_bytes()), "{text}");
        }
    }
}
