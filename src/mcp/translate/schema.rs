//! JSON Schemas of tools: converts boolean schemas and schemas with any root (2026-07-28) for revisions that know only
//! object schemas. Follows how schemas nest, and does not validate them.

use std::{borrow::Cow, ops::Range};

use super::super::{
    Payload,
    json::{
        draft::Draft,
        scan::{Token, Tokens},
        unquote,
    },
};

/// Path to the original root inside the wrapping schema.
const ROOT: &str = "/properties/result";

/// The meaning of an object inside a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A schema. `reached` if only `properties` lead to it from the root.
    Schema {
        reached: bool,
        /// The number of `properties` between it and the root.
        depth: usize,
    },
    /// A map from names to schemas.
    Map {
        /// True if these are the `properties` of a reached schema.
        reached: bool,
        /// The depth of the schema that contains it.
        depth: usize,
    },
    /// A value that is not a schema.
    Data,
}

/// Item of a walk over a schema.
pub(super) enum Met<'a> {
    Open,
    /// A keyword of a schema whose value is a string, number or literal, and its position.
    Keyword(&'a str, &'a str, Range<usize>),
    /// A keyword of a schema whose value is an object or an array.
    Nested(&'a str),
    Close(Place),
}

/// The names of the tools in a `tools/list` result whose output schema is wrapped for legacy clients, because these
/// require `"type": "object"` at its root (2025-06-18 and 2025-11-25, tools). Results of such a tool must be translated
/// as [`OutputSchema::Wrapped`](super::OutputSchema).
pub fn wrapped_tools(list: &Payload) -> Vec<String> {
    let Ok(text) = std::str::from_utf8(list.json()) else { return Vec::new() };
    let list = Draft::of(text);
    let Some(tools) = list.get("tools") else { return Vec::new() };
    tools
        .elements()
        .filter_map(|tool| {
            let wrapped = tool.get("outputSchema").is_some_and(|schema| !is_object_schema(&schema));
            if wrapped { tool.member_string("name") } else { None }
        })
        .collect()
}

/// Converts the schemas of a tool for legacy revisions.
pub(super) fn lower_tool(tool: &mut Draft<'_>) {
    match tool.edit("outputSchema") {
        Some(output) if is_object_schema(output) => spell_booleans(output),
        Some(output) => wrap(output),
        None => {}
    }
    tool.edit("inputSchema").into_iter().for_each(spell_booleans);
}

fn is_object_schema(schema: &Draft<'_>) -> bool {
    schema.get("type").is_some_and(|kind| kind.is("object"))
}

/// Converts `true` and `false` under `properties` to equivalent object schemas.
pub(super) fn spell_booleans(schema: &mut Draft<'_>) {
    if let Some(properties) = schema.edit("properties") {
        properties.each_member(|_, property| {
            if let Some(spelt) = spelt(property) {
                property.replace(spelt);
            }
        });
    }
}

