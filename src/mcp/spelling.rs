//! Finds other spellings of the protocol's names that some JSON readers take for the same name.

use icu_properties::{CodePointSetData, props::DefaultIgnorableCodePoint};
use unicase::UniCase;
use unicode_normalization::UnicodeNormalization as _;

/// True if some reader takes `name` for `meant`, though it is written differently. Compares by Unicode simple folding;
/// `meant` is ASCII. Two characters outside of ASCII fold to an ASCII letter: U+017F to `s` and U+212A to `k`.
pub(super) fn is_other_spelling(name: &str, meant: &str) -> bool {
    // a character that folds to an ASCII letter is longer than one byte, or is that letter in the other case
    if name.len() <= meant.len() {
        return name.len() == meant.len() && name != meant && name.eq_ignore_ascii_case(meant);
    }
    if name.is_ascii() {
        return false;
    }
    let folded = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    name.chars().map(folded).eq(meant.chars().map(|c| c.to_ascii_lowercase()))
}

/// The name as the most lenient reader compares it: without surrounding slashes and spaces, without invisible
/// characters, in NFKC and without case (the Unicode Standard, *Identifier Caseless Matching*), and with each run of
/// slashes as one.
pub(super) fn folded(name: &str) -> String {
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    let visible: String = name.chars().filter(|c| !ignorable.contains(*c)).nfkc().collect();
    // case folding can undo the normal form
    let caseless: String = UniCase::unicode(visible).to_folded_case().nfkc().collect();
    let trimmed = caseless.trim_matches(|c: char| c == '/' || c.is_whitespace() || c.is_control());
    let mut folded = String::with_capacity(trimmed.len());
    for c in trimmed.chars() {
        if c != '/' || !folded.ends_with('/') {
            folded.push(c);
        }
    }
    folded
}
