//! Tool parameters that a client mirrors in headers, `x-mcp-header` (2026-07-28, transports, *Custom Headers from Tool
//! Parameters*): which they are, what is to be mirrored of a call, and whether what was mirrored is what the call says.
//! Knows nothing of HTTP.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::ErrorObject;

const KEYWORD: &str = "x-mcp-header";
/// The deepest parameter that is looked at.
const DEEPEST: usize = 32;

/// Mirrored values, by the name of the header after `Mcp-Param-` in lower case, before the encoding for the header;
/// `None` for an unreadable one.
pub type Mirror = BTreeMap<String, Option<String>>;

/// The mirrored parameters of one tool: name in lower case, and path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirrored(Vec<(String, Vec<String>)>);

impl Mirrored {
    /// Those of a tool in `tools/list`; `None` if there are none, or if their annotations are invalid, so that no
    /// client calls it.
    pub fn of_tool(tool: &[u8]) -> Option<Self> {
        // a single search rules out most tools
        memchr::memmem::find(tool, KEYWORD.as_bytes())?;
        let tool: Value = serde_json::from_slice(tool).ok()?;
        let mut found = Vec::new();
        find(&tool["inputSchema"], &mut Vec::new(), &mut found)?;
        let mut names = HashSet::new();
        let unique = found.iter().all(|(name, _)| names.insert(name.clone()));
        (unique && !found.is_empty()).then_some(Self(found))
    }

    /// The mirrored values of a call with these arguments, for each parameter that is present and not `null`: the
    /// string, the integer in decimal, `true` or `false` (*Value Encoding*).
    pub fn of_call(&self, arguments: &Value) -> Mirror {
        let stated = self.0.iter().filter_map(|(name, path)| Some((name.clone(), Some(stated(at(arguments, path)?)?))));
        stated.collect()
    }

    /// Holds what the client mirrored against the arguments of its call.
    ///
    /// # Errors
    ///
    /// `-32020` if a header is missing, unreadable, without a value in the call, or different.
    pub fn check(&self, arguments: &Value, mirror: &Mirror) -> Result<(), ErrorObject> {
        for (name, path) in &self.0 {
            let reason = match (at(arguments, path), mirror.get(name)) {
                (None, None) => continue,
                (Some(_), None) => "is missing",
                (None, Some(_)) => "is there, and the call has no such argument",
                (Some(_), Some(None)) => "cannot be read",
                (Some(value), Some(Some(stated))) if says(stated, value) => continue,
                (Some(_), Some(Some(_))) => "and the call say different things",
            };
            let message = format!("Header mismatch: the header Mcp-Param-{name} {reason}");
            return Err(ErrorObject::new(ErrorObject::HEADER_MISMATCH, &message));
        }
        Ok(())
    }
}

/// Finds the annotated properties below `schema` at `path`; `None` if one is not a name at a string, integer or
/// boolean.
fn find(schema: &Value, path: &mut Vec<String>, found: &mut Vec<(String, Vec<String>)>) -> Option<()> {
    if path.len() > DEEPEST {
        return None;
    }
    if let Some(name) = schema.get(KEYWORD) {
        let name = name.as_str().filter(|name| !name.is_empty() && !path.is_empty())?;
        matches!(schema["type"].as_str(), Some("string" | "integer" | "boolean")).then_some(())?;
        found.push((name.to_ascii_lowercase(), path.clone()));
    }
    for (key, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        path.push(key.clone());
        find(property, path, found)?;
        path.pop();
    }
    Some(())
}

/// The value at this path, if there is one.
fn at<'a>(arguments: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(arguments, |value, key| value.get(key)).filter(|value| !value.is_null())
}

/// The text of this value in a header; `None` for a value of another type.
fn stated(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Number(number) => match number.as_f64() {
            // an integer that was written as `42.0` or `1e3`
            Some(float) if number.is_f64() && float.fract() == 0.0 => Some(format!("{float:.0}")),
            _ => Some(number.to_string()),
        },
        _ => None,
    }
}

/// True if a header has this value; numbers are compared as numbers.
fn says(stated: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => text == stated,
        Value::Bool(truth) => stated == if *truth { "true" } else { "false" },
        Value::Number(number) => match (stated.parse::<i64>(), number.as_i64()) {
            (Ok(stated), Some(number)) => stated == number,
            _ => stated.parse::<f64>().ok().is_some_and(|stated| number.as_f64() == Some(stated)),
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool() -> Mirrored {
        let schema = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "at": { "type": "object", "properties": { "line": { "type": "integer", "x-mcp-header": "Line" } } },
            "dry": { "type": "boolean", "x-mcp-header": "Dry" },
        } });
        Mirrored::of_tool(json!({ "name": "t", "inputSchema": schema }).to_string().as_bytes()).unwrap()
    }

    fn mirror(headers: &[(&str, Option<&str>)]) -> Mirror {
        headers.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned))).collect()
    }

    #[test]
    fn what_is_mirrored_is_what_the_call_says() {
        let call = json!({ "region": "us", "at": { "line": 42 }, "dry": false });
        let good = [("region", Some("us")), ("line", Some("42.0")), ("dry", Some("false")), ("other", Some("x"))];
        assert_eq!(tool().check(&call, &mirror(&good)), Ok(()));
        assert_eq!(tool().check(&json!({ "region": null }), &mirror(&[])), Ok(()));
        for (call, wrong) in [
            (json!({ "region": "us" }), mirror(&[])),
            (json!({ "region": "us" }), mirror(&[("region", Some("eu"))])),
            (json!({ "region": "us" }), mirror(&[("region", None)])),
            (json!({}), mirror(&[("region", Some("us"))])),
            (json!({ "at": { "line": 42 } }), mirror(&[("line", Some("43"))])),
            (json!({ "dry": true }), mirror(&[("dry", Some("True"))])),
        ] {
            assert_eq!(tool().check(&call, &wrong).unwrap_err().code(), -32020, "{call} {wrong:?}");
        }
    }

    #[test]
    fn what_is_to_be_mirrored_of_a_call_is_what_it_is_held_against() {
        for (call, expected) in [
            (
                json!({ "region": " us\n", "at": { "line": -7 }, "dry": false }),
                vec![("dry", "false"), ("line", "-7"), ("region", " us\n")],
            ),
            (json!({ "region": "", "at": { "line": 4.2e1 }, "dry": null }), vec![("line", "42"), ("region", "")]),
            (json!({ "at": 7, "dry": {} }), vec![]),
            (json!([]), vec![]),
        ] {
            let of_call = tool().of_call(&call);
            let expected: Vec<_> = expected.into_iter().map(|(name, value)| (name, Some(value))).collect();
            assert_eq!(of_call, mirror(&expected), "{call}");
            if call["dry"] != json!({}) {
                assert_eq!(tool().check(&call, &of_call), Ok(()));
            }
        }
    }

    #[test]
    fn a_tool_with_invalid_annotations_has_none() {
        for property in [
            json!({ "type": "number", "x-mcp-header": "A" }),
            json!({ "type": "string", "x-mcp-header": "" }),
            json!({ "type": "string", "x-mcp-header": 1 }),
        ] {
            let tool = json!({ "inputSchema": { "properties": { "a": property } } }).to_string();
            assert_eq!(Mirrored::of_tool(tool.as_bytes()), None, "{tool}");
        }
        assert_eq!(Mirrored::of_tool(br#"{"name":"a","inputSchema":{"type":"object"}}"#), None);
    }
}