/// The object schema that means the same as a boolean schema.
fn spelt(schema: &Draft<'_>) -> Option<&'static str> {
    if schema.is_literal("true") {
        return Some("{}");
    }
    schema.is_literal("false").then_some(r#"{"not":{}}"#)
}

/// Makes a schema the property `result` of an object schema, and adapts references within it.
fn wrap(schema: &mut Draft<'_>) {
    let dialect = schema.member("$schema").map(|dialect| format!("\"$schema\":{dialect},")).unwrap_or_default();
    // the dialect applies to the whole document, and is declared at its root
    schema.remove("$schema");
    let inner = spelt(schema).map_or_else(|| follow(&schema.text()), str::to_owned);
    let properties = format!("\"properties\":{{\"result\":{inner}}}");
    schema.replace(format!("{{{dialect}\"type\":\"object\",{properties},\"required\":[\"result\"]}}"));
}

/// The schema with its local references (`#`, `#/…`) adapted to the new position of its root. References below an `$id`
/// with its own base are relative to that base and stay. Anchors (`#name`) and values that are not schemas stay too.
fn follow(schema: &str) -> String {
    let mut marks: Vec<usize> = Vec::new();
    // for each open object: the number of marks before it, and whether it sets a base
    let mut open: Vec<(usize, bool)> = Vec::new();
    walk(schema, |met| match met {
        Met::Open => open.push((marks.len(), false)),
        Met::Close(_) => {
            if let Some((before, true)) = open.pop() {
                marks.truncate(before);
            }
        }
        Met::Keyword("$id", value, _) => {
            if let (Some((_, sets_base)), Some(id)) = (open.last_mut(), unquote(value)) {
                *sets_base |= !id.starts_with('#');
            }
        }
        Met::Keyword("$ref" | "$dynamicRef", value, range) => {
            if unquote(value).is_some_and(|reference| reference == "#" || reference.starts_with("#/")) {
                let sign = if value.starts_with("\"#") { "#" } else { r"\u0023" };
                marks.push(range.start + 1 + sign.len());
            }
        }
        Met::Keyword(..) | Met::Nested(_) => {}
    });
    let mut followed = String::with_capacity(schema.len() + marks.len() * ROOT.len());
    let mut done = 0;
    for mark in marks {
        followed.push_str(&schema[done..mark]);
        followed.push_str(ROOT);
        done = mark;
    }
    followed.push_str(&schema[done..]);
    followed
}

/// Walks through a schema in one pass, to any depth.
pub(super) fn walk(schema: &str, mut meet: impl FnMut(Met<'_>)) {
    // each open level: its meaning, and whether it is an object
    let mut levels: Vec<(Place, bool)> = Vec::new();
    let mut key = Cow::Borrowed("");
    for (token, range) in Tokens::of(schema) {
        match token {
            Token::Key(name) => key = plain(name),
            Token::OpenObject | Token::OpenArray => {
                let place = match levels.last() {
                    None => Place::Schema { reached: true, depth: 0 },
                    Some((parent @ Place::Schema { .. }, true)) => {
                        meet(Met::Nested(&key));
                        child(*parent, &key)
                    }
                    Some((parent, true)) => child(*parent, &key),
                    Some((parent, false)) => *parent,
                };
                let is_object = token == Token::OpenObject;
                levels.push((if is_object { place } else { unreached(place) }, is_object));
                if is_object {
                    meet(Met::Open);
                }
            }
            Token::Close => {
                if let Some((place, true)) = levels.pop() {
                    meet(Met::Close(place));
                }
            }
            Token::Scalar(value) => {
                if let Some((Place::Schema { .. }, true)) = levels.last() {
                    meet(Met::Keyword(&key, value, range));
                }
            }
        }
    }
}

/// The meaning of the value of the member `key`.
fn child(parent: Place, key: &str) -> Place {
    match parent {
        Place::Data => Place::Data,
        Place::Map { reached, depth } => Place::Schema { reached, depth: depth + 1 },
        Place::Schema { reached, depth } => match key {
            "properties" => Place::Map { reached, depth },
            "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => Place::Map { reached: false, depth },
            "const" | "enum" | "default" | "examples" => Place::Data,
            _ => Place::Schema { reached: false, depth },
        },
    }
}

/// A member's name without quotes and escapes.
fn plain(name: &str) -> Cow<'_, str> {
    match unquote(name) {
        Some(plain) if name.contains('\\') => Cow::Owned(plain),
        _ => Cow::Borrowed(name.trim_matches('"')),
    }
}

fn unreached(place: Place) -> Place {
    match place {
        Place::Schema { depth, .. } => Place::Schema { reached: false, depth },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_follow_their_root() {
        let schema = r##"{"anyOf":[{"$ref":"#"},{"$ref":"#/$defs/a"},{"$ref":"#anchor"},{"$ref":"other#/x"}],
            "const":{"$ref":"#/no"},"properties":{"$ref":{"$ref":"#/b"},"default":{"$ref":"#/c"}},
            "$defs":{"based":{"x":{"$ref":"#/d"},"$id":"https://x/y"},"named":{"$id":"#n","$ref":"#/e"}}}"##;
        let expected = schema
            .replace("\"#\"", "\"#/properties/result\"")
            .replace("#/$defs/a", "#/properties/result/$defs/a")
            .replace("#/b", "#/properties/result/b")
            .replace("#/c", "#/properties/result/c")
            .replace("#/e", "#/properties/result/e");
        assert_eq!(follow(schema), expected);
        // written as PHP does, and as no real serializer does
        assert_eq!(follow(r##"{"$ref":"#\/a"}"##), r##"{"$ref":"#/properties/result\/a"}"##);
        assert_eq!(follow(r#"{"$ref":"\u0023\/a"}"#), r#"{"$ref":"\u0023/properties/result\/a"}"#);
    }

    #[test]
    fn a_root_of_any_form_becomes_a_property() {
        let wrapped = |text| {
            let mut schema = Draft::of(text);
            wrap(&mut schema);
            schema.text()
        };
        assert_eq!(
            wrapped(r#"{ "$schema":"s", "type":"array"}"#),
            r#"{"$schema":"s","type":"object","properties":{"result":{ "type":"array"}},"required":["result"]}"#
        );
        assert_eq!(wrapped("true"), r#"{"type":"object","properties":{"result":{}},"required":["result"]}"#);
    }
}
