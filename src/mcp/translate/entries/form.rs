//! Checks listed entries against the shapes in `methods::shapes`, before any entry is completed.

use serde_json::Value;

use super::super::super::{
    Era, ListKind, Method, Revision,
    methods::shapes::{
        Form::{
            self, Each, Flag, Input, Key, Members, Number, Object, OneOf, OneOrMore, Output, SomeOf, Text, Texts,
            Value as Any,
        },
        Member, Shape,
    },
};

/// The set of revisions that accept an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValidIn(u8);

/// The entries in the result of one list method.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    /// The member of the result that holds the entries.
    pub(super) member: &'static str,
    /// The member of an entry that holds its name or URI.
    pub(super) key: &'static str,
    pub(super) shape: Shape,
}

/// State of the check of a value.
#[derive(Clone, Copy)]
pub(super) struct Check {
    pub(super) revision: Revision,
    /// The revision that the value is written in. Something that the steps convert is valid.
    pub(super) written: Revision,
}

// === impl ValidIn ===

impl ValidIn {
    /// Every revision.
    pub const ALL: Self = Self((1 << Revision::ALL.len()) - 1);

    /// The revisions that accept `entry` of a list of `method` once it is translated.
    pub fn of(method: &Method, entry: &str, written: Revision) -> Self {
        Listed::by(method).map_or(Self::ALL, |listed| listed.valid_in(entry, written))
    }

    /// True if the entry is valid in this revision.
    pub const fn has(self, revision: Revision) -> bool {
        self.0 & Self::bit(revision) != 0
    }

    /// The revisions that reject it, for display; `None` if there are none.
    pub fn exceptions(self) -> Option<String> {
        let names = Revision::ALL.into_iter().filter(|revision| !self.has(*revision)).map(Revision::as_str);
        let names: Vec<_> = names.collect();
        (!names.is_empty()).then(|| format!("has no valid form for clients of {}", names.join(", ")))
    }

    const fn bit(revision: Revision) -> u8 {
        1 << revision as u8
    }
}

// === impl Listed ===

impl Listed {
    pub(super) fn by(method: &Method) -> Option<Self> {
        let kind = ListKind::listed_by(method)?;
        let shape = method.result_shape()?.iter().find(|member| member.name == kind.member())?.form.inner()?;
        Some(Self { member: kind.member(), key: kind.key(), shape })
    }

    /// Text that cannot be parsed, such as one half of a surrogate pair, is left to the client.
    pub(super) fn valid_in(self, entry: &str, written: Revision) -> ValidIn {
        let Ok(value) = serde_json::from_str::<Value>(entry) else { return ValidIn::ALL };
        let valid = |revision: &Revision| Check { revision: *revision, written }.fault(self.shape, &value).is_none();
        ValidIn(Revision::ALL.into_iter().filter(valid).fold(0, |set, revision| set | ValidIn::bit(revision)))
    }

    pub(super) fn fault(self, entry: &str, check: Check) -> Option<String> {
        check.fault(self.shape, &serde_json::from_str(entry).ok()?)
    }
}

// === impl Check ===

impl Check {
    fn fault(self, shape: Shape, value: &Value) -> Option<String> {
        let Some(object) = value.as_object() else { return Some("must be an object".to_owned()) };
        shape.iter().filter(|member| member.is_in(self.revision)).find_map(|Member { name, form, .. }| {
            match (object.get(*name), form) {
                (None, Key | Input) => Some(format!("`{name}` is missing")),
                (None, _) => None,
                (Some(value), form) => self.fault_in(*form, value).map(|fault| match fault.strip_prefix('`') {
                    Some(inner) => format!("`{name}.{inner}"),
                    None => format!("`{name}` {fault}"),
                }),
            }
        })
    }

    fn fault_in(self, form: Form, value: &Value) -> Option<String> {
        let must = |fits: bool, what: &str| (!fits).then(|| format!("must be {what}"));
        let texts = || value.as_array().is_some_and(|all| all.iter().all(Value::is_string));
        let among = |names: &[&str], value: &Value| value.as_str().is_some_and(|text| names.contains(&text));
        match form {
            // not checked: never part of a listed entry
            Any | OneOrMore(_) => None,
            Key | Text => must(value.is_string(), "a string"),
            Flag => must(value.is_boolean(), "a boolean"),
            Number => must(value.is_number(), "a number"),
            Object => must(value.is_object(), "an object"),
            Texts => must(texts(), "an array of strings"),
            OneOf(names) => must(among(names, value), &format!("one of {}", names.join(", "))),
            SomeOf(names) => {
                let fits = value.as_array().is_some_and(|all| all.iter().all(|one| among(names, one)));
                must(fits, &format!("an array of {}", names.join(", ")))
            }
            Members(shape) => self.fault(shape, value),
            Each(shape) => match value.as_array() {
                Some(all) => all.iter().find_map(|one| self.fault(shape, one)),
                None => must(false, "an array"),
            },
            Output if self.written.era() == Era::Modern => {
                must(value.is_object() || value.is_boolean(), "a JSON Schema")
            }
            Input | Output => self.schema_fault(value),
        }
    }

    /// Checks a schema that must describe an object, and returns the violation. The legacy revisions fix the types of
    /// `properties` and `required`.
    fn schema_fault(self, schema: &Value) -> Option<String> {
        let Some(object) = schema.as_object() else { return Some("must be a JSON Schema of an object".to_owned()) };
        if object.get("type").is_none_or(|kind| kind != "object") {
            return Some("`type` must be \"object\"".to_owned());
        }
        if self.revision.era() == Era::Modern {
            return None;
        }
        let is_schema =
            |schema: &Value| schema.is_object() || (self.written.era() == Era::Modern && schema.is_boolean());
        let properties = object.get("properties");
        if properties.is_some_and(|all| !all.as_object().is_some_and(|all| all.values().all(is_schema))) {
            return Some("`properties` must be an object of JSON Schemas".to_owned());
        }
        let required = object.get("required");
        let names = |all: &Value| all.as_array().is_some_and(|all| all.iter().all(Value::is_string));
        required.is_some_and(|all| !names(all)).then(|| "`required` must be an array of strings".to_owned())
    }
}
