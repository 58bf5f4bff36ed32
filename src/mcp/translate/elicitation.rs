//! Forms: converts the choice fields of 2025-11-25 for clients of 2025-06-18, and converts the answers back.
//!
//! A multiple-choice field becomes one yes-or-no field for each choice. The fields can be derived from the request, so
//! nothing has to be stored.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{
    super::{
        LackingFeature,
        json::{draft::Draft, quote, unquote},
    },
    refusal::{Cause, Untranslatable},
    translation::Translation,
};
use crate::support::digest::Digest;

/// Maximum length of a name (in bytes) or title (in characters) that is repeated for each choice of a field.
const LONGEST_LABEL: usize = 200;

/// Maximum number of choices in all fields of one form, because each choice becomes a field.
const MAX_CHOICES: usize = 1_000;

struct Choices {
    /// The start of the names of its yes-or-no fields; a number follows.
    prefix: String,
    /// The choices, each with its value (JSON text) and its title.
    options: Vec<(String, String)>,
    /// Minimum and maximum number of choices.
    least: Option<usize>,
    most: Option<usize>,
}

/// Converts a form for 2025-06-18.
///
/// # Errors
///
/// If the form has more choices than [`MAX_CHOICES`].
pub(super) fn lower_form(question: &mut Draft<'_>, translation: &Translation<'_>) -> Result<(), Untranslatable> {
    question.remove("mode");
    let Some(schema) = question.edit("requestedSchema") else { return Ok(()) };
    let Some(fields) = choices(schema) else {
        return Err(translation.refuse(LackingFeature::ManyChoices, Cause::ServerRequest));
    };
    if let Some(properties) = schema.edit("properties") {
        properties.each_member(|_, property| name_values(property));
        if !fields.is_empty() {
            properties.split_members(|name, property| fields.get(name).map(|choices| choices.lower(name, property)));
        }
    }
    if let Some(required) = schema.edit("required").filter(|_| !fields.is_empty()) {
        required.retain_elements(|name| name.string().is_none_or(|name| !fields.contains_key(&name)));
    }
    Ok(())
}

/// Combines the answers of the yes-or-no fields into the answer that the server's request asked for.
pub(super) fn raise_answer(
    answer: &mut Draft<'_>,
    question: &str,
    translation: &Translation<'_>,
) -> Result<(), Untranslatable> {
    let question = Draft::of(question);
    let Some(schema) = question.get("requestedSchema") else { return Ok(()) };
    let Some(fields) = choices(&schema) else { return Ok(()) };
    let mut origin = HashMap::new();
    for (field, choices) in &fields {
        origin.extend((0..choices.options.len()).map(|index| (choices.name(index), (field, index))));
    }
    if let Some(content) = answer.edit("content") {
        let mut chosen: BTreeMap<&String, BTreeSet<usize>> = BTreeMap::new();
        content.retain_members(|name, value| {
            let Some((field, index)) = origin.get(name) else { return true };
            let chosen = chosen.entry(field).or_default();
            if value.is_literal("true") {
                chosen.insert(*index);
            }
            false
        });
        if !chosen.is_empty() {
            content.retain_members(|name, _| !chosen.contains_key(&name.to_owned()));
        }
        for (field, chosen) in chosen {
            let Some(choices) = fields.get(field) else { continue };
            content.add(field, choices.raise(field, &chosen, translation)?);
        }
    }
    Ok(())
}

/// Converts `oneOf` with titles (2025-11-25) to `enum` and `enumNames` (2025-06-18).
fn name_values(property: &mut Draft<'_>) {
    let Some(options) = property.get("oneOf").and_then(|options| titled(&options, usize::MAX)) else { return };
    let texts: (Vec<String>, Vec<String>) = options.into_iter().map(|(value, title)| (value, quote(&title))).unzip();
    property.remove("oneOf");
    property.set("enum", format!("[{}]", texts.0.join(",")));
    property.set("enumNames", format!("[{}]", texts.1.join(",")));
}

/// The first `most` values of a list of `{ const, title }`; `None` if it is something else.
fn titled(list: &Draft<'_>, most: usize) -> Option<Vec<(String, String)>> {
    if !list.is_array() {
        return None;
    }
    list.elements()
        .take(most)
        .map(|option| {
            let value = option.member("const")?;
            let title = option.member_string("title").or_else(|| option.get("const")?.string());
            Some((value, title.unwrap_or_default()))
        })
        .collect()
}

