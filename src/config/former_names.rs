//! Keys that had another name or are gone: one table of them, and a file rewritten with the present names.

use super::{
    problem::ConfigProblem,
    tree::{ConfigEntry, ConfigValue, Document},
};

/// A key that had another name, or is gone.
struct FormerName {
    /// Path of its table; `*` is any name.
    table: &'static [&'static str],
    former: &'static str,
    present: PresentName,
}

/// The present name of a key.
#[derive(Clone, Copy)]
enum PresentName {
    /// The key has another name now.
    Key(&'static str),
    /// The key no longer does anything; this one in the same table replaced it.
    Gone(&'static str),
}

use PresentName::{Gone, Key};

const FORMER_NAMES: [FormerName; 9] = [
    FormerName { table: &[], former: "backends", present: Key("servers") },
    FormerName { table: &["limits"], former: "backend_sessions", present: Key("server_sessions") },
    FormerName { table: &["limits"], former: "sessions_per_caller", present: Key("sessions_per_user") },
    FormerName { table: &["limits"], former: "calls_per_session", present: Gone("calls_per_user") },
    FormerName { table: &["limits"], former: "question_timeout", present: Key("server_request_timeout") },
    FormerName { table: &["limits"], former: "question_slot_time", present: Key("server_request_slot_time") },
    FormerName { table: &["auth"], former: "conceal_backends", present: Key("conceal_servers") },
    FormerName { table: &["login", "*"], former: "backends", present: Key("servers") },
    FormerName { table: &["login", "*", "rights", "*"], former: "backends", present: Key("servers") },
];

/// The former name of a key, or of the key it replaced; `None` without one. `table` is the path of its table with names
/// in angle brackets, such as `login.<name>`.
pub fn former_name(table: &str, key: &str) -> Option<&'static str> {
    let way = table.split('.').filter(|part| !part.is_empty());
    let way: Vec<&str> = way.map(|part| if part.starts_with('<') { "*" } else { part }).collect();
    FORMER_NAMES.iter().find(|name| name.table == way && name.present.is(key)).map(|name| name.former)
}

/// A file with the present names of its keys.
pub(super) struct Modernized {
    pub(super) document: Document,
    /// A notice for each former name in it.
    pub(super) notices: Vec<ConfigProblem>,
    /// Keys present under both names.
    pub(super) problems: Vec<ConfigProblem>,
}

/// State of a rewriting.
struct Rewriting<'a> {
    document: &'a Document,
    name: &'static FormerName,
    /// Position of the first former name, in bytes.
    first: Option<usize>,
    problems: Vec<ConfigProblem>,
}

/// Gives each key of `document` its present name. If a table is there under both names, the two are merged.
pub(super) fn modernize(document: Document) -> Modernized {
    let (mut notices, mut problems) = (Vec::new(), Vec::new());
    let mut root = document.root.clone();
    for name in &FORMER_NAMES {
        let mut rewriting = Rewriting { document: &document, name, first: None, problems: Vec::new() };
        rewriting.table(&mut root, name.table, "");
        let notice = |at| ConfigProblem::new(document.place(at, ""), name.notice());
        notices.extend(rewriting.first.map(notice));
        problems.append(&mut rewriting.problems);
    }
    Modernized { document: document.with_root(root), notices, problems }
}

// === impl FormerName ===

impl FormerName {
    /// The sentence about a file with the former name.
    fn notice(&self) -> String {
        let Self { table, former, present } = self;
        let path = table.join(".").replace('*', "…");
        match (table, present) {
            ([], Key(present)) => format!("`[{former}.…]` is now `[{present}.…]`"),
            (_, Key(present)) => format!("`{former}` in `[{path}]` is now `{present}`"),
            (_, Gone(instead)) => format!("`{former}` in `[{path}]` does nothing any more: `{instead}` is the limit"),
        }
    }
}

// === impl PresentName ===

impl PresentName {
    fn is(self, key: &str) -> bool {
        let (Key(present) | Gone(present)) = self;
        present == key
    }
}

// === impl Rewriting ===

impl Rewriting<'_> {
    /// Renames the key in the tables at `way` below `entries`, whose path is `path`, ending with a period.
    fn table(&mut self, entries: &mut Vec<ConfigEntry>, way: &[&str], path: &str) {
        let Some((next, rest)) = way.split_first() else { return self.rename(entries, path) };
        for entry in entries.iter_mut().filter(|entry| *next == "*" || entry.key == *next) {
            if let ConfigValue::Table(inner) = &mut entry.value.value {
                self.table(inner, rest, &format!("{path}{}.", entry.key));
            }
        }
    }

    fn rename(&mut self, entries: &mut Vec<ConfigEntry>, path: &str) {
        let FormerName { former, present, .. } = self.name;
        let Some(index) = entries.iter().position(|entry| entry.key == *former) else { return };
        let at = entries[index].at;
        self.first.get_or_insert(at);
        let Key(present) = *present else {
            entries.remove(index);
            return;
        };
        let Some(other) = entries.iter().position(|entry| entry.key == present) else {
            present.clone_into(&mut entries[index].key);
            return;
        };
        let removed = entries.remove(index);
        let other = &mut entries[if other > index { other - 1 } else { other }];
        let (ConfigValue::Table(old), ConfigValue::Table(new)) = (removed.value.value, &mut other.value.value) else {
            self.twice(at, &format!("{path}{former}"), &format!("`{present}`"));
            return;
        };
        for entry in old {
            if new.iter().any(|other| other.key == entry.key) {
                self.twice(entry.at, &format!("{path}{former}.{}", entry.key), &format!("`[{present}.{}]`", entry.key));
            } else {
                new.push(entry);
            }
        }
        new.sort_by_key(|entry| entry.at);
    }

    fn twice(&mut self, at: usize, path: &str, present: &str) {
        let what = format!("this is now {present}, which is in the file too");
        self.problems.push(ConfigProblem::new(self.document.place(at, path), what).advise("remove one of them"));
    }
}
