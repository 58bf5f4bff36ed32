//! Typed access to one table of a configuration: bounds, expansion and error reports.

use std::{cell::RefCell, collections::BTreeMap, ops::RangeInclusive, time::Duration};

use serde_json::Value;

use super::{
    expand::{ReferenceSources, Unexpandable, expand, expand_for_callers},
    problem::{ConfigPlace, ConfigProblem},
    tree::{ConfigEntry, ConfigNode, ConfigValue, Document},
    units,
};
use crate::model::{CallerText, NameGlobs};

/// Context of the sections of one file: the file, the variables, and the errors so far.
#[derive(Debug)]
pub struct SectionReader<'a> {
    pub document: &'a Document,
    /// Variables for `${NAME}`, and the folder for `${file:PATH}`.
    pub sources: ReferenceSources<'a>,
    /// Errors so far.
    pub problems: RefCell<Vec<ConfigProblem>>,
    /// Options so far that have an effect elsewhere but not here.
    pub without_effect: RefCell<Vec<ConfigProblem>>,
}

/// One table. Each accessor takes one option and returns `None` if it is absent or invalid (and then reported);
/// [`Section::finish`] reports unknown options.
#[derive(Debug)]
pub struct Section<'a> {
    reader: &'a SectionReader<'a>,
    /// Path with a dot at the end; empty for the outermost table.
    prefix: String,
    at: usize,
    entries: &'a [ConfigEntry],
    known: Vec<&'static str>,
    passed_over: &'static [&'static str],
    elsewhere: &'static [(&'static str, &'static str)],
}

// === impl SectionReader ===

impl<'a> SectionReader<'a> {
    /// Errors, in file order.
    pub fn into_problems(self) -> Vec<ConfigProblem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| match problem.place {
            ConfigPlace::File { line, column, .. } => (line, column),
            _ => (0, 0),
        });
        problems
    }

    pub fn root(&'a self) -> Section<'a> {
        self.section(String::new(), 0, &self.document.root)
    }

    fn section(&'a self, prefix: String, at: usize, entries: &'a [ConfigEntry]) -> Section<'a> {
        Section { reader: self, prefix, at, entries, known: Vec::new(), passed_over: &[], elsewhere: &[] }
    }

    fn note(&self, at: usize, path: &str, what: impl Into<String>) {
        self.note_with(at, path, what, None);
    }

    fn note_with(&self, at: usize, path: &str, what: impl Into<String>, advice: Option<String>) {
        let problem = ConfigProblem { place: self.document.place(at, path), what: what.into(), advice };
        self.problems.borrow_mut().push(problem);
    }

    /// The string at `node` with its variables expanded. Messages never quote it, since it may be a secret.
    fn text(&self, node: &ConfigNode, path: &str) -> Option<String> {
        self.expanded(node, path, expand)
    }

    /// The same for a text that may differ between callers.
    fn caller_text(&self, node: &ConfigNode, path: &str) -> Option<CallerText> {
        self.expanded(node, path, expand_for_callers)
    }

    fn expanded<T>(
        &self,
        node: &ConfigNode,
        path: &str,
        expand: impl FnOnce(&str, ReferenceSources<'_>) -> Result<T, Vec<Unexpandable>>,
    ) -> Option<T> {
        let ConfigValue::Text(text) = &node.value else {
            self.note(node.at, path, format!("this must be a string, not {}", node.value.kind()));
            return None;
        };
        let faults = match expand(text, self.sources) {
            Ok(expanded) => return Some(expanded),
            Err(faults) => faults,
        };
        for fault in faults {
            self.note_with(node.at, path, fault.to_string(), Some(fault.advice()));
        }
        None
    }

    /// A value of any kind.
    fn json(&self, node: &ConfigNode, path: &str) -> Option<Value> {
        Some(match &node.value {
            ConfigValue::Text(_) => Value::String(self.text(node, path)?),
            ConfigValue::Integer(number) => Value::from(*number),
            ConfigValue::Flag(flag) => Value::Bool(*flag),
            ConfigValue::List(nodes) => nodes.iter().map(|node| self.json(node, path)).collect::<Option<_>>()?,
            ConfigValue::Table(entries) => {
                let member = |entry: &ConfigEntry| Some((entry.key.clone(), self.json(&entry.value, path)?));
                Value::Object(entries.iter().map(member).collect::<Option<_>>()?)
            }
            ConfigValue::Other(kind) => {
                self.note(node.at, path, format!("this cannot be {kind}"));
                return None;
            }
        })
    }
}

// === impl Section ===

