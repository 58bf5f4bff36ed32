//! Tool parameters that a client mirrors in headers, `x-mcp-header` (2026-07-28, transports, *Custom Headers from Tool
//! Parameters*): finds them, writes the headers of a call, and checks that received headers match the call.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use memchr::memmem::Finder;
use serde_json::Value;

use super::{ErrorObject, json};

const KEYWORD: &str = "x-mcp-header";
/// Maximum depth of a mirrored parameter in the arguments, in steps.
const DEEPEST: usize = 32;
/// Maximum number of mirrored parameters of one tool: with more, many servers and proxies would refuse the request.
pub(crate) const MAX_PARAMS: usize = 64;
/// Maximum length of the name of a header after `Mcp-Param-`, in bytes.
pub(crate) const MAX_NAME: usize = 128;

/// Mirrored values by header name (the part after `Mcp-Param-`, in lower case), before they are encoded for the header;
/// `None` for an unreadable value.
pub type Mirror = BTreeMap<String, Option<String>>;

/// The mirrored parameters of one tool, 64 at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirrored(Vec<MirroredParam>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct MirroredParam {
    /// The part of the header's name after `Mcp-Param-`, in lower case.
    header: String,
    path: Arc<NamePath>,
}

/// The last step of a path into the arguments. The steps before are shared with other parameters, because a hostile
/// tool has long names above many of them.
#[derive(Debug, PartialEq, Eq)]
struct NamePath {
    above: Option<Arc<Self>>,
    key: String,
}

impl Mirrored {
    /// The mirrored parameters of a tool in `tools/list`. `None` if it has none, or if its annotations are invalid:
    /// then no client calls the tool.
    pub fn of_tool(tool: &[u8]) -> Option<Self> {
        // a single search rules out most tools
        if !json::may_hold(tool, &Finder::new(KEYWORD)) {
            return None;
        }
        let tool: Value = serde_json::from_slice(tool).ok()?;
        let mut found = Vec::new();
        find(&tool["inputSchema"], &mut Vec::new(), &mut found)?;
        let mut names = HashSet::new();
        let unique = found.iter().all(|param| names.insert(&*param.header));
        (unique && !found.is_empty()).then_some(Self(found))
    }

    /// The mirrored values of a call with these arguments, for each parameter that is present and not `null`: the
    /// string, the integer in decimal, `true` or `false` (*Value Encoding*).
    pub fn of_call(&self, arguments: &Value) -> Mirror {
        let stated = |MirroredParam { header, path }: &MirroredParam| {
            Some((header.clone(), Some(stated(path.value_in(arguments)?)?)))
        };
        self.0.iter().filter_map(stated).collect()
    }

    /// Compares the client's mirrored values with the arguments of its call.
    ///
    /// # Errors
    ///
    /// `-32020` if a header is missing, unreadable, without a value in the call, or different.
    pub fn check(&self, arguments: &Value, mirror: &Mirror) -> Result<(), ErrorObject> {
        for MirroredParam { header: name, path } in &self.0 {
            let reason = match (path.value_in(arguments), mirror.get(name)) {
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

/// A step of the path to the current schema. Its shared form is created once a parameter below it is mirrored.
struct OpenName<'a> {
    key: &'a str,
    shared: Option<Arc<NamePath>>,
}

/// Finds the annotated properties below `schema` at `path`. Returns `None` if an annotation is not a header name or not
/// on a string, integer or boolean, or if there are too many, or they are too deep, or a name is too long.
fn find<'a>(schema: &'a Value, path: &mut Vec<OpenName<'a>>, found: &mut Vec<MirroredParam>) -> Option<()> {
    if path.len() > DEEPEST {
        return None;
    }
    if let Some(name) = schema.get(KEYWORD) {
        let name = name.as_str().filter(|name| !name.is_empty() && name.len() <= MAX_NAME)?;
        matches!(schema["type"].as_str(), Some("string" | "integer" | "boolean")).then_some(())?;
        if found.len() == MAX_PARAMS {
            return None;
        }
        found.push(MirroredParam { header: name.to_ascii_lowercase(), path: shared(path)? });
    }
    for (key, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        path.push(OpenName { key, shared: None });
        find(property, path, found)?;
        path.pop();
    }
    Some(())
}

/// The last step of a path, linked to the steps before; `None` if the path is empty.
fn shared(path: &mut [OpenName<'_>]) -> Option<Arc<NamePath>> {
    path.iter_mut().fold(None, |above, step| {
        let made = || Arc::new(NamePath { above, key: step.key.to_owned() });
        Some(Arc::clone(step.shared.get_or_insert_with(made)))
    })
}

// === impl NamePath ===

impl NamePath {
    /// The value at the end of this path; `None` if it is absent or `null`.
    fn value_in<'a>(&self, arguments: &'a Value) -> Option<&'a Value> {
        self.at(arguments).filter(|value| !value.is_null())
    }

    fn at<'a>(&self, arguments: &'a Value) -> Option<&'a Value> {
        let above = self.above.as_ref().map_or(Some(arguments), |above| above.at(arguments));
        above?.get(&self.key)
    }
}

/// The text for this value in a header; `None` if it is not a string, number or boolean.
fn stated(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Number(number) => match number.as_f64() {
            // an integer written as `42.0` or `1e3`
            Some(float) if number.is_f64() && float.fract() == 0.0 => Some(format!("{float:.0}")),
            _ => Some(number.to_string()),
        },
        _ => None,
    }
}

/// True if the header states this value; numbers are compared as numbers.
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
    fn names_above_mirrored_parameters_are_held_once() {
        let long = "x".repeat(100_000);
        let tool = |params: usize| {
            let annotated =
                |at: usize| (format!("p{at}"), json!({ "type": "string", "x-mcp-header": format!("H{at}") }));
            let inner: serde_json::Map<String, Value> = (0..params).map(annotated).collect();
            let schema = json!({ "properties": { &long: { "type": "object", "properties": inner } } });
            Mirrored::of_tool(json!({ "inputSchema": schema }).to_string().as_bytes())
        };
        let Mirrored(params) = tool(MAX_PARAMS).unwrap();
        assert_eq!(params.len(), MAX_PARAMS);
        assert!(
            params
                .iter()
                .all(|param| Arc::ptr_eq(param.path.above.as_ref().unwrap(), params[0].path.above.as_ref().unwrap()))
        );
        assert_eq!(tool(MAX_PARAMS + 1), None);
        let call = json!({ &long: { "p3": "three" } });
        assert_eq!(tool(4).unwrap().of_call(&call), mirror(&[("h3", Some("three"))]));
    }

    #[test]
    fn a_tool_with_invalid_annotations_has_none() {
        for property in [
            json!({ "type": "number", "x-mcp-header": "A" }),
            json!({ "type": "string", "x-mcp-header": "" }),
            json!({ "type": "string", "x-mcp-header": "A".repeat(MAX_NAME + 1) }),
            json!({ "type": "string", "x-mcp-header": 1 }),
        ] {
            let tool = json!({ "inputSchema": { "properties": { "a": property } } }).to_string();
            assert_eq!(Mirrored::of_tool(tool.as_bytes()), None, "{tool}");
        }
        assert_eq!(Mirrored::of_tool(br#"{"name":"a","inputSchema":{"type":"object"}}"#), None);
    }
}
