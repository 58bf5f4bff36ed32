//! Files of environment variables, as `.env` files are written.

use std::{collections::BTreeMap, path::Path};

use super::text_file;
use crate::support::Secret;

/// Maximum size of a file, in bytes.
const LONGEST: u64 = 1 << 20;

/// Reads the variables of a file, whose name may be relative to `folder`. If a name repeats, the last value counts.
/// Messages never quote a value.
///
/// # Errors
///
/// The file cannot be read, or a line is not a variable.
pub(super) fn read(file: &str, folder: &Path) -> Result<BTreeMap<String, Secret>, String> {
    let text = text_file::read(&folder.join(file), LONGEST).map_err(|why| format!("the file `{file}` {why}"))?;
    parse(&text).map_err(|line| format!("line {line} of `{file}` is not `NAME=value`"))
}

/// Parses lines `NAME=value`, optionally with `export`; `#` begins a comment. A value in quotes may span several lines;
/// in double quotes `\n`, `\t`, `\"` and `\\` have their usual meaning. Nothing is expanded.
///
/// # Errors
///
/// The number of the first line in none of these forms.
fn parse(text: &str) -> Result<BTreeMap<String, Secret>, usize> {
    let mut variables = BTreeMap::new();
    let mut rest = text.trim_start_matches('\u{feff}');
    let (mut line, mut counted) = (1, rest);
    while !rest.is_empty() {
        line += counted[..counted.len() - rest.len()].matches('\n').count();
        counted = rest;
        let (start, _) = rest.split_once('\n').unwrap_or((rest, ""));
        if matches!(start.trim_start().chars().next(), None | Some('#')) {
            rest = &rest[(start.len() + 1).min(rest.len())..];
            continue;
        }
        let (name, value) = rest.split_once('=').ok_or(line)?;
        let name = name.trim();
        let name = name.strip_prefix("export ").unwrap_or(name).trim();
        let is_name =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
        if !is_name {
            return Err(line);
        }
        let (value, after) = value_of(value).filter(|(value, _)| !value.contains('\0')).ok_or(line)?;
        variables.insert(name.to_owned(), Secret::new(value));
        rest = after;
    }
    Ok(variables)
}

/// The value at the start of `text`, and the lines after it; `None` if a quote is not closed, or text follows it.
fn value_of(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start_matches([' ', '\t']);
    let (value, after) = match text.chars().next() {
        Some('\'') => {
            let (value, after) = text[1..].split_once('\'')?;
            (value.to_owned(), after)
        }
        Some('"') => double_quoted(&text[1..])?,
        _ => {
            let (line, after) = text.split_once('\n').unwrap_or((text, ""));
            let end = line.find(" #").or_else(|| line.find("\t#")).unwrap_or(line.len());
            let is_comment = line.starts_with('#');
            return Some((if is_comment { String::new() } else { line[..end].trim().to_owned() }, after));
        }
    };
    let (line, after) = after.split_once('\n').unwrap_or((after, ""));
    let line = line.trim();
    (line.is_empty() || line.starts_with('#')).then_some((value, after))
}

/// The text up to the closing double quote, and the rest.
fn double_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'r' => value.push('\r'),
                c @ ('"' | '\\' | '$') => value.push(c),
                c => value.extend(['\\', c]),
            },
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<(String, String)>, usize> {
        let text_of = |(name, value): (String, Secret)| (name, value.expose().to_owned());
        Ok(parse(text)?.into_iter().map(text_of).collect())
    }

    #[test]
    fn lines_are_read_as_other_programs_read_them() {
        for (text, value) in [
            ("A=b", "b"),
            ("\u{feff}# c\n\n  export A = b # c\r\n", "b"),
            ("A=b#c", "b#c"),
            ("A=", ""),
            ("A= # c", ""),
            ("A='b # \\n $c'", "b # \\n $c"),
            ("A=\"b\\n\\\"c\\\" \\d\" # e", "b\n\"c\" \\d"),
            ("A='b\nc'\n", "b\nc"),
            ("A=$B${C}", "$B${C}"),
            ("A=x\nA=y=z", "y=z"),
        ] {
            assert_eq!(parsed(text), Ok(vec![("A".to_owned(), value.to_owned())]), "{text}");
        }
    }

    #[test]
    fn a_line_that_is_no_variable_is_told_by_its_number() {
        for (text, line) in [("A=b\nC", 2), ("=b", 1), ("A B=c", 1), ("\n\nA='b", 3), ("A='b' c", 1), ("A=\"b\\", 1)] {
            assert_eq!(parsed(text), Err(line), "{text}");
        }
    }
}
