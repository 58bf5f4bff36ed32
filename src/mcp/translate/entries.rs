//! Entries of lists: the requirements of each revision for tools, prompts, resources and resource templates, and
//! additions that do not change an entry's meaning.
//!
//! Clients refuse a whole list if one entry breaks the schema. So each entry is checked once, when it is listed: a
//! valid entry stays byte for byte, an entry that lacks only implied members is completed, any other is left out.

mod form;

pub use self::form::ValidIn;
use self::form::{Check, Listed};
use super::{
    super::{
        Era, Method, Payload, Revision,
        json::{draft::Draft, quote},
        methods::shapes::{Form, Member, Shape},
    },
    schema,
};

/// Maximum length of the name of an entry that is left out, in characters; a longer one is cut.
const MAX_NAME: usize = 200;

/// An entry that was left out, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeftOut {
    /// The first 200 characters of the entry's name or URI; empty if it has none.
    pub name: String,
    /// The member that breaks the schema, and the violation.
    pub reason: String,
}

/// The entries of a list that were left out: the first hundred of them, and how many there are.
#[derive(Debug, Default)]
pub struct Omitted {
    first: Vec<LeftOut>,
    count: usize,
}

/// A page of a list. All its entries are valid in the revision that the page is written in.
#[derive(Debug)]
pub struct Checked {
    /// The page. It is the same buffer if every entry was valid.
    pub page: Payload,
    /// The entries that were removed.
    pub left_out: Omitted,
    /// True if the page had more entries than requested: the rest is neither in the page nor in `left_out`.
    pub is_cut: bool,
}

// === impl LeftOut ===

impl LeftOut {
    /// An entry with this name or URI, and the reason to leave it out.
    pub fn new(name: &str, reason: String) -> Self {
        Self { name: name.chars().take(MAX_NAME).collect(), reason }
    }
}

// === impl Omitted ===

impl Omitted {
    /// Maximum number of entries that are kept. Any more are only counted.
    pub const MAX_KEPT: usize = 100;

    pub fn push(&mut self, entry: LeftOut) {
        self.count += 1;
        if self.first.len() < Self::MAX_KEPT {
            self.first.push(entry);
        }
    }

    /// Adds the entries of another page.
    pub fn extend(&mut self, other: Self) {
        let unkept = other.count - other.first.len();
        other.first.into_iter().for_each(|entry| self.push(entry));
        self.count += unkept;
    }

    /// The first entries, a hundred at most.
    pub fn first(&self) -> &[LeftOut] {
        &self.first
    }

    /// The number of all entries that were left out.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// True if more entries were left out than [the first](Self::first).
    pub const fn is_cut(&self) -> bool {
        self.count > self.first.len()
    }
}

/// Checks the first `most` entries of a page against the revision it is written in, completes entries where possible,
/// and removes the invalid rest. A page of another method, or an unreadable page, is the same buffer.
pub fn checked(method: &Method, page: Payload, most: usize) -> Checked {
    let json = page.json().clone();
    let mut left_out = Omitted::default();
    let (Some(listed), Ok(text)) = (Listed::by(method), std::str::from_utf8(&json)) else {
        return Checked { page, left_out, is_cut: false };
    };
    let mut seen = 0;
    let mut draft = Draft::of(text);
    if let Some(entries) = draft.edit(listed.member) {
        entries.retain_elements(|entry| {
            seen += 1;
            seen <= most && settle(listed, entry, page.revision).map_err(|removed| left_out.push(removed)).is_ok()
        });
    }
    let page = if draft.is_changed() { page.rewritten(draft.text().into()) } else { page };
    Checked { page, left_out, is_cut: seen > most }
}

/// Keeps an entry that is valid in every revision, and otherwise tries to complete it. Returns the reason if the entry
/// is still invalid in its own revision.
fn settle(listed: Listed, entry: &mut Draft<'_>, written: Revision) -> Result<(), LeftOut> {
    let before = listed.valid_in(&entry.text(), written);
    if before == ValidIn::ALL {
        return Ok(());
    }
    let mut completed = entry.clone();
    complete(listed.shape, &mut completed, written.era());
    let text = completed.text();
    let after = listed.valid_in(&text, written);
    if after.has(written) {
        if after != before {
            *entry = completed;
        }
        return Ok(());
    }
    let reason = listed.fault(&text, Check { revision: written, written }).unwrap_or_default();
    Err(LeftOut::new(&entry.member_string(listed.key).unwrap_or_default(), reason))
}

