//! JSON, comments and trailing commas tolerated, to the tree. Knows no option.

use jsonc_parser::{CollectOptions, ParseOptions, ast, common::Ranged as _};

use super::{
    problem::{Problem, Problems},
    tree::{self, Document, Entry, Node, Value},
};

/// Reads the text of `file`. Comments and trailing commas are let pass, for the editors that write them.
pub fn parse(file: &str, text: &str) -> Result<Document, Problems> {
    let fault = |at: usize, what: String| Problems(vec![Problem::new(tree::place_in(file, text, at), what)]);
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

fn entries(object: &ast::Object<'_>) -> Vec<Entry> {
    let entry = |property: &ast::ObjectProp<'_>| Entry {
        key: property.name.as_str().to_owned(),
        at: property.range.start,
        value: node(&property.value),
    };
    object.properties.iter().map(entry).collect()
}

fn node(value: &ast::Value<'_>) -> Node {
    let at = value.range().start;
    let value = match value {
        ast::Value::StringLit(text) => Value::Text(text.value.to_string()),
        ast::Value::NumberLit(number) => number.value.parse().map_or(Value::Other("a fraction"), Value::Integer),
        ast::Value::BooleanLit(flag) => Value::Flag(flag.value),
        ast::Value::Array(array) => Value::List(array.elements.iter().map(node).collect()),
        ast::Value::Object(object) => Value::Table(entries(object)),
        ast::Value::NullKeyword(_) => Value::Other("null"),
    };
    Node { at, value }
}
