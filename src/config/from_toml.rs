//! TOML to the tree. Knows no option.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    problem::{ConfigProblem, ConfigProblems},
    tree::{self, ConfigEntry, ConfigNode, ConfigValue, Document},
};

/// Parses the text of `file`; reports every syntax error.
pub fn parse(file: &str, text: &str) -> Result<Document, ConfigProblems> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(Document::new(file, text, entries(table.get_ref())));
    }
    // The error's own display quotes the line, which may hold a secret.
    let problem = |error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start);
        ConfigProblem::new(tree::place_in(file, text, at), format!("this is not TOML: {}", error.message()))
    };
    Err(ConfigProblems(errors.into_iter().map(problem).collect()))
}

/// Entries of the table in file order.
fn entries(table: &DeTable<'_>) -> Vec<ConfigEntry> {
    let entry = |(key, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| ConfigEntry {
        key: key.get_ref().to_string(),
        at: key.span().start,
        value: node(value),
    };
    let mut entries: Vec<ConfigEntry> = table.iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.at);
    entries
}

fn node(value: &Spanned<DeValue<'_>>) -> ConfigNode {
    let at = value.span().start;
    let value = match value.get_ref() {
        DeValue::String(text) => ConfigValue::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(ConfigValue::Other("too large a number"), ConfigValue::Integer),
        DeValue::Boolean(flag) => ConfigValue::Flag(*flag),
        DeValue::Array(values) => ConfigValue::List(values.iter().map(node).collect()),
        DeValue::Table(table) => ConfigValue::Table(entries(table)),
        DeValue::Float(_) => ConfigValue::Other("a fraction"),
        DeValue::Datetime(_) => ConfigValue::Other("a date"),
    };
    ConfigNode { at, value }
}
