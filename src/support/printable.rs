//! Text from outside as people are shown it, on a terminal, a page or in a log: one function for the names of clients,
//! keys, users and servers, and for what servers say. Knows nothing of where it is shown.
//!
//! Left out is what has no width or turns the direction of what follows (Unicode: `Default_Ignorable_Code_Point`, which
//! has every bidi control, and the category Cf), and combining marks beyond the second on a character. Control, private
//! and unassigned characters are shown as `?`, white space as a space.

use icu_properties::{
    CodePointMapData, CodePointSetData,
    props::{DefaultIgnorableCodePoint, GeneralCategory},
};

/// How many combining marks one character keeps: enough for Vietnamese, pointed Hebrew and Thai.
const MAX_MARKS: u8 = 2;

/// What becomes of control characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controls {
    Replaced,
    Kept,
}

/// A text from outside, in one line.
pub fn printable(text: &str) -> String {
    shown(text, Controls::Replaced).collect()
}

/// A name from outside, without white space around it or twice inside, and cut to `most` characters; empty if nothing of
/// it can be shown.
pub fn printable_name(text: &str, most: usize) -> String {
    let text = printable(text);
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(most).collect::<String>().trim_end().to_owned()
}

/// A line of a log whose formatter has taken care of control characters: its own colours stay.
pub fn printable_line(text: &str) -> String {
    shown(text, Controls::Kept).collect()
}

fn shown(text: &str, controls: Controls) -> impl Iterator<Item = char> {
    // a mark with nothing before it would join what stands before the text
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
    fn what_disguises_a_name_is_left_out() {
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
    fn a_name_is_short_and_fills_no_column_with_space() {
        assert_eq!(printable_name("  a \u{3000}\t b\u{200b} ", 100), "a b");
        assert_eq!(printable_name("abc def", 4), "abc");
        assert_eq!(printable_name("\u{200b}\u{202e} ", 100), "");
    }

    #[test]
    fn a_line_of_a_log_keeps_its_colours_and_its_end() {
        assert_eq!(printable_line("\x1b[32mINFO\x1b[0m a\u{202e}b\n"), "\x1b[32mINFO\x1b[0m ab\n");
    }

    proptest! {
        #[test]
        fn what_is_shown_once_is_shown_the_same_again(text in ".{0,60}") {
            let once = printable(&text);
            prop_assert!(!once.chars().any(char::is_control));
            prop_assert_eq!(printable(&once), once);
        }
    }
}
