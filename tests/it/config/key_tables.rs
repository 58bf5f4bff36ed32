//! The page, the schema and the example, written from the declarations of the keys. `UPDATE=1` writes them; without it they
//! are compared.

mod schema;

use std::{collections::BTreeMap, env, fs, path::Path};

use lockkeeper::{
    config::{
        key_tables::tables,
        units::{show_duration, show_size},
    },
    model::config_key::{DurationBound, KeyDefault, KeyForm, KeyRow},
};

/// Column of the comments in the example.
const COMMENTS: usize = 29;

/// Length of a line of the example.
const LINE: usize = 120;

/// Begins a line of the example that a copy has to uncomment.
const MARK: &str = "#: ";

#[test]
fn the_page_has_the_declared_keys() {
    let mut page = lines("docs/configuration.md");
    for table in tables() {
        let heading = if table.path.is_empty() { "## Top level".to_owned() } else { format!("## `[{}]`", table.path) };
        let start = position(&page, 0, |line| line == heading);
        let start = position(&page, start, |line| line.starts_with("|---")) + 1;
        let end = position(&page, start, |line| !line.starts_with('|'));
        page.splice(start..end, table.rows().map(page_row));
    }
    written("docs/configuration.md", &(page.join("\n") + "\n"));
}

#[test]
fn the_schema_has_the_declared_keys() {
    written("lockkeeper.schema.json", &schema::schema());
}

#[test]
fn the_example_has_the_declared_keys() {
    let mut shown: BTreeMap<&str, Vec<KeyRow>> = BTreeMap::new();
    for part in tables().into_iter().flat_map(|table| table.parts) {
        if let Some(place) = part.example {
            shown.entry(place).or_default().extend(part.rows);
        }
    }
    let mut example = lines("lockkeeper.example.toml");
    for (place, rows) in shown {
        let start = position(&example, 0, |line| line == place) + 1;
        let end = position(&example, start, str::is_empty);
        let is_marked = place.starts_with(MARK);
        example.splice(start..end, rows.iter().flat_map(|row| example_lines(row, is_marked)));
    }
    written("lockkeeper.example.toml", &(example.join("\n") + "\n"));
}

fn lines(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

/// Compares a file with the text that it should have. With `UPDATE=1`, writes it.
#[expect(clippy::disallowed_methods, reason = "whoever runs the test asks for the update")]
fn written(file: &str, wanted: &str) {
    if env::var_os("UPDATE").is_some() {
        fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(file), wanted).unwrap();
        return;
    }
    let found = lines(file).join("\n") + "\n";
    let differing = wanted.lines().zip(found.lines()).find(|(wanted, found)| wanted != found);
    let command = "UPDATE=1 cargo test --test it key_tables";
    assert!(
        found == wanted,
        "{file} is not what the keys declare ({command} writes it): it should have and has {differing:#?}"
    );
}

fn position(text: &[String], from: usize, is_it: impl Fn(&str) -> bool) -> usize {
    from + text[from..].iter().position(|line| is_it(line)).expect("the place of the table")
}

// === the page ===

fn page_row(row: &KeyRow) -> String {
    let form = match row.form {
        KeyForm::Duration(..) => "duration",
        KeyForm::Count(..) => "count",
        KeyForm::Size(..) => "size",
        KeyForm::Flag => "flag",
        KeyForm::Choice(_) => "choice",
        KeyForm::Text(form) => form,
        KeyForm::TextOrFalse => "text or `false`",
        KeyForm::Texts => "list of texts",
        KeyForm::TextOrTexts => "text or list of texts",
        KeyForm::TableOfTexts => "table of texts",
        KeyForm::TableOfTables => "table of tables",
        KeyForm::Table(_) => "table",
        KeyForm::Tables(_) => "tables",
    };
    let default = match row.default {
        KeyDefault::Value(value) | KeyDefault::Example(value, _) => format!("`{value}`"),
        KeyDefault::None(_) => "none".to_owned(),
        KeyDefault::Derived(from, _) => from.to_owned(),
        KeyDefault::Required(_) => "required".to_owned(),
    };
    let bounds = match (bounds(row.form), row.form) {
        (Some((least, most)), _) => format!(" `{least}` to `{most}`"),
        (None, KeyForm::Choice(words)) => format!(" {}", listed(words, |word| format!("`\"{word}\"`"))),
        (None, _) => String::new(),
    };
    format!("| `{}` | {form} | {default} |{bounds} | {} |", row.name, text(row))
}

/// The bounds of a value as messages show them.
fn bounds(form: KeyForm) -> Option<(String, String)> {
    Some(match form {
        KeyForm::Duration(least, DurationBound::Fixed(most)) => (show_duration(least), show_duration(most)),
        KeyForm::Duration(least, DurationBound::Key(most)) => (show_duration(least), most.to_owned()),
        KeyForm::Count(least, most) => (least.to_string(), most.to_string()),
        KeyForm::Size(least, most) => (show_size(least as u64), show_size(most as u64)),
        _ => return None,
    })
}

/// The whole documentation, on one line.
fn text(row: &KeyRow) -> String {
    let lines = row.docs.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

/// The first paragraph.
fn summary(row: &KeyRow) -> String {
    let lines = row.docs.iter().map(|line| line.trim()).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

/// The text of links without their targets.
fn without_links(text: &str) -> String {
    let mut parts = text.split("](");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (_, rest) = part.split_once(')').expect("the end of a link");
        whole.remove(opening_of_link(&whole));
        whole.push_str(rest);
    }
    whole
}

/// Position of the bracket that opens the link at the end of `text`, which may have brackets itself.
fn opening_of_link(text: &str) -> usize {
    let mut inner = 0;
    for (at, character) in text.char_indices().rev() {
        match character {
            ']' => inner += 1,
            '[' if inner == 0 => return at,
            '[' => inner -= 1,
            _ => {}
        }
    }
    panic!("the beginning of a link: {text}")
}

// === the example ===

/// The lines of a key; none if it has no example.
fn example_lines(row: &KeyRow, is_marked: bool) -> Vec<String> {
    let (mark, value) = match row.default {
        KeyDefault::Value(value) => (is_marked, value),
        KeyDefault::None("") => return Vec::new(),
        KeyDefault::Example(_, value)
        | KeyDefault::None(value)
        | KeyDefault::Derived(_, value)
        | KeyDefault::Required(value) => (true, value),
    };
    let line = format!("{}{} = {value}", if mark { MARK } else { "" }, row.name);
    let bounds = match (bounds(row.form), row.form) {
        (_, KeyForm::Count(..)) => String::new(),
        (Some((least, most)), _) => format!(" {least} to {most}."),
        (None, KeyForm::Choice(words)) => {
            format!(" {}.", listed(words, |word| format!("\"{word}\"")))
        }
        (None, _) => String::new(),
    };
    let told = format!("{}{bounds}", without_links(&summary(row)));
    let mut lines = vec![format!("{line:<width$}#", width = COMMENTS.max(line.len() + 1))];
    for word in told.split(' ') {
        let last = lines.last_mut().unwrap();
        if last.chars().count() + 1 + word.chars().count() <= LINE {
            *last = format!("{last} {word}");
        } else {
            lines.push(format!("{:COMMENTS$}# {word}", ""));
        }
    }
    lines
}

/// The words in a list, each as `form` writes it.
fn listed(words: &[&str], form: impl Fn(&str) -> String) -> String {
    words.iter().map(|word| form(word)).collect::<Vec<_>>().join(", ")
}
