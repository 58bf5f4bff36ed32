//! Other spellings of the protocol's names, as some readers compare them. Knows no name.

/// True if `name` is another spelling of `meant`, which is ASCII, under Unicode simple folding. Two characters beyond
/// ASCII fold into it: U+017F to `s` and U+212A to `k`.
pub(super) fn is_other_spelling(name: &str, meant: &str) -> bool {
    // a character that folds into one byte of ASCII is longer, or is that byte in the other case
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
