//! The JSON Schema of `lockkeeper.toml`, written from the declarations of the keys.

use lockkeeper::{
    config::{
        former_name,
        key_tables::{DocumentedKeys, tables},
    },
    model::config_key::{KeyDefault, KeyForm, KeyRow},
};
use serde_json::Value;

use super::{bounds, text, without_links};

/// A value whose members keep their order.
enum Ordered {
    Object(Vec<(String, Self)>),
    List(Vec<Self>),
    Json(Value),
}

/// The text of the file.
pub(super) fn schema() -> String {
    let tables = tables();
    let (root, others) = tables.split_first().unwrap();
    let mut members = vec![
        ("$schema".to_owned(), string("https://json-schema.org/draft/2020-12/schema")),
        ("title".to_owned(), string("lockkeeper.toml")),
        (
            "description".to_owned(),
            string("The configuration of Lockkeeper. docs/configuration.md explains every key."),
        ),
    ];
    members.extend(members_of(root));
    let mut definitions: Vec<(String, Ordered)> =
        others.iter().map(|table| (table.definition.to_owned(), Ordered::Object(members_of(table)))).collect();
    definitions.extend(values());
    members.push(("$defs".to_owned(), Ordered::Object(definitions)));
    let mut text = String::new();
    Ordered::Object(members).write(&mut text, "");
    text + "\n"
}

fn members_of(table: &DocumentedKeys) -> Vec<(String, Ordered)> {
    let mut properties = Vec::new();
    let mut required = Vec::new();
    for row in table.rows() {
        properties.push((row.name.to_owned(), property(row)));
        if let Some(former) = former_name(table.path, row.name) {
            properties.push((former.to_owned(), former_property(row)));
        }
        if matches!(row.default, KeyDefault::Required(_)) {
            required.push(string(row.name));
        }
    }
    let mut members = object([("type", string("object")), ("additionalProperties", json(false))]);
    members.push(("properties".to_owned(), Ordered::Object(properties)));
    if !required.is_empty() {
        members.push(("required".to_owned(), Ordered::List(required)));
    }
    if !table.one_of.is_empty() {
        let choice = |name: &&str| Ordered::Object(object([("required", Ordered::List(vec![string(name)]))]));
        members.push(("oneOf".to_owned(), Ordered::List(table.one_of.iter().map(choice).collect())));
    }
    members
}

fn property(row: &KeyRow) -> Ordered {
    let in_text = !matches!(row.form, KeyForm::Count(..));
    let bounds =
        bounds(row.form).filter(|_| in_text).map_or_else(String::new, |(least, most)| format!(" {least} to {most}."));
    let description = format!("{}{bounds}", without_links(&text(row)).replace('`', ""));
    let mut members = object([("description", string(&description))]);
    members.extend(value_of(row));
    if let KeyDefault::Value(value) | KeyDefault::Example(value, _) = row.default {
        let table: toml::Table = toml::from_str(&format!("value = {value}")).unwrap();
        members.push(("default".to_owned(), json(serde_json::json!(table["value"]))));
    }
    Ordered::Object(members)
}

/// The property of the name that the key had before.
fn former_property(row: &KeyRow) -> Ordered {
    let description = format!("Deprecated in favour of {}.", row.name);
    let mut members = object([("description", string(&description)), ("deprecated", json(true))]);
    members.extend(value_of(row));
    Ordered::Object(members)
}

