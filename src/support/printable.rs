//! Untrusted text made safe to show on a terminal, a page or in a log: names of clients, keys, users and servers, and
//! messages of servers.
//!
//! Removed are characters without width or with a text direction (Unicode: `Default_Ignorable_Code_Point`, which
//! includes every bidi control, and the category Cf), and combining marks beyond the second on a character. Control,
//! private and unassigned characters become `?`, white space a space.

use std::fmt;

use icu_properties::{
    CodePointMapData, CodePointSetData,
    props::{DefaultIgnorableCodePoint, GeneralCategory},
};

/// Combining marks kept on one character: enough for Vietnamese, pointed Hebrew and Thai.
const MAX_MARKS: u8 = 2;

/// Form of an escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EscapeForm {
    /// As in a string of Rust: `\n`, `\u{1b}`.
    Text,
    /// As in a string of JSON, `\u001b`, in a document that already has its own escapes below U+0020.
    Json,
}

/// A writer of untrusted text into a line: it escapes every character that [`printable`] removes or replaces, except
/// white space beyond ASCII.
#[derive(Debug)]
pub struct Escaping<W> {
    to: W,
    form: EscapeForm,
    marks: Marks,
}

/// Number of combining marks since the last base character.
#[derive(Debug, Clone, Copy)]
struct Marks(u8);

/// Kind of a character in untrusted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharKind {
    Plain,
    /// White space, without a control character.
    Space,
    /// Without width, with a text direction, or one combining mark too many.
    Hidden,
    /// A line or paragraph separator.
    Separator,
    Control,
    Unknown,
}

/// Untrusted text, in one line.
pub fn printable(text: &str) -> String {
    let mut marks = Marks::at_start();
    let shown = |c: char| match marks.kind(c) {
        CharKind::Plain => Some(c),
        CharKind::Hidden => None,
        CharKind::Space | CharKind::Separator => Some(' '),
        CharKind::Control if c.is_whitespace() => Some(' '),
        CharKind::Control | CharKind::Unknown => Some('?'),
    };
    text.chars().filter_map(shown).collect()
}

/// An untrusted name: trimmed, with single spaces, cut to `most` characters; empty if none of it is printable.
pub fn printable_name(text: &str, most: usize) -> String {
    let text = printable(text);
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(most).collect::<String>().trim_end().to_owned()
}

/// The first of these names and the number of the others, such as `a, b and 3 more`; `None` if there are none.
pub fn first_names<S: AsRef<str>>(names: &[S], most: usize) -> Option<String> {
    let (first, rest) = names.split_at(names.len().min(most));
    let shown = first.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match rest.len() {
        _ if names.is_empty() => None,
        0 => Some(shown),
        more => Some(format!("{shown} and {more} more")),
    }
}

/// Untrusted text of several lines, for a terminal: unchanged except for control sequences and bidi controls.
pub fn printable_text(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\t' => Some(c),
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => None,
        '\u{2028}' | '\u{2029}' => Some('\n'),
        _ if c.is_control() => Some('?'),
        _ => Some(c),
    };
    text.replace("\r\n", "\n").chars().filter_map(shown).collect()
}

// === impl Marks ===

impl Marks {
    /// A mark at the start would attach to the text before it.
    const fn at_start() -> Self {
        Self(MAX_MARKS)
    }

    fn kind(&mut self, c: char) -> CharKind {
        if (' '..='~').contains(&c) {
            self.0 = if c == ' ' { MAX_MARKS } else { 0 };
            return if c == ' ' { CharKind::Space } else { CharKind::Plain };
        }
        let category = CodePointMapData::<GeneralCategory>::new().get(c);
        let is_ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c);
        if matches!(category, GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark) {
            self.0 = self.0.saturating_add(1);
            return if self.0 > MAX_MARKS || is_ignorable { CharKind::Hidden } else { CharKind::Plain };
        }
        let kind = match category {
            _ if is_ignorable => CharKind::Hidden,
            GeneralCategory::Format => CharKind::Hidden,
            GeneralCategory::Control => CharKind::Control,
            GeneralCategory::LineSeparator | GeneralCategory::ParagraphSeparator => CharKind::Separator,
            _ if c.is_whitespace() => CharKind::Space,
            GeneralCategory::PrivateUse | GeneralCategory::Unassigned => CharKind::Unknown,
            _ => CharKind::Plain,
        };
        match kind {
            CharKind::Hidden => {}
            CharKind::Space | CharKind::Separator => self.0 = MAX_MARKS,
            CharKind::Control if c.is_whitespace() => self.0 = MAX_MARKS,
            CharKind::Plain | CharKind::Control | CharKind::Unknown => self.0 = 0,
        }
        kind
    }
}

