//! JSON with comments and trailing commas, to the tree.

use jsonc_parser::{CollectOptions, ParseOptions, ast, common::Ranged as _};

use super::{
    problem::{ConfigProblem, ConfigProblems},
    tree::{self, ConfigEntry, ConfigNode, ConfigValue, Document},
};

/// Parses the text of `file`, with the comments and trailing commas that editors allow.
pub fn parse(file: &str, text: &str) -> Result<Document, ConfigProblems> {
    let fault =
        |at: usize, what: String| ConfigProblems(vec![ConfigProblem::new(tree::place_in(file, text, at), what)]);
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        ..ParseOptions::default()
    };
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &options)
        .map_err(|error| fault(error.range().start, format!("this is not JSON: {}", error.kind())))?;
    match parsed.value {
        Some(ast::Value::Object(object)) => Ok(Document::new(file, text, entries(&object))),
        Some(other) => Err(fault(other.range().start, "the file must hold a JSON object".to_owned())),
        None => Err(fault(0, "the file is empty".to_owned())),
    }
}

fn entries(object: &ast::Object<'_>) -> Vec<ConfigEntry> {
    let entry = |property: &ast::ObjectProp<'_>| ConfigEntry {
        key: property.name.as_str().to_owned(),
        at: property.range.start,
        value: node(&property.value),
    };
    object.properties.iter().map(entry).collect()
}

fn node(value: &ast::Value<'_>) -> ConfigNode {
    let at = value.range().start;
    let value = match value {
        ast::Value::StringLit(text) => ConfigValue::Text(text.value.to_string()),
        ast::Value::NumberLit(number) => {
            number.value.parse().map_or(ConfigValue::Other("a fraction"), ConfigValue::Integer)
        }
        ast::Value::BooleanLit(flag) => ConfigValue::Flag(flag.value),
        ast::Value::Array(array) => ConfigValue::List(array.elements.iter().map(node).collect()),
        ast::Value::Object(object) => ConfigValue::Table(entries(object)),
        ast::Value::NullKeyword(_) => ConfigValue::Other("null"),
    };
    ConfigNode { at, value }
}
