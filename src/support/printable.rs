//! Untrusted text made safe to show on a terminal, a page or in a log: names of clients, keys, users and servers, and
//! messages of servers. Knows nothing of the place.
//!
//! Removed are characters without width or with a text direction (Unicode: `Default_Ignorable_Code_Point`, which
//! includes every bidi control, and the category Cf), and combining marks beyond the second on a character. Control,
//! private and unassigned characters become `?`, white space a space.

use icu_properties::{
    CodePointMapData, CodePointSetData,
    props::{DefaultIgnorableCodePoint, GeneralCategory},
};

/// Combining marks kept on one character: enough for Vietnamese, pointed Hebrew and Thai.
const MAX_MARKS: u8 = 2;

/// Treatment of control characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controls {
    Replaced,
    Kept,
}

/// Untrusted text, in one line.
pub fn printable(text: &str) -> String {
    shown(text, Controls::Replaced).collect()
}

/// An untrusted name: trimmed, with single spaces, cut to `most` characters; empty if nothing of it is printable.
pub fn printable_name(text: &str, most: usize) -> String {
    let text = printable(text);
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(most).collect::<String>().trim_end().to_owned()
}

/// A log line whose formatter has escaped control characters; its colours stay.
pub fn printable_line(text: &str) -> String {
    shown(text, Controls::Kept).collect()
}

fn shown(text: &str, controls: Controls) -> impl Iterator<Item = char> {
    // a leading mark would join the text before it
    let mut marks = MAX_MARKS;
    text.chars().filter_map(move |c| {
        if (' '..='~').contains(&c) {
            marks = if c == ' ' { MAX_MARKS } else { 0 };
            return Some(c);
        }
        let category = CodePointMapData::<GeneralCategory>::new().get(c);
        if matches!(category, GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark) {
            marks = marks.saturating_add(1);
            let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c);
            return (marks <= MAX_MARKS && !ignorable).then_some(c);
        }
        let shown = match category {
            GeneralCategory::Control if controls == Controls::Kept => c,
            _ if c.is_whitespace() => ' ',
            GeneralCategory::Control | GeneralCategory::PrivateUse | GeneralCategory::Unassigned => '?',
            _ => c,
        };
        let left_out =
            category == GeneralCategory::Format || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c);
        if left_out {
            return None;
        }
        marks = if shown == ' ' { MAX_MARKS } else { 0 };
        Some(shown)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invisible_and_bidi_characters_are_removed() {
        for (text, expected) in [
            ("git 2.1", "git 2.1"),
            ("größer 名前 👩", "größer 名前 👩"),
            ("a\u{202e}exe.txt\u{2066}b\u{61c}c", "aexe.txtbc"),
            ("ad\u{200b}m\u{200d}i\u{feff}n\u{ad}\u{3164}\u{e0041}", "admin"),
            ("\x1b[2Jgone\u{9b}31m\u{7f}", "?[2Jgone?31m?"),
            ("one\ntwo\tthree\u{2028}four\u{a0}five", "one two three four five"),
            ("Z\u{300}\u{301}\u{302}\u{303}\u{489}a\u{300}", "Z\u{300}\u{301}a\u{300}"),
            ("\u{301}a \u{301}b", "a b"),
            ("Vie\u{302}\u{323}t", "Vie\u{302}\u{323}t"),
            ("x\u{e000}\u{10fffd}\u{e0fff}", "x??"),
        ] {
            assert_eq!(printable(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_printable_name_is_short_and_has_no_extra_space() {
        assert_eq!(printable_name("  a \u{3000}\t b\u{200b} ", 100), "a b");
        assert_eq!(printable_name("abc def", 4), "abc");
        assert_eq!(printable_name("\u{200b}\u{202e} ", 100), "");
    }

    #[test]
    fn a_log_line_keeps_its_colours_and_its_line_end() {
        assert_eq!(printable_line("\x1b[32mINFO\x1b[0m a\u{202e}b\n"), "\x1b[32mINFO\x1b[0m ab\n");
    }

    proptest! {
        #[test]
        fn printable_text_stays_unchanged(text in ".{0,60}") {
            let once = printable(&text);
            prop_assert!(!once.chars().any(char::is_control));
            prop_assert_eq!(printable(&once), once);
        }
    }
}