impl<'a> Section<'a> {
    /// A string.
    pub fn text(&mut self, key: &'static str) -> Option<String> {
        let entry = self.take(key)?;
        self.reader.text(&entry.value, &self.path(key))
    }

    /// A string that `parse` checks; its error says what is wrong.
    pub fn parsed<T>(&mut self, key: &'static str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let entry = self.take(key)?;
        self.parse_node(&entry.value, &self.path(key), &parse)
    }

    /// The same, or a whole number.
    pub fn parsed_or_number<T>(&mut self, key: &'static str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let entry = self.take(key)?;
        let ConfigNode { at, value: ConfigValue::Integer(number) } = entry.value else {
            return self.parse_node(&entry.value, &self.path(key), &parse);
        };
        let node = ConfigNode { at, value: ConfigValue::Text(number.to_string()) };
        self.parse_node(&node, &self.path(key), &parse)
    }

    /// A list of strings, each checked by `parse`.
    pub fn parsed_list<T>(&mut self, key: &'static str, parse: impl Fn(&str) -> Result<T, String>) -> Option<Vec<T>> {
        let entry = self.take(key)?;
        let path = self.path(key);
        let ConfigValue::List(nodes) = &entry.value.value else {
            self.wrong_kind(entry, "a list of strings");
            return None;
        };
        let parsed = |(index, node)| self.parse_node(node, &format!("{path}[{index}]"), &parse);
        Some(nodes.iter().enumerate().filter_map(parsed).collect())
    }

