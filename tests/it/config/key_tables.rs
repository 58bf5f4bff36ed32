//! What is written from the declarations of the keys: rows of the page, properties of the schema, lines of the example.
//! `UPDATE=1` writes them; without it they are compared.

use std::{env, fs, path::Path};

use lockkeeper::{
    config::{
        former_name,
        key_tables::{DocumentedKeys, tables},
        units::{show_duration, show_size},
    },
    model::config_key::{DurationBound, KeyDefault, KeyForm, KeyRow},
};

/// Column of the comments in the example.
const COMMENTS: usize = 29;

/// Length of a line of the example.
const LINE: usize = 120;

/// Tables whose keys stand in the example under their heading. The others are shown there by hand.
const IN_EXAMPLE: [&str; 5] = ["[limits]", "[auth]", "[http]", "[stdio]", "[log]"];

#[test]
fn the_page_has_the_declared_keys() {
    written("docs/configuration.md", |text, table| {
        let heading = format!("## `{}`", table.heading);
        let start = position(text, 0, |line| line == heading);
        let start = position(text, start, |line| line.starts_with("|---")) + 1;
        (start, position(text, start, |line| !line.starts_with('|')), table.rows.iter().map(page_row).collect())
    });
}

#[test]
fn the_schema_has_the_declared_keys() {
    written("lockkeeper.schema.json", |text, table| {
        let name = table.heading.trim_matches(['[', ']']).replace("s.<name>", "");
        let opening = format!("    \"{name}\": {{");
        let start = position(text, 0, |line| line == opening);
        let start = position(text, start, |line| line == "      \"properties\": {") + 1;
        let end = position(text, start, |line| line.trim_end_matches(',') == "      }");
        let former = |row: &KeyRow| former_property(table.heading, row);
        let properties: Vec<String> =
            table.rows.iter().flat_map(|row| [Some(property(row)), former(row)]).flatten().collect();
        (start, end, properties.join(",\n").lines().map(str::to_owned).collect())
    });
}

#[test]
fn the_example_has_the_declared_keys() {
    written("lockkeeper.example.toml", |text, table| {
        if !IN_EXAMPLE.contains(&table.heading) {
            return (0, 0, Vec::new());
        }
        let start = position(text, 0, |line| line == table.heading) + 1;
        (start, position(text, start, str::is_empty), table.rows.iter().flat_map(example_lines).collect())
    });
}

