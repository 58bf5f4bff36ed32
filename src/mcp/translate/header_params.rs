//! `x-mcp-header`: tool parameters that a client of Streamable HTTP repeats in headers (2026-07-28, transports). This
//! file only checks the annotations.

use std::collections::HashSet;

use super::{
    super::{
        Payload,
        json::{draft::Draft, may_escape_letters, unquote},
        mirrored_params::{MAX_NAME, MAX_PARAMS},
    },
    schema::{Met, Place, walk},
};

const KEYWORD: &str = "x-mcp-header";

/// An object that is still open during a walk.
#[derive(Default)]
struct Read {
    header: Option<String>,
    is_primitive: bool,
}

/// The `tools/list` result of a 2026-07-28 HTTP backend without the tools whose annotations are invalid, because an
/// HTTP client must leave those out. Needed if backend and client speak the same revision, so that no step runs; the
/// steps do it themselves. If all tools are valid, the buffer stays the same.
#[must_use]
pub fn without_invalid_header_params(result: Payload) -> Payload {
    let json = result.json().clone();
    let Ok(text) = std::str::from_utf8(&json) else { return result };
    if !may_hold_keyword(text) {
        return result;
    }
    let mut draft = Draft::of(text);
    if let Some(tools) = draft.edit("tools") {
        tools.retain_elements(are_valid);
    }
    if draft.is_changed() { Payload::new(result.revision, draft.text().into()) } else { result }
}

/// True if each annotation in a tool's input schema is a header name, is unique (ignoring case), and stands on a
/// string, integer or boolean that only `properties` lead to.
pub(super) fn are_valid(tool: &mut Draft<'_>) -> bool {
    tool.get("inputSchema").is_none_or(|schema| {
        let text = schema.text();
        !may_hold_keyword(&text) || is_valid(&text)
    })
}

/// A name can contain escapes.
fn may_hold_keyword(text: &str) -> bool {
    text.contains(KEYWORD) || may_escape_letters(text.as_bytes())
}

fn is_valid(schema: &str) -> bool {
    let mut valid = true;
    let mut names = HashSet::new();
    let mut open: Vec<Read> = Vec::new();
    walk(schema, |met| match met {
        Met::Open => open.push(Read::default()),
        Met::Nested(key) => valid &= key != KEYWORD,
        Met::Keyword(KEYWORD, value, _) => match (unquote(value), open.last_mut()) {
            (Some(name), Some(read)) => read.header = Some(name),
            _ => valid = false,
        },
        Met::Keyword("type", value, _) => {
            if let Some(read) = open.last_mut() {
                read.is_primitive = matches!(unquote(value).as_deref(), Some("string" | "integer" | "boolean"));
            }
        }
        Met::Keyword(..) => {}
        Met::Close(place) => {
            let Some(Read { header: Some(name), is_primitive }) = open.pop() else { return };
            let reached = matches!(place, Place::Schema { reached: true, depth: 1.. });
            valid &= reached && is_primitive && is_token(&name) && names.len() < MAX_PARAMS;
            valid = valid && names.insert(name.to_ascii_lowercase());
        }
    });
    valid
}

/// RFC 9110 5.6.2: `token = 1*tchar`, within the length limit of mirrored names.
fn is_token(name: &str) -> bool {
    let is_tchar = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_tchar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_is_a_unique_token_at_a_reachable_primitive() {
        let tool = |properties: &str| format!(r#"{{"inputSchema":{{"type":"object","properties":{{{properties}}}}}}}"#);
        let valid = |properties: &str| are_valid(&mut Draft::of(&tool(properties)));
        assert!(valid(r#""a":{"type":"string","x-mcp-header":"A"},"b":{"x-mcp-header":"B-2","type":"boolean"}"#));
        assert!(valid(r#""o":{"type":"object","properties":{"a":{"type":"integer","x-mcp-header":"A"}}}"#));
        assert!(valid(r#""x-mcp-header":{"type":"object"},"c":{"const":{"x-mcp-header":1}}"#));
        assert!(!valid(r#""a":{"type":"number","x-mcp-header":"A"}"#));
        assert!(!valid(r#""a":{"x-mcp-header":"A"}"#));
        assert!(!valid(r#""a":{"type":"string","x-mcp-header":""}"#));
        assert!(!valid(r#""a":{"type":"string","x-mcp-header":"A B"}"#));
        assert!(!valid(r#""a":{"type":"string","x-mcp-header":7}"#));
        assert!(!valid(r#""a":{"type":"string","x-mcp-header":["A"]}"#));
        assert!(!valid(r#""a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}"#));
        assert!(!valid(r#""l":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}"#));
        assert!(!valid(r#""l":{"allOf":[{"type":"string","x-mcp-header":"A"}]}"#));
        assert!(!are_valid(&mut Draft::of(r#"{"inputSchema":{"type":"string","x-mcp-header":"A"}}"#)));
    }
}
