//! Unicode's line separators in JSON texts: U+2028, U+2029 and U+0085. JSON allows them unescaped in strings, but some
//! readers of lines and event streams split there. So the gateway writes them as escapes.

use bytes::Bytes;
use memchr::memchr2;

/// Escapes these characters; does not copy a text without any.
pub(super) fn escaped(text: Bytes) -> Bytes {
    // excludes most texts, faster than a search for such a byte
    if is_ascii(&text) {
        return text;
    }
    let (mut written, mut copied, mut at) = (Vec::new(), 0, 0);
    // the first UTF-8 bytes of these characters
    while let Some(found) = memchr2(0xc2, 0xe2, &text[at..]) {
        at += found;
        let (length, escape) = match &text[at..] {
            [0xc2, 0x85, ..] => (2, br"\u0085"),
            [0xe2, 0x80, 0xa8, ..] => (3, br"\u2028"),
            [0xe2, 0x80, 0xa9, ..] => (3, br"\u2029"),
            _ => {
                at += 1;
                continue;
            }
        };
        written.extend_from_slice(&text[copied..at]);
        written.extend_from_slice(escape);
        at += length;
        copied = at;
    }
    if copied == 0 {
        return text;
    }
    written.extend_from_slice(&text[copied..]);
    written.into()
}

/// Like the standard method of this name, which checks up to 31 bytes one by one: many messages are that short.
fn is_ascii(text: &[u8]) -> bool {
    let (words, rest) = text.as_chunks::<8>();
    let seen = words.iter().fold(0, |seen, word| seen | u64::from_ne_bytes(*word));
    // the last eight bytes, some of them again
    let last = match text.last_chunk() {
        Some(last) => u64::from_ne_bytes(*last),
        None => rest.iter().fold(0, |seen, byte| seen | u64::from(*byte)),
    };
    (seen | last) & 0x8080_8080_8080_8080 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_beyond_ascii_is_seen_wherever_it_is() {
        for length in 0..40 {
            let mut text = vec![b'a'; length];
            assert!(is_ascii(&text), "{length}");
            for at in 0..length {
                text[at] = 0xc2;
                assert!(!is_ascii(&text), "{at} of {length}");
                text[at] = b'a';
            }
        }
    }

    #[test]
    fn each_separator_becomes_the_escape_that_means_the_same() {
        let near = "\u{2027}\u{202a}\u{a0}\u{e9}\u{201c}";
        let value = format!("a\u{2028}\u{2029}b\u{85}{near}\u{2028}");
        let written = escaped(format!("\"{value}\"").into());
        assert_eq!(written, format!(r#""a\u2028\u2029b\u0085{near}\u2028""#).as_bytes());
        assert_eq!(serde_json::from_slice::<String>(&written).unwrap(), value);
    }

    #[test]
    fn a_text_without_any_is_not_copied() {
        let text = Bytes::from_static("{\"a\":\"\u{201c}caf\u{e9}\u{201d}\"}".as_bytes());
        assert_eq!(escaped(text.clone()).as_ptr(), text.as_ptr());
    }
}
