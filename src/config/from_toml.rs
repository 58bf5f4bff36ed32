//! TOML to the tree. The parser tells its errors apart only by their texts.

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
    // the error's own display quotes the line, which may contain a secret
    let problem = |error: toml::de::Error| {
        let span = error.span().unwrap_or_default();
        let place = tree::place_in(file, text, span.start);
        if error.message().contains("duplicate key") {
            return ConfigProblem::new(place, "this is listed twice").advise("remove one of them");
        }
        let problem = ConfigProblem::new(place, format!("this is not TOML: {}", error.message()));
        // most often a path of Windows in double quotes
        let is_escape = text.get(span.start.saturating_sub(1)..span.end).is_some_and(|part| part.contains('\\'));
        if is_escape || error.message().contains("unicode value") {
            return problem.advise("write a path in single quotes, such as 'C:\\tools', or each backslash twice");
        }
        problem
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backslash_and_a_key_that_is_there_twice_are_explained() {
        let told = |text: &str| parse("x.toml", text).unwrap_err().to_string();
        for path in [r#"command = "C:\dir\run""#, r#"command = "C:\Users""#] {
            let path = told(path);
            assert!(path.contains("in single quotes") && path.contains("x.toml:1:"), "{path}");
        }
        assert!(told("[servers.a]\n[servers.b]\n[servers.a]\n").contains("this is listed twice"));
        let other = told("command = ");
        assert!(other.contains("this is not TOML") && !other.contains("quotes, such"), "{other}");
    }
}