// === completion ===

/// Adds what an entry implies: drops members that are `null`, adds an object schema where arguments are always an
/// object, and uses a resource's title or URI as its name.
fn complete(shape: Shape, entry: &mut Draft<'_>, era: Era) {
    for Member { name, form, .. } in shape {
        if entry.get(name).is_some_and(|value| value.is_literal("null")) {
            entry.remove(name);
        }
        match form {
            Form::Members(inner) => entry.edit(name).into_iter().for_each(|value| complete(inner, value, era)),
            Form::Each(inner) => {
                if let Some(values) = entry.edit(name) {
                    values.each_element(|value| complete(inner, value, era));
                }
            }
            Form::Input => {
                if entry.get(name).is_none_or(|schema| schema.is_literal("true")) {
                    entry.set(name, r#"{"type":"object"}"#);
                }
                entry.edit(name).into_iter().for_each(|schema| complete_schema(schema, era));
            }
            Form::Output if era == Era::Legacy => {
                entry.edit(name).into_iter().for_each(|schema| complete_schema(schema, era));
            }
            Form::Key if *name == "name" && !entry.has(name) => name_by_uri(entry),
            _ => {}
        }
    }
}

/// A resource is identified by its URI, and its name is only displayed. The name of a tool or prompt cannot be guessed.
fn name_by_uri(entry: &mut Draft<'_>) {
    let uri = ["uri", "uriTemplate"].into_iter().find_map(|key| entry.member_string(key));
    if let Some(uri) = uri {
        let name = entry.member_string("title").unwrap_or(uri);
        entry.set("name", quote(&name));
    }
}

/// Arguments and structured content are objects wherever a revision requires `"type": "object"` of their schema. So a
/// schema without a type, or with `object` among several types, accepts the same arguments after this change.
fn complete_schema(schema: &mut Draft<'_>, era: Era) {
    if !schema.is_object() {
        return;
    }
    for name in ["properties", "required", "type"] {
        if schema.get(name).is_some_and(|value| value.is_literal("null")) {
            schema.remove(name);
        }
    }
    if schema.get("type").is_none_or(|kind| kind.elements().any(|one| one.is("object"))) {
        schema.set("type", "\"object\"");
    }
    if era == Era::Legacy {
        schema::spell_booleans(schema);
    }
}

#[cfg(test)]
mod tests {
    use Revision::{V2024_11_05 as V1, V2025_06_18 as V3, V2025_11_25 as V4, V2026_07_28 as V5};
    use bytes::Bytes;
    use insta::assert_snapshot;

    use super::*;

    fn shown(method: &Method, revision: Revision, text: &'static str) -> String {
        let page = Payload::new(revision, Bytes::from_static(text.as_bytes()));
        let Checked { page, left_out, .. } = checked(method, page, 100);
        let reasons = left_out.first().iter().map(|LeftOut { name, reason }| format!("\n{name}: {reason}"));
        String::from_utf8_lossy(page.json()).into_owned() + &reasons.collect::<String>()
    }

    #[test]
    fn a_valid_entry_stays_byte_for_byte_beside_one_that_is_completed() {
        // server-filesystem 0.5.1 lists tools like the second one
        let tools = r#"{ "tools":[ { "name" : "a","x":1.00, "inputSchema":{ "type" : "object"}, "vendor":null } ,
            {"name":"b","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#"},"title":null}],"x":[ ]}"#;
        assert_snapshot!(shown(&Method::ToolsList, V4, tools), @r##"
        { "tools":[ { "name" : "a","x":1.00, "inputSchema":{ "type" : "object"}, "vendor":null } ,
                    {"name":"b","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}}],"x":[ ]}
        "##);
        let valid = r#"{"tools":[ {"name":"a","inputSchema":{"type":"object"}} ]}"#;
        let page = Payload::new(V4, Bytes::from_static(valid.as_bytes()));
        assert_eq!(checked(&Method::ToolsList, page.clone(), 1_000).page.json().as_ptr(), page.json().as_ptr());
    }

    #[test]
    fn an_entry_that_cannot_be_completed_is_left_out_with_the_reason() {
        let tools = r#"{"tools":[{"name":"a","inputSchema":{"type":"string"}},7,{"title":"no name"},
            {"name":"b","inputSchema":{"type":["object","null"],"properties":{"x":true},"required":null}},
            {"name":"c","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"yes"}},
            {"name":"d","inputSchema":{"type":"object","properties":{"x":1}}},{"name":"e"}]}"#;
        assert_snapshot!(shown(&Method::ToolsList, V3, tools), @r#"
        {"tools":[
                    {"name":"b","inputSchema":{"type":"object","properties":{"x":{}}}},{"name":"e","inputSchema":{"type":"object"}}]}
        a: `inputSchema.type` must be "object"
        : must be an object
        : `name` is missing
        c: `annotations.readOnlyHint` must be a boolean
        d: `inputSchema.properties` must be an object of JSON Schemas
        "#);
        let prompts = r#"{"prompts":[{"name":"p","arguments":[{"name":"x","required":"yes"}]},
            {"name":"q","arguments":[{"name":"x","required":null,"description":null}]},{"name":"r","arguments":null}]}"#;
        assert_snapshot!(shown(&Method::PromptsList, V4, prompts), @r#"
        {"prompts":[
                    {"name":"q","arguments":[{"name":"x"}]},{"name":"r"}]}
        p: `arguments.required` must be a boolean
        "#);
        let resources = r#"{"resources":[{"uri":"file:///a"},{"uri":"file:///b","title":"B","size":null},
            {"uri":"file:///c","name":"c","annotations":{"audience":["robot"]}},{"name":"d"}]}"#;
        assert_snapshot!(shown(&Method::ResourcesList, V4, resources), @r#"
        {"resources":[{"uri":"file:///a","name":"file:///a"},{"uri":"file:///b","title":"B","name":"B"}]}
        file:///c: `annotations.audience` must be an array of user, assistant
        : `uri` is missing
        "#);
        let templates = r#"{"resourceTemplates":[{"uriTemplate":"file:///{p}"}]}"#;
        assert_snapshot!(shown(&Method::ResourceTemplatesList, V1, templates), @r#"{"resourceTemplates":[{"uriTemplate":"file:///{p}","name":"file:///{p}"}]}"#);
    }

    #[test]
    fn entries_that_are_left_out_are_kept_to_a_hundred_and_counted() {
        let long = format!("[{}]", vec!["0"; 1_000].join(","));
        let page = Payload::new(V4, format!(r#"{{"tools":{long}}}"#).into());
        let mut omitted = checked(&Method::ToolsList, page.clone(), 1_000).left_out;
        assert_eq!((omitted.first().len(), omitted.count(), omitted.is_cut()), (100, 1_000, true));
        omitted.extend(checked(&Method::ToolsList, page, 1_000).left_out);
        assert_eq!((omitted.first().len(), omitted.count()), (100, 2_000));
        assert_eq!(LeftOut::new(&"\u{e9}".repeat(1_000), String::new()).name.chars().count(), MAX_NAME);
    }

    #[test]
    fn a_page_is_cut_after_as_many_entries_as_were_asked_for() {
        let page = Payload::new(V4, r#"{"prompts":[{"name":"a"},0,{"name":"b"},0]}"#.into());
        let Checked { page: cut, left_out, is_cut } = checked(&Method::PromptsList, page.clone(), 2);
        assert_eq!((&cut.json()[..], left_out.count(), is_cut), (&br#"{"prompts":[{"name":"a"}]}"#[..], 1, true));
        assert!(!checked(&Method::PromptsList, page, 4).is_cut);
    }

    #[test]
    fn what_a_revision_does_not_define_is_no_fault_there() {
        let entry = r#"{"name":"a","inputSchema":{"type":"object"},"title":5}"#;
        let valid = ValidIn::of(&Method::ToolsList, entry, V1);
        assert_eq!(Revision::ALL.map(|revision| valid.has(revision)), [true, true, false, false, false]);
        // the translation steps convert these
        let modern =
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":true}},"outputSchema":{"type":"array"}}"#;
        assert_eq!(ValidIn::of(&Method::ToolsList, modern, V5), ValidIn::ALL);
    }
}