/// Compares the lines of each table in a file with what `find` says: from where to where they stand, and what they
/// should be. With `UPDATE=1`, writes them.
#[expect(clippy::disallowed_methods, reason = "whoever runs the test asks for the update")]
fn written(file: &str, find: impl Fn(&[String], &DocumentedKeys) -> (usize, usize, Vec<String>)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let mut text: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    let mut differing = Vec::new();
    for table in tables() {
        let (start, end, lines) = find(&text, &table);
        if text[start..end] != lines {
            let first = lines.iter().zip(&text[start..end]).find(|(wanted, found)| wanted != found);
            let first =
                first.map_or_else(String::new, |(wanted, found)| format!("\n    {found}\nshould be\n    {wanted}"));
            differing.push(format!("{}: {} lines, {} expected{first}", table.heading, end - start, lines.len()));
            text.splice(start..end, lines);
        }
    }
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, text.join("\n") + "\n").unwrap();
        return;
    }
    let command = "UPDATE=1 cargo test --test it key_tables";
    assert!(
        differing.is_empty(),
        "{file} is not what the keys declare ({command} writes it):\n{}",
        differing.join("\n")
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
        KeyForm::Texts => "list of texts",
    };
    let default = match row.default {
        KeyDefault::Value(value) => format!("`{value}`"),
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
        KeyForm::Flag | KeyForm::Choice(_) | KeyForm::Text(_) | KeyForm::Texts => return None,
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

// === the schema ===

fn property(row: &KeyRow) -> String {
    let in_text = !matches!(row.form, KeyForm::Count(..));
    let bounds =
        bounds(row.form).filter(|_| in_text).map_or_else(String::new, |(least, most)| format!(" {least} to {most}."));
    let description = format!("{}{bounds}", without_links(&text(row)).replace('`', ""));
    let mut members = vec![format!("\"description\": {}", json(&description))];
    members.extend(value_of(row.form));
    if let KeyDefault::Value(value) = row.default {
        members.push(format!("\"default\": {value}"));
    }
    schema_entry(row.name, &members)
}

/// The entry of the name that the key had before; `None` if it had none.
fn former_property(heading: &str, row: &KeyRow) -> Option<String> {
    let former = former_name(heading.trim_matches(['[', ']']), row.name)?;
    let description = json(&format!("The former name of {}.", row.name));
    let mut members = vec![format!("\"description\": {description}"), "\"deprecated\": true".to_owned()];
    members.extend(value_of(row.form));
    Some(schema_entry(former, &members))
}

fn schema_entry(name: &str, members: &[String]) -> String {
    let members: Vec<String> = members.iter().map(|member| format!("          {member}")).collect();
    format!("        \"{name}\": {{\n{}\n        }}", members.join(",\n"))
}

/// The members that say which values a key takes.
fn value_of(form: KeyForm) -> Vec<String> {
    let mut members = Vec::new();
    match form {
        KeyForm::Duration(..) => members.push("\"$ref\": \"#/$defs/duration\"".to_owned()),
        KeyForm::Size(..) => members.push("\"$ref\": \"#/$defs/size\"".to_owned()),
        KeyForm::Count(least, most) => {
            members.extend([
                "\"type\": \"integer\"".to_owned(),
                format!("\"minimum\": {least}"),
                format!("\"maximum\": {most}"),
            ]);
        }
        KeyForm::Flag => members.push("\"type\": \"boolean\"".to_owned()),
        KeyForm::Text(_) => members.push("\"type\": \"string\"".to_owned()),
        KeyForm::Texts => {
            members.push("\"type\": \"array\"".to_owned());
            members.push("\"items\": {\n            \"type\": \"string\"\n          }".to_owned());
        }
        KeyForm::Choice(words) => {
            let words =
                words.iter().map(|word| format!("                {}", json(word))).collect::<Vec<_>>().join(",\n");
            let list = format!("            {{\n              \"enum\": [\n{words}\n              ]\n            }}");
            let reference = "            {\n              \"$ref\": \"#/$defs/reference\"\n            }";
            members.push(format!("\"anyOf\": [\n{list},\n{reference}\n          ]"));
        }
    }
    members
}

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// The text of links without their targets.
fn without_links(text: &str) -> String {
    let mut parts = text.split("](");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (_, rest) = part.split_once(')').expect("the end of a link");
        let opening = whole.rfind('[').expect("the beginning of a link");
        whole.remove(opening);
        whole.push_str(rest);
    }
    whole
}

// === the example ===

fn example_lines(row: &KeyRow) -> Vec<String> {
    let (line, told) = match row.default {
        KeyDefault::Value(value) => (format!("{} = {value}", row.name), summary(row)),
        KeyDefault::None(value) | KeyDefault::Derived(_, value) | KeyDefault::Required(value) => {
            (format!("#: {} = {value}", row.name), text(row))
        }
    };
    let bounds = match (bounds(row.form), row.form) {
        (_, KeyForm::Count(..)) | (None, KeyForm::Flag | KeyForm::Text(_) | KeyForm::Texts) => String::new(),
        (Some((least, most)), _) => format!(" {least} to {most}."),
        (None, KeyForm::Choice(words)) => {
            format!(" {}.", listed(words, |word| format!("\"{word}\"")))
        }
        (None, _) => String::new(),
    };
    let told = format!("{}{bounds}", without_links(&told));
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