/// The members that say which values a key takes.
fn value_of(row: &KeyRow) -> Vec<(String, Ordered)> {
    let of_type = |name: &str| ("type", string(name));
    let reference = |name: &str| object([("$ref", string(&format!("#/$defs/{name}")))]);
    let with_any_names = |value| object([of_type("object"), ("additionalProperties", Ordered::Object(value))]);
    match row.form {
        KeyForm::Duration(..) => reference("duration"),
        KeyForm::Size(..) => reference("size"),
        KeyForm::Count(least, most) => object([of_type("integer"), ("minimum", json(least)), ("maximum", json(most))]),
        KeyForm::Flag => object([of_type("boolean")]),
        KeyForm::Text(_) => object([of_type("string")]),
        KeyForm::TextOrFalse => {
            let (text, off) = (object([of_type("string")]), object([("const", json(false))]));
            object([("anyOf", Ordered::List(vec![Ordered::Object(text), Ordered::Object(off)]))])
        }
        KeyForm::Texts => {
            let mut members = object([of_type("array"), ("items", Ordered::Object(object([of_type("string")])))]);
            if matches!(row.default, KeyDefault::Required(_)) {
                members.push(("minItems".to_owned(), json(1)));
            }
            members
        }
        KeyForm::TextOrTexts => {
            let (text, texts) = (object([of_type("string")]), Ordered::Object(object([of_type("string")])));
            let texts = object([of_type("array"), ("items", texts)]);
            object([("anyOf", Ordered::List(vec![Ordered::Object(text), Ordered::Object(texts)]))])
        }
        KeyForm::TableOfTexts => with_any_names(object([of_type("string")])),
        KeyForm::TableOfTables => with_any_names(object([of_type("object")])),
        KeyForm::Table(definition) => reference(definition),
        KeyForm::Tables(definition) => with_any_names(reference(definition)),
        KeyForm::Choice(words) => {
            let words = object([("enum", Ordered::List(words.iter().map(|word| string(word)).collect()))]);
            let either = vec![Ordered::Object(words), Ordered::Object(reference("reference"))];
            object([("anyOf", Ordered::List(either))])
        }
    }
}

/// The definitions of values.
fn values() -> Vec<(String, Ordered)> {
    let text = |pattern: &str| object([("type", string("string")), ("pattern", string(pattern))]);
    let examples =
        |texts: &[&str]| ("examples".to_owned(), Ordered::List(texts.iter().map(|text| string(text)).collect()));
    let mut duration = text(r"^\s*([0-9]+(ms|s|m|h|d)\s*)+$|\$\{");
    duration.push(examples(&["500ms", "90s", "1h30m"]));
    let number = object([("type", string("integer")), ("minimum", json(0))]);
    let with_unit = text(r"^\s*[0-9]+\s*([bB]|[kKmMgG][iI][bB])?\s*$|\$\{");
    let mut size = object([("anyOf", Ordered::List(vec![Ordered::Object(number), Ordered::Object(with_unit)]))]);
    size.push(examples(&["64KiB", "16MiB"]));
    let mut reference = object([("description", string("A text with a variable of the environment."))]);
    reference.extend(text(r"\$\{"));
    let all = [("duration", duration), ("size", size), ("reference", reference)];
    all.into_iter().map(|(name, members)| (name.to_owned(), Ordered::Object(members))).collect()
}

fn object<const N: usize>(members: [(&str, Ordered); N]) -> Vec<(String, Ordered)> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn string(text: &str) -> Ordered {
    json(text)
}

fn json(value: impl Into<Value>) -> Ordered {
    Ordered::Json(value.into())
}

// === impl Ordered ===

impl Ordered {
    fn write(&self, text: &mut String, indent: &str) {
        let inner = format!("{indent}  ");
        let (open, close, parts): (char, char, Vec<(String, &Self)>) = match self {
            Self::Json(value) => return text.push_str(&nested(value, indent)),
            Self::Object(members) => (
                '{',
                '}',
                members.iter().map(|(name, value)| (format!("{}: ", Value::from(name.as_str())), value)).collect(),
            ),
            Self::List(values) => ('[', ']', values.iter().map(|value| (String::new(), value)).collect()),
        };
        text.push(open);
        for (index, (name, value)) in parts.into_iter().enumerate() {
            text.push_str(if index > 0 { ",\n" } else { "\n" });
            text.push_str(&inner);
            text.push_str(&name);
            value.write(text, &inner);
        }
        text.push('\n');
        text.push_str(indent);
        text.push(close);
    }
}

/// A value without order, such as a default, on lines below each other.
fn nested(value: &Value, indent: &str) -> String {
    serde_json::to_string_pretty(value).unwrap().replace('\n', &format!("\n{indent}"))
}
