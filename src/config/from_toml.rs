//! TOML to the tree. Knows no option.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    problem::{Problem, Problems},
    tree::{self, Document, Entry, Node, Value},
};

/// Reads the text of `file`; every syntax error is reported.
pub fn parse(file: &str, text: &str) -> Result<Document, Problems> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(Document::new(file, text, entries(table.get_ref())));
    }
    // The error's own display quotes the line, and a line may hold a secret.
    let problem = |error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start);
        Problem::new(tree::place_in(file, text, at), format!("this is not TOML: {}", error.message()))
    };
    Err(Problems(errors.into_iter().map(problem).collect()))
}

/// The table's entries in the order of the file.
fn entries(table: &DeTable<'_>) -> Vec<Entry> {
    let entry = |(key, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| Entry {
        key: key.get_ref().to_string(),
        at: key.span().start,
        value: node(value),
    };
    let mut entries: Vec<Entry> = table.iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.at);
    entries
}

fn node(value: &Spanned<DeValue<'_>>) -> Node {
    let at = value.span().start;
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Value::Other("too large a number"), Value::Integer),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Array(values) => Value::List(values.iter().map(node).collect()),
        DeValue::Table(table) => Value::Table(entries(table)),
        DeValue::Float(_) => Value::Other("a fraction"),
        DeValue::Datetime(_) => Value::Other("a date"),
    };
    Node { at, value }
}
