//! Dependencies between source files, read from their paths. Knows no rules.
//!
//! A path counts anywhere: in a `use`, or in code after `crate::`, `super::`, `self::` or the name of a child. A
//! parent's `pub use` of its children is no dependency of the parent, unless its own code names what it re-exports: a
//! path through it depends on its target file. The path of a visibility, as in `pub(in crate::a)`, does not count.

use std::collections::{BTreeMap, BTreeSet};

/// Source files, and their dependencies.
pub(super) struct Graph {
    edges: BTreeMap<String, BTreeSet<String>>,
}

/// The module path of a file or an item.
type ModulePath = Vec<String>;

/// The paths in one file.
struct File {
    me: ModulePath,
    children: BTreeSet<String>,
    reexports: BTreeMap<String, ModulePath>,
    paths: Vec<ModulePath>,
}

impl Graph {
    /// Reads files: their paths below `src`, and their code without comments and unit tests.
    pub(super) fn of(sources: &[(String, String)]) -> Self {
        let files: BTreeMap<ModulePath, &str> = sources.iter().map(|(path, _)| (module(path), path.as_str())).collect();
        let read: BTreeMap<&str, File> =
            sources.iter().map(|(path, code)| (path.as_str(), File::read(path, code))).collect();
        let reexports = read.values().flat_map(|file| {
            let full = |name: &String| [file.me.as_slice(), std::slice::from_ref(name)].concat();
            file.reexports.iter().map(move |(name, to)| (full(name), to.clone()))
        });
        let reexports: BTreeMap<ModulePath, ModulePath> = reexports.collect();
        let edges = read.iter().map(|(path, file)| {
            let resolved = file.paths.iter().filter_map(|to| resolve(to, &files, &reexports));
            ((*path).to_owned(), resolved.filter(|to| to != path).map(str::to_owned).collect())
        });
        Self { edges: edges.collect() }
    }

    /// The groups of files in one top-level module that depend on each other.
    pub(super) fn cycles_in(&self, module: &str) -> Vec<Vec<String>> {
        let of_module: Vec<&String> = self.edges.keys().filter(|path| module_of(path) == module).collect();
        let next = |path: &String| self.edges[path].iter().filter(|to| module_of(to) == module).cloned().collect();
        cycles(&of_module, &next)
    }

    /// The groups of top-level modules that depend on each other.
    pub(super) fn cycles_between_modules(&self) -> Vec<Vec<String>> {
        let modules: BTreeSet<String> = self.edges.keys().map(|path| module_of(path).to_owned()).collect();
        let next = |module: &String| {
            let files = self.edges.iter().filter(|(path, _)| module_of(path) == module);
            files.flat_map(|(_, to)| to).map(|to| module_of(to).to_owned()).filter(|to| to != module).collect()
        };
        cycles(&modules.iter().collect::<Vec<_>>(), &next)
    }

    /// All top-level modules.
    pub(super) fn modules(&self) -> BTreeSet<String> {
        self.edges.keys().map(|path| module_of(path).to_owned()).collect()
    }
}

/// The top-level module of a file.
pub(super) fn module_of(path: &str) -> &str {
    path.split(['/', '.']).next().unwrap_or_default()
}

/// The groups of nodes that reach each other.
fn cycles(nodes: &[&String], next: &dyn Fn(&String) -> BTreeSet<String>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<String>> = nodes.iter().map(|node| (*node, reach(node, next))).collect();
    let cycle = |node: &String| -> Vec<String> {
        reached[node]
            .iter()
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(node)))
            .cloned()
            .collect()
    };
    let all: BTreeSet<Vec<String>> = nodes.iter().map(|node| cycle(node)).collect();
    all.into_iter().filter(|cycle| cycle.len() > 1).collect()
}

fn reach(from: &str, next: &dyn Fn(&String) -> BTreeSet<String>) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(node) = open.pop() {
        for to in next(&node) {
            if reached.insert(to.clone()) {
                open.push(to);
            }
        }
    }
    reached
}

fn resolve<'a>(
    path: &[String],
    files: &BTreeMap<ModulePath, &'a str>,
    reexports: &BTreeMap<ModulePath, ModulePath>,
) -> Option<&'a str> {
    let depth = (1..=path.len()).rev().find(|depth| files.contains_key(&path[..*depth]))?;
    let item = path.get(..=depth).and_then(|item| reexports.get(item));
    match item {
        Some(to) if to.as_slice() != path => resolve(&[to.as_slice(), &path[depth + 1..]].concat(), files, reexports),
        _ => files.get(&path[..depth]).copied(),
    }
}

fn module(path: &str) -> ModulePath {
    let name = path.strip_suffix(".rs").unwrap_or(path);
    name.split('/').filter(|part| !["lib", "main"].contains(part)).map(str::to_owned).collect()
}

// === impl File ===

