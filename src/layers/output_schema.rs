//! Plain contradictions between a value and a JSON Schema.
//!
//! Only the most telling keywords (`type`, `enum`, `const`, `required`, `properties`, `additionalProperties`, `items`)
//! are read, in bounded time: schemas and values come from servers, and a small schema can keep a full validator busy.
//! A found contradiction is certain; finding none proves nothing.

use serde_json::{Map, Value};

use crate::support::printable;

/// Maximum number of values and schema elements to look at.
const MAX_STEPS: usize = 10_000;
/// Maximum length of a reason, in characters.
const MAX_REASON: usize = 200;

/// A search for a contradiction.
struct SchemaCheck {
    steps: usize,
}

/// The first contradiction between `value` and `schema`, in words; `None` if none is found.
pub(crate) fn contradiction(schema: &Value, value: &Value) -> Option<String> {
    let found = SchemaCheck { steps: MAX_STEPS }.look(schema, value, "")?;
    Some(printable(&found).chars().take(MAX_REASON).collect())
}

// === impl SchemaCheck ===

impl SchemaCheck {
    fn look(&mut self, schema: &Value, value: &Value, path: &str) -> Option<String> {
        let Value::Object(schema) = schema else { return None };
        let length = |keyword: &str| schema.get(keyword).and_then(Value::as_array).map_or(0, Vec::len);
        self.charge(1 + length("type") + length("enum") + length("required"))?;
        // in some drafts, siblings of a reference do not count
        if schema.contains_key("$ref") {
            return None;
        }
        let at = if path.is_empty() { "it" } else { path };
        if let Some(types) = schema.get("type").filter(|types| !has_type(value, types)) {
            return Some(format!("{at} is {}, not {types}", kind(value)));
        }
        let values = schema.get("enum").and_then(Value::as_array);
        let is_other = schema.get("const").is_some_and(|only| !may_equal(only, value))
            || values.is_some_and(|values| !values.iter().any(|one| may_equal(one, value)));
        if is_other {
            return Some(format!("{at} is none of the values that there may be"));
        }
        match value {
            Value::Object(members) => self.members(schema, members, path),
            Value::Array(items) if !schema.contains_key("prefixItems") => {
                let of_items = schema.get("items")?;
                let mut items = items.iter().enumerate();
                items.find_map(|(index, item)| self.look(of_items, item, &format!("{path}/{index}")))
            }
            _ => None,
        }
    }

    /// `None` once the steps are used up.
    fn charge(&mut self, steps: usize) -> Option<()> {
        // stops the rest too
        self.steps = self.steps.checked_sub(steps).or_else(|| {
            self.steps = 0;
            None
        })?;
        Some(())
    }

    fn members(&mut self, schema: &Map<String, Value>, members: &Map<String, Value>, path: &str) -> Option<String> {
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        if let Some(missing) = required.filter_map(Value::as_str).find(|name| !members.contains_key(*name)) {
            return Some(format!("{path}/{missing} is missing"));
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
            && !schema.contains_key("patternProperties");
        self.charge(members.len())?;
        members.iter().find_map(|(name, value)| match properties.and_then(|properties| properties.get(name)) {
            Some(of_member) => self.look(of_member, value, &format!("{path}/{name}")),
            None if is_closed => Some(format!("{path}/{name} is not in the schema")),
            None => None,
        })
    }
}

/// False if the two are certainly different; numbers are equal by value, and containers are not compared.
fn may_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => true,
        (one, other) => one == other,
    }
}

fn has_type(value: &Value, types: &Value) -> bool {
    match types {
        Value::String(name) => is_a(value, name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(|name| is_a(value, name)),
        // not a valid schema
        _ => true,
    }
}

fn is_a(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => true,
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_contradictions_are_told_with_their_place() {
        let schema = json!({ "type": "object", "required": ["a"], "additionalProperties": false, "properties": {
            "a": { "type": "integer" },
            "b": { "type": ["string", "null", "number"], "enum": ["x", null, 1] },
            "c": { "type": "array", "items": { "type": "object", "required": ["d"] } },
            "r": { "$ref": "#/$defs/x", "type": "null" },
        } });
        let cases = [
            (json!({ "a": 1.0, "b": null, "c": [{ "d": 1 }], "r": 7 }), None),
            (json!({ "a": 1, "b": 1.0 }), None),
            (json!([]), Some("it is an array, not \"object\"")),
            (json!({}), Some("/a is missing")),
            (json!({ "a": 1.5 }), Some("/a is a number, not \"integer\"")),
            (json!({ "a": 1, "b": "y" }), Some("/b is none of the values that there may be")),
            (json!({ "a": 1, "c": [{ "d": 1 }, {}] }), Some("/c/1/d is missing")),
            (json!({ "a": 1, "z": 1 }), Some("/z is not in the schema")),
        ];
        for (value, expected) in cases {
            assert_eq!(contradiction(&schema, &value).as_deref(), expected, "{value}");
        }
        for schema in [json!(true), json!({ "type": 7 }), json!({ "required": 7, "properties": [], "enum": {} })] {
            assert_eq!(contradiction(&schema, &json!({ "a": 1 })), None);
        }
    }

    #[test]
    fn the_time_is_bounded() {
        let names = vec!["a"; 60_000];
        let schema = json!({ "items": { "required": names } });
        assert_eq!(contradiction(&schema, &json!(vec![json!({ "a": 1 }); 10_000])), None);
        let value = json!({ "items": vec![1; 100_000] });
        let schema = json!({ "properties": { "items": { "items": { "type": "integer" } } } });
        assert_eq!(contradiction(&schema, &value), None);
        let long = contradiction(&json!({ "required": ["x".repeat(1000)] }), &json!({})).unwrap();
        assert_eq!(long.chars().count(), MAX_REASON);
    }
}