    /// A string, or a list of strings, each checked by `parse`.
    pub fn parsed_text_or_list<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        match self.find(key).map(|entry| &entry.value.value) {
            Some(ConfigValue::Text(_)) => self.parsed(key, parse).map(|one| vec![one]),
            _ => self.parsed_list(key, parse),
        }
    }

    /// A list of strings.
    pub fn texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        self.parsed_list(key, |text| Ok(text.to_owned()))
    }

    /// A list of patterns of names.
    pub fn patterns(&mut self, key: &'static str) -> Option<NameGlobs> {
        let parsed = NameGlobs::parse(self.texts(key)?);
        let advice = Some("patterns have `*`, `?`, `[ab]` and `{a,b}`");
        parsed.map_err(|what| self.fault(format!("`{key}`: {what}"), advice)).ok()
    }

    /// A list of strings that may contain the caller.
    pub fn caller_texts(&mut self, key: &'static str) -> Option<Vec<CallerText>> {
        let entry = self.take(key)?;
        let path = self.path(key);
        let ConfigValue::List(nodes) = &entry.value.value else {
            self.wrong_kind(entry, "a list of strings");
            return None;
        };
        let text = |(index, node)| self.reader.caller_text(node, &format!("{path}[{index}]"));
        Some(nodes.iter().enumerate().filter_map(text).collect())
    }

    /// A table of secrets that may contain the caller. `check` returns the fault of a pair in the form for the gateway
    /// itself, without quoting the value. A number or a boolean counts as its text.
    pub fn caller_secrets(
        &mut self,
        key: &'static str,
        check: impl Fn(&str, &str) -> Result<(), String>,
    ) -> BTreeMap<String, CallerText> {
        let Some(entry) = self.take(key) else { return BTreeMap::new() };
        let ConfigValue::Table(pairs) = &entry.value.value else {
            self.wrong_kind(entry, "a table of strings");
            return BTreeMap::new();
        };
        let mut secrets = BTreeMap::new();
        for pair in pairs {
            let path = format!("{}.{}", self.path(key), pair.key);
            let value = match &pair.value.value {
                ConfigValue::Integer(number) => Some(CallerText::fixed(number.to_string())),
                ConfigValue::Flag(flag) => Some(CallerText::fixed(flag.to_string())),
                _ => self.reader.caller_text(&pair.value, &path),
            };
            let Some(value) = value else { continue };
            if let Err(what) = check(&pair.key, value.for_gateway().expose()) {
                self.reader.note(pair.at, &path, what);
            } else if secrets.insert(pair.key.clone(), value).is_some() {
                self.reader.note(pair.at, &path, "this name occurs twice");
            }
        }
        secrets
    }

    /// A duration within `bounds`.
    pub fn duration(&mut self, key: &'static str, bounds: RangeInclusive<Duration>) -> Option<Duration> {
        if let Some(ConfigEntry { value: ConfigNode { at, value: ConfigValue::Integer(_) }, .. }) = self.find(key) {
            self.known.push(key);
            self.reader.note(*at, &self.path(key), "this needs its unit and quotes: `\"500ms\"`, `\"60s\"`, `\"30m\"`");
            return None;
        }
        self.parsed(key, |text| {
            let duration = units::parse_duration(text)?;
            let show = units::show_duration;
            if bounds.contains(&duration) {
                Ok(duration)
            } else {
                Err(format!("{} is not between {} and {}", show(duration), show(*bounds.start()), show(*bounds.end())))
            }
        })
    }

    /// A number within `bounds`.
    pub fn count(&mut self, key: &'static str, bounds: RangeInclusive<usize>) -> Option<usize> {
        let entry = self.take(key)?;
        let ConfigValue::Integer(number) = entry.value.value else {
            self.wrong_kind(entry, "a number");
            return None;
        };
        let count = usize::try_from(number).ok().filter(|count| bounds.contains(count));
        if count.is_none() {
            let what = format!("{number} is not between {} and {}", bounds.start(), bounds.end());
            self.reader.note(entry.value.at, &self.path(key), what);
        }
        count
    }

    /// A size in bytes within `bounds`, as text with a unit or a plain number.
    pub fn size(&mut self, key: &'static str, bounds: RangeInclusive<usize>) -> Option<usize> {
        let entry = self.take(key)?;
        let path = self.path(key);
        let size = match &entry.value.value {
            ConfigValue::Integer(number) => u64::try_from(*number).unwrap_or(0),
            _ => self.parse_node(&entry.value, &path, &units::parse_size)?,
        };
        let fitting = usize::try_from(size).ok().filter(|size| bounds.contains(size));
        if fitting.is_none() {
            let show = |size: &usize| units::show_size(*size as u64);
            let range = format!("between {} and {}", show(bounds.start()), show(bounds.end()));
            self.reader.note(entry.value.at, &path, format!("{} is not {range}", units::show_size(size)));
        }
        fitting
    }

    /// True or false.
    pub fn flag(&mut self, key: &'static str) -> Option<bool> {
        let entry = self.take(key)?;
        if let ConfigValue::Flag(flag) = entry.value.value {
            return Some(flag);
        }
        self.wrong_kind(entry, "true or false, without quotes");
        None
    }

    /// A string that `parse` checks, or `false`, which is `off`.
    pub fn parsed_or_false<T>(
        &mut self,
        key: &'static str,
        off: T,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let entry = self.take(key)?;
        match &entry.value.value {
            ConfigValue::Flag(false) => Some(off),
            ConfigValue::Text(_) => self.parse_node(&entry.value, &self.path(key), &parse),
            _ => {
                self.wrong_kind(entry, "a string or false");
                None
            }
        }
    }

    /// One of the given words.
    pub fn choice<T: Clone>(&mut self, key: &'static str, choices: &[(&'static str, T)]) -> Option<T> {
        self.parsed(key, |text| {
            let chosen = choices.iter().find(|(name, _)| *name == text);
            let names = || choices.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            chosen.map(|(_, choice)| choice.clone()).ok_or_else(|| format!("this must be one of {}", names()))
        })
    }

    /// A table with any names and values, as JSON.
    pub fn values(&mut self, key: &'static str) -> Vec<(String, Value)> {
        let Some(entries) = self.take(key).and_then(|entry| self.entries_of(entry)) else { return Vec::new() };
        let path = self.path(key);
        let value = |entry: &ConfigEntry| {
            let path = format!("{path}.{}", entry.key);
            Some((entry.key.clone(), self.reader.json(&entry.value, &path)?))
        };
        entries.iter().filter_map(value).collect()
    }

    /// A table as a section; empty if it is absent.
    #[must_use]
    pub fn table(&mut self, key: &'static str) -> Self {
        let prefix = format!("{}.", self.path(key));
        let Some(entry) = self.take(key) else { return self.reader.section(prefix, self.at, &[]) };
        self.reader.section(prefix, entry.at, self.entries_of(entry).unwrap_or_default())
    }

    /// The tables within this one, with any names.
    pub fn tables(self) -> Vec<(&'a str, Self)> {
        let inner = |entry: &'a ConfigEntry| {
            let prefix = format!("{}{}.", self.prefix, entry.key);
            Some((entry.key.as_str(), self.reader.section(prefix, entry.at, self.entries_of(entry)?)))
        };
        self.entries.iter().filter_map(inner).collect()
    }

    /// The names of the options that are present.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.entries.iter().map(|entry| entry.key.as_str())
    }

    /// True if the option is present, valid or not; it counts as known.
    pub fn has(&mut self, key: &'static str) -> bool {
        self.known.push(key);
        self.find(key).is_some()
    }

    /// Reports the option `key` as not allowed, if present.
    pub fn refuse(&mut self, key: &'static str, what: &str, advice: &str) {
        if let Some(entry) = self.take(key) {
            self.reader.note_with(entry.at, &self.path(key), what, Some(advice.to_owned()));
        }
    }

    /// Options to ignore.
    pub fn pass_over(&mut self, keys: &'static [&'static str]) {
        self.passed_over = keys;
    }

    /// Options that only work in other programs: how it is here, and what to write.
    pub fn without_effect(&mut self, options: &[(&'static str, &str, &str)]) {
        for (key, what, advice) in options {
            let Some(entry) = self.take(key) else { continue };
            if !matches!(entry.value.value, ConfigValue::Flag(false)) {
                let place = self.reader.document.place(entry.at, &self.path(key));
                let notice = ConfigProblem::new(place, *what).advise(*advice);
                self.reader.without_effect.borrow_mut().push(notice);
            }
        }
    }

    /// Options by their names in other programs, with their names here, for advice.
    pub fn called_elsewhere(&mut self, names: &'static [(&'static str, &'static str)]) {
        self.elsewhere = names;
    }

    /// Reports an error of the whole section.
    pub fn fault(&self, what: impl Into<String>, advice: Option<&str>) {
        let path = self.prefix.trim_end_matches('.');
        self.reader.note_with(self.at, path, what, advice.map(str::to_owned));
    }

    /// Reports an error of the value of `key`, which is present.
    pub fn fault_of(&self, key: &'static str, what: impl Into<String>) {
        let at = self.find(key).map_or(self.at, |entry| entry.value.at);
        self.reader.note(at, &self.path(key), what);
    }

    /// Place of this section.
    pub fn place(&self) -> ConfigPlace {
        self.reader.document.place(self.at, self.prefix.trim_end_matches('.'))
    }

    /// Reports every unknown option, with the name that was probably meant.
    pub fn finish(self) {
        for entry in self.entries {
            let key = entry.key.as_str();
            if !self.known.contains(&key) && !self.passed_over.contains(&key) {
                let own = self.elsewhere.iter().find(|(name, _)| *name == key).map(|(_, own)| format!("write `{own}`"));
                let advice = own.or_else(|| Some(format!("did you mean `{}`?", meant(key, &self.known)?)));
                self.reader.note_with(entry.at, &self.path(&entry.key), "unknown option", advice);
            }
        }
    }

    /// Reports unknown options that are probably misspelt; others belong to another program.
    pub fn finish_shared(self) {
        for entry in self.entries {
            let key = entry.key.as_str();
            let is_other = !self.known.contains(&key) && !self.passed_over.contains(&key);
            if let Some(name) = meant(key, &self.known).filter(|_| is_other) {
                self.reader.note_with(
                    entry.at,
                    &self.path(key),
                    "unknown option",
                    Some(format!("did you mean `{name}`?")),
                );
            }
        }
    }

    fn find(&self, key: &str) -> Option<&'a ConfigEntry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The entry of `key`, which counts as known; reports a duplicate.
    fn take(&mut self, key: &'static str) -> Option<&'a ConfigEntry> {
        self.known.push(key);
        let mut entries = self.entries.iter().filter(|entry| entry.key == key);
        let first = entries.next();
        if let Some(second) = entries.next() {
            self.reader.note(second.at, &self.path(key), "this option occurs twice");
        }
        first
    }

    /// The entries of a table; reports any other value.
    fn entries_of(&self, entry: &'a ConfigEntry) -> Option<&'a [ConfigEntry]> {
        if let ConfigValue::Table(entries) = &entry.value.value {
            return Some(entries);
        }
        self.wrong_kind(entry, "a table");
        None
    }

    fn parse_node<T>(&self, node: &ConfigNode, path: &str, parse: &impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let text = self.reader.text(node, path)?;
        parse(&text).map_err(|what| self.reader.note(node.at, path, what)).ok()
    }

    fn wrong_kind(&self, entry: &ConfigEntry, expected: &str) {
        let what = format!("this must be {expected}, not {}", entry.value.value.kind());
        self.reader.note(entry.value.at, &self.path(&entry.key), what);
    }

    fn path(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }
}

/// The known name nearest to `key`, if near enough.
pub(super) fn meant<'n>(key: &str, known: &[&'n str]) -> Option<&'n str> {
    let alike = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let key = alike(key);
    let distance = |name: &str| strsim::damerau_levenshtein(&key, &alike(name));
    let nearest = known.iter().copied().min_by_key(|name| distance(name))?;
    (distance(nearest) <= (nearest.len() / 3).max(1)).then_some(nearest)
}