impl File {
    fn read(path: &str, code: &str) -> Self {
        let declared = code.lines().filter_map(|line| line.trim().strip_suffix(';')?.rsplit_once("mod "));
        let children = declared.map(|(_, name)| name.to_owned()).collect();
        let mut file = Self { me: module(path), children, reexports: BTreeMap::new(), paths: Vec::new() };
        let mut rest = String::new();
        let mut open = code;
        while let Some((before, after)) = split_use(open) {
            let (tree, after) = after.split_once(';').unwrap_or((after, ""));
            rest.push_str(before);
            let is_public = before.rsplit('\n').next().is_some_and(|line| line.trim_start().starts_with("pub"));
            file.add_use(tree, is_public);
            open = after;
        }
        rest.push_str(open);
        for word in without_visibilities(&rest).split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
            let parts: Vec<String> = word.split("::").map(str::to_owned).collect();
            if let Some(reexported) = file.reexports.get(&parts[0]) {
                file.paths.push(reexported.clone());
            } else if parts.len() > 1 {
                file.add(&parts);
            }
        }
        file
    }

    fn add_use(&mut self, tree: &str, is_public: bool) {
        for path in expand(&[], tree) {
            let Some(path) = self.absolute(&path) else { continue };
            match path.last() {
                Some(name) if is_public && path.starts_with(&self.me) => {
                    self.reexports.insert(name.clone(), path);
                }
                _ => self.paths.push(path),
            }
        }
    }

    fn add(&mut self, path: &[String]) {
        self.paths.extend(self.absolute(path));
    }

    /// The path from the crate's root; `None` if it is outside of the crate.
    fn absolute(&self, path: &[String]) -> Option<ModulePath> {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let base = match path.first()?.as_str() {
            "crate" => &[],
            "self" => self.me.as_slice(),
            "super" => &self.me[..self.me.len().checked_sub(ups)?],
            child if self.children.contains(child) => return Some([self.me.as_slice(), path].concat()),
            _ => return None,
        };
        Some([base, &path[ups.max(1)..]].concat())
    }
}

/// The text before and after the next `use`.
fn split_use(text: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    loop {
        at += text.get(at..)?.find("use ")?;
        let line = text[..at].rsplit('\n').next().unwrap_or_default().trim();
        if line.is_empty() || line == "pub" || (line.starts_with("pub(") && line.ends_with(')')) {
            return Some((&text[..at], &text[at + "use ".len()..]));
        }
        at += 1;
    }
}

/// The code with `pub` in place of `pub(in path)`.
fn without_visibilities(code: &str) -> String {
    let mut parts = code.split("pub(in ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| before + "pub" + part.split_once(')').map_or("", |(_, after)| after))
}

/// The paths of a `use` tree.
fn expand(prefix: &[String], tree: &str) -> Vec<ModulePath> {
    let (head, group) = match tree.split_once('{') {
        Some((head, group)) => (head, group.rsplit_once('}').map(|(group, _)| group)),
        None => (tree, None),
    };
    let name = |part: &str| part.split(" as ").next().unwrap_or_default().trim().to_owned();
    let parts = head.split("::").map(name).filter(|part| !part.is_empty() && part != "self" || prefix.is_empty());
    let path: ModulePath = prefix.iter().cloned().chain(parts.filter(|part| !part.is_empty())).collect();
    let Some(group) = group else { return vec![path] };
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&group[start..]);
    found.into_iter().filter(|part| !part.trim().is_empty()).flat_map(|part| expand(&path, part)).collect()
}

#[test]
fn paths_are_read_as_the_compiler_reads_them() {
    let sources = [
        ("a.rs", "mod b;\npub(crate) mod c;\npub(crate) use c::{C, d::D};\nfn f() { b::g() }"),
        ("a/b.rs", "use super::C;\nuse std::{self};"),
        ("a/c.rs", "pub mod d;\nuse crate::{x, a::{self, b::{self as other, B}}};"),
        ("a/c/d.rs", "fn f() -> super::super::D {}\nfn g() -> super::b::B"),
        ("x.rs", "fn f() { crate::a::c::d::g(); Vec::new() }"),
    ]
    .map(|(path, code)| (path.to_owned(), code.to_owned()));
    let graph = Graph::of(&sources);
    let to = |path: &str| graph.edges[path].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(to("a.rs"), ["a/b.rs"]);
    assert_eq!(to("a/b.rs"), ["a/c.rs"]);
    assert_eq!(to("a/c.rs"), ["a.rs", "a/b.rs", "x.rs"]);
    assert_eq!(to("a/c/d.rs"), ["a/c.rs"]);
    assert_eq!(to("x.rs"), ["a/c/d.rs"]);
    assert_eq!(graph.cycles_in("a"), [["a.rs", "a/b.rs", "a/c.rs"]]);
    assert_eq!(graph.cycles_between_modules(), [["a", "x"]]);
}

#[test]
fn a_visibility_is_no_dependency() {
    let sources = [
        ("a.rs", "mod b;\nfn f() { b::g() }"),
        ("a/b.rs", "mod c;\npub(in crate::a) use self::c::C;\npub(in crate::a) fn g() {}"),
        ("a/b/c.rs", "pub(in crate::a) struct C;"),
    ]
    .map(|(path, code)| (path.to_owned(), code.to_owned()));
    assert!(Graph::of(&sources).cycles_in("a").is_empty());
}

#[test]
fn a_file_depends_on_what_it_re_exports_if_it_uses_it() {
    let graph = |of_a: &str| {
        let sources = [("a.rs", of_a), ("a/b.rs", "fn f() { super::g() }")];
        Graph::of(&sources.map(|(path, code)| (path.to_owned(), code.to_owned())))
    };
    let uses = graph("mod b;\npub use self::b::B;\nfn g() -> Vec<B> { B::new() }");
    assert_eq!(uses.cycles_in("a"), [["a.rs", "a/b.rs"]]);
    let only_shows = graph("mod b;\npub use self::b::B;\nfn g() {}");
    assert!(only_shows.cycles_in("a").is_empty());
}