// === impl Escaping ===

impl<W: fmt::Write> Escaping<W> {
    /// Escapes everything written to `to`.
    pub const fn new(to: W, form: EscapeForm) -> Self {
        Self { to, form, marks: Marks::at_start() }
    }

    /// True for bytes that are written as they are.
    const fn is_plain(&self, byte: u8) -> bool {
        matches!(byte, b' '..=b'~') || matches!(self.form, EscapeForm::Json) && byte < b' '
    }

    fn escape(&mut self, c: char) -> fmt::Result {
        match self.form {
            EscapeForm::Text => write!(self.to, "{}", c.escape_default()),
            EscapeForm::Json => {
                c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(self.to, "\\u{unit:04x}"))
            }
        }
    }
}

impl<W: fmt::Write> fmt::Write for Escaping<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.bytes().all(|byte| self.is_plain(byte)) {
            if let Some(last) = text.chars().next_back() {
                self.marks.kind(last);
            }
            return self.to.write_str(text);
        }
        for c in text.chars() {
            match self.marks.kind(c) {
                CharKind::Plain | CharKind::Space => self.to.write_char(c)?,
                CharKind::Control if u8::try_from(c).is_ok_and(|byte| self.is_plain(byte)) => self.to.write_char(c)?,
                CharKind::Hidden | CharKind::Separator | CharKind::Control | CharKind::Unknown => self.escape(c)?,
            }
        }
        Ok(())
    }
}

/// A pasted text without the spaces and quotes around it.
pub fn pasted(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '“' | '”' | '‘' | '’' | '«' | '»'))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_list_says_how_many_more_there_are() {
        let names = ["a", "b", "c"];
        assert_eq!(first_names(&names, 3).as_deref(), Some("a, b, c"));
        assert_eq!(first_names(&names, 2).as_deref(), Some("a, b and 1 more"));
        assert_eq!(first_names::<&str>(&[], 2), None);
    }

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

    fn escaped(form: EscapeForm, parts: &[&str]) -> String {
        let mut text = String::new();
        let mut escaping = Escaping::new(&mut text, form);
        for part in parts {
            escaping.write_str(part).unwrap();
        }
        text
    }

    #[test]
    fn nothing_in_an_escaped_text_ends_its_line_or_moves_the_cursor() {
        for (text, expected) in [
            ("plain, größer 名前", "plain, größer 名前"),
            ("a\nb\r\tc", r"a\nb\r\tc"),
            ("\x1b[2J\x07\x7f\u{9b}31m", r"\u{1b}[2J\u{7}\u{7f}\u{9b}31m"),
            ("a\u{2028}b\u{2029}c\u{85}d", r"a\u{2028}b\u{2029}c\u{85}d"),
            ("\u{202e}txt\u{2066}\u{61c}\u{200b}", r"\u{202e}txt\u{2066}\u{61c}\u{200b}"),
            ("\u{301}a\u{300}\u{301}\u{302}\u{e0041}", "\\u{301}a\u{300}\u{301}\\u{302}\\u{e0041}"),
        ] {
            assert_eq!(escaped(EscapeForm::Text, &[text]), expected, "{text:?}");
        }
        assert_eq!(escaped(EscapeForm::Text, &["a\u{300}", "\u{301}", "\u{302}"]), "a\u{300}\u{301}\\u{302}");
        assert_eq!(escaped(EscapeForm::Text, &["a", "\u{300}"]), "a\u{300}");
    }

    #[test]
    fn text_for_a_terminal_keeps_its_lines() {
        for (text, expected) in [
            ("one\r\n\ttwo\n", "one\n\ttwo\n"),
            ("gone\rhere\x1b]0;title\x07\u{9b}31m\u{7f}", "gone?here?]0;title??31m?"),
            ("a\u{202e}b\u{2066}c\u{2028}d", "abc\nd"),
            ("👩\u{200d}👧 größer", "👩\u{200d}👧 größer"),
        ] {
            assert_eq!(printable_text(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn escaped_json_means_the_same(text in ".{0,60}") {
            let plain = serde_json::to_string(&text).unwrap();
            let json = escaped(EscapeForm::Json, &[&plain]);
            let is_shown = |c: char| !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{202e}');
            prop_assert!(json.chars().all(is_shown));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }

        #[test]
        fn a_printable_text_stays_unchanged(text in ".{0,60}") {
            let once = printable(&text);
            prop_assert!(!once.chars().any(char::is_control));
            prop_assert_eq!(printable(&once), once);
        }
    }
}