/// The multiple-choice fields of a form, by name; `None` if they have more than [`MAX_CHOICES`].
fn choices(schema: &Draft<'_>) -> Option<HashMap<String, Choices>> {
    let Some(properties) = schema.get("properties") else { return Some(HashMap::new()) };
    let mut left = MAX_CHOICES;
    let names: BTreeSet<String> = properties.members().map(|(name, _)| name.into_owned()).collect();
    let mut found = HashMap::new();
    for (name, property) in properties.members() {
        // if a field is repeated, the last one counts
        found.remove(&*name);
        if !property.get("type").is_some_and(|kind| kind.is("array")) {
            continue;
        }
        let mut prefix = format!("{name}__");
        let taken = names.range(prefix.clone()..).next().is_some_and(|other| other.starts_with(&prefix));
        // a name that is repeated for each choice must be short
        if taken || name.len() > LONGEST_LABEL {
            prefix = format!("field_{}__", Digest::sha256(&*name).short_hex(8));
        }
        let bound = |key| property.member(key).and_then(|text| text.parse().ok());
        let (least, most) = (bound("minItems"), bound("maxItems"));
        if let Some(options) = property.get("items").and_then(|items| listed(&items, left + 1)) {
            left = left.checked_sub(options.len())?;
            found.insert(name.into_owned(), Choices { prefix, options, least, most });
        }
    }
    Some(found)
}

/// The first `most` values of the items of a list, titled or not.
fn listed(items: &Draft<'_>, most: usize) -> Option<Vec<(String, String)>> {
    for key in ["anyOf", "oneOf"] {
        if let Some(options) = items.get(key).and_then(|options| titled(&options, most)) {
            return Some(options);
        }
    }
    let values = items.get("enum").filter(|values| values.is_array())?;
    Some(values.elements().take(most).map(|value| (value.text(), value.string().unwrap_or_default())).collect())
}

/// A value written in one fixed way, so that two spellings of a string (with and without escapes) compare as equal.
fn spelled(value: &str) -> String {
    unquote(value).map_or_else(|| value.to_owned(), |text| quote(&text))
}

// === impl Choices ===

impl Choices {
    /// The name of the yes-or-no field of a choice.
    fn name(&self, index: usize) -> String {
        format!("{}{index}", self.prefix)
    }

    /// The yes-or-no fields, each with its name and its schema.
    fn lower(&self, field: &str, property: &mut Draft<'_>) -> Vec<(String, String)> {
        let label = property.member_string("title").unwrap_or_else(|| field.to_owned());
        let label: String = label.chars().take(LONGEST_LABEL).collect();
        let chosen: Option<HashSet<String>> =
            property.get("default").map(|values| values.elements().map(|value| spelled(&value.text())).collect());
        let lower = |(index, (value, title)): (usize, &(String, String))| {
            let title = quote(&format!("{label}: {title}"));
            let default = chosen.as_ref().map(|chosen| format!(",\"default\":{}", chosen.contains(&spelled(value))));
            let default = default.unwrap_or_default();
            (self.name(index), format!("{{\"type\":\"boolean\",\"title\":{title}{default}}}"))
        };
        self.options.iter().enumerate().map(lower).collect()
    }

    /// The choices that were made, as a JSON array.
    fn raise(
        &self,
        field: &str,
        chosen: &BTreeSet<usize>,
        translation: &Translation<'_>,
    ) -> Result<String, Untranslatable> {
        let bound = match (self.least, self.most) {
            (Some(least), _) if chosen.len() < least => format!("at least {least} of the choices"),
            (_, Some(most)) if chosen.len() > most => format!("at most {most} of the choices"),
            _ => {
                let values: Vec<&str> = chosen.iter().map(|index| self.options[*index].0.as_str()).collect();
                return Ok(format!("[{}]", values.join(",")));
            }
        };
        let cause = Cause::AskAgain { field: field.to_owned(), bound };
        Err(translation.refuse(LackingFeature::SeveralChoices, cause))
    }
}
