//! House rules that no compiler checks: imports between modules, and sizes of files and types.

mod audit;
mod graph;
mod isolation;
mod metrics;
mod references;
mod requirements;
mod words;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use self::graph::{Graph, module_of};

/// Each top-level module, and those that it may import. `support` and `model` are open to all.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("support", &[]),
    ("model", &[]),
    ("mcp", &[]),
    ("wire", &["mcp"]),
    ("crossing", &["mcp"]),
    ("layers", &["mcp"]),
    ("gateway", &["mcp", "crossing", "layers"]),
    ("fetch", &[]),
    ("backend", &["mcp", "wire", "crossing", "fetch"]),
    ("frontend", &["mcp", "wire", "resource", "storage"]),
    ("storage", &[]),
    ("audit", &["storage"]),
    ("vault", &["storage"]),
    ("oauth", &["audit", "fetch", "storage", "vault"]),
    ("oauth_client", &["fetch"]),
    ("openid", &["fetch", "oauth_client"]),
    ("upstream", &["audit", "fetch", "oauth_client", "storage", "vault"]),
    ("doctor", &["fetch", "oauth_client"]),
    ("replicas", &["listener", "storage", "wire"]),
    ("resource", &["audit", "listener", "oauth"]),
    ("web", &["audit", "oauth", "openid", "storage", "upstream"]),
    ("http", &["listener"]),
    ("listener", &[]),
    ("tls", &["fetch", "storage", "vault"]),
    ("config", &[]),
    ("telemetry", &[]),
];

/// Modules that may import everything.
const OPEN: &[&str] = &["app", "cli", "fuzzing", "lib", "main"];

/// Words, and the only modules that may use them.
const RESERVED: &[(&str, &[&str])] = &[
    ("sqlx::", &["storage"]),
    ("std::env::var", &["config"]),
    ("target: \"audit\"", &["audit"]),
    // others ask for a verdict
    ("backends.access(", &["model"]),
    ("Access::Full", &["model", "gateway/access", "config/login", "cli"]),
    (
        "crate::storage",
        &[
            "frontend/sessions",
            "audit",
            "vault",
            "oauth",
            "upstream",
            "replicas",
            "tls",
            "web",
            "app",
            "cli",
            "storage",
        ],
    ),
];

/// Files of `backend` that may use eras and single versions: handshake, detection, the two protocols, and their
/// servers. The list only shrinks.
const ASK_ERAS: &[&str] = &[
    "backend/connection/discover.rs",
    "backend/connection/handshake.rs",
    "backend/connection/request_protocol.rs",
    "backend/connection/session_protocol.rs",
    "backend/start/detection.rs",
    "backend/start/era.rs",
    "backend/start/opener.rs",
    "backend/server/era_server.rs",
    "backend/sharing/connection_key.rs",
];

/// Remaining cycles of files. The list only shrinks.
const CYCLES: &[&[&str]] = &[];

/// Maximum length of a file in lines, without its unit tests.
const MAX_LINES: usize = 500;

/// Maximum number of lines, and of files, that implement one type.
const MAX_IMPL: (usize, usize) = (600, 4);

/// Types that exceed it, and their present size. The list only shrinks.
const LARGE: &[(&str, &str, (usize, usize))] = &[];

#[test]
fn files_depend_on_each_other_in_one_direction() {
    let sources: Vec<_> = sources().into_iter().map(|(path, text)| (path, code(&text))).collect();
    let graph = Graph::of(&sources);
    let between = graph.cycles_between_modules().into_iter();
    let inside = graph.modules().into_iter().flat_map(|module| graph.cycles_in(&module));
    let (known, unknown): (Vec<_>, Vec<_>) =
        between.chain(inside).partition(|cycle| CYCLES.iter().any(|known| cycle.iter().eq(known.iter())));
    let gone = CYCLES.iter().filter(|cycle| !known.iter().any(|found| found.iter().eq(cycle.iter())));
    let gone = gone.map(|cycle| format!("are no cycle any more: remove them from `CYCLES`: {}", cycle.join(", ")));
    let unknown = unknown.iter().map(|cycle| format!("depend on each other: {}", cycle.join(", ")));
    let broken: Vec<String> = unknown.chain(gone).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn no_type_is_implemented_in_too_many_files() {
    let mut types: BTreeMap<(String, String), (usize, BTreeSet<String>)> = BTreeMap::new();
    let mut defined: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (path, text) in sources() {
        for name in definitions(&code(&text)) {
            *defined.entry((module_of(&path).to_owned(), name)).or_default() += 1;
        }
        for (name, lines) in implementations(&code(&text)) {
            let found = types.entry((module_of(&path).to_owned(), name)).or_default();
            found.0 += lines;
            found.1.insert(path.clone());
        }
    }
    // helpers of the same name in several files are several types
    types.retain(|of, _| defined.get(of).is_none_or(|times| *times < 2));
    let mut broken = Vec::new();
    for ((module, name), (lines, files)) in &types {
        let is_large = *lines > MAX_IMPL.0 || files.len() > MAX_IMPL.1;
        match LARGE.iter().find(|large| (large.0, large.1) == (module, name)) {
            Some(_) if !is_large => broken.push(format!("`{name}` of `{module}` is small now: take it out of `LARGE`")),
            Some((.., most)) if *lines <= most.0 && files.len() <= most.1 => {}
            None if !is_large => {}
            _ => broken.push(format!("`{name}` of `{module}` has {lines} lines in {} files", files.len())),
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_module_imports_only_what_it_may() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let module = module_of(&path);
        if OPEN.contains(&module) {
            continue;
        }
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == module) else {
            broken.push(format!("{path}: the module `{module}` is not on the map"));
            continue;
        };
        for other in imports(&text) {
            let free = ["support", "model", module].contains(&other.as_str());
            if !free && !allowed.contains(&other.as_str()) {
                broken.push(format!("{path}: imports `{other}`"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn reserved_words_stay_where_they_belong() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        for (word, owners) in RESERVED {
            let owned = owners.iter().any(|owner| path.starts_with(owner));
            if !owned && code(&text).contains(word) {
                broken.push(format!("{path}: names `{word}`"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn backends_are_asked_for_abilities_and_not_for_eras() {
    let asks = |text: &str| {
        let code = code(text);
        let words = ["Era::", "Revision::V2", "CoreTasks", "takes_tasks", "is_modern", "is_legacy", "revision.era()"];
        let is_named = |word: &&str| {
            let starts_a_name = |(at, _): (usize, _)| !code[..at].ends_with(char::is_alphanumeric);
            code.match_indices(word).any(starts_a_name)
        };
        words.into_iter().find(is_named)
    };
    let mut broken = Vec::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| path.starts_with("backend")) {
        match (asks(&text), ASK_ERAS.contains(&path.as_str())) {
            (Some(word), false) => broken.push(format!("{path}: names `{word}`; ask for an ability instead")),
            (None, true) => broken.push(format!("{path}: asks no more: take it out of `ASK_ERAS`")),
            _ => {}
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn only_bindings_name_http_on_the_client_side() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let free = !path.starts_with("frontend/") || path.starts_with("frontend/binding");
        for word in ["axum", "http::"] {
            if !free && code(&text).contains(word) {
                broken.push(format!("{path}: names `{word}`, which bindings alone may"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_file_has_a_description_and_a_limited_length() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        if !text.starts_with("//!") {
            broken.push(format!("{path}: does not begin with `//!`"));
        }
        let lines = code(&text).lines().count();
        if lines > MAX_LINES {
            broken.push(format!("{path}: {lines} lines, split it"));
        }
        if path.ends_with("/mod.rs") {
            broken.push(format!("{path}: modules are `foo.rs` + `foo/`"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// All source files: path below `src`, and text.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).unwrap().display().to_string();
                found.push((name, fs::read_to_string(path).unwrap()));
            }
        }
    }
    assert!(found.len() > 20, "the sources were not found");
    found
}

/// The modules that a file names after `crate::`, without its unit tests.
fn imports(text: &str) -> Vec<String> {
    let code = code(text);
    let mut modules = Vec::new();
    for part in code.split("crate::").skip(1) {
        if let Some(group) = part.strip_prefix('{') {
            // `use crate::{a::B, c}`: names at depth one
            let mut depth = 1;
            let mut name = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ',' if depth == 1 => modules.push(std::mem::take(&mut name)),
                    _ if depth == 1 => name.push(c),
                    _ => {}
                }
                if depth == 0 {
                    modules.push(name);
                    break;
                }
            }
        } else {
            modules.push(part.to_owned());
        }
    }
    let module =
        |text: &String| text.trim().split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned);
    modules.iter().filter_map(module).filter(|module| !module.is_empty()).collect()
}

/// The types that a file defines.
fn definitions(code: &str) -> Vec<String> {
    let name = |line: &str| {
        let (before, after) = line.split_once("struct ").or_else(|| line.split_once("enum "))?;
        let is_definition = before.is_empty() || before.starts_with("pub") && before.ends_with(' ');
        let name = after.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        is_definition.then(|| name.to_owned())
    };
    code.lines().filter_map(name).collect()
}

/// The types that a file implements something for, and the number of lines.
fn implementations(code: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.by_ref().find(|line| line.starts_with("impl")) {
        let of = line.rsplit_once(" for ").map_or(line, |(_, of)| of);
        let of = of.trim_start_matches("impl").trim_start();
        // `impl<T: Bound> Type<T>`: the type follows the parameters
        let of = of.strip_prefix('<').and_then(|rest| rest.split_once("> ")).map_or(of, |(_, of)| of);
        let path = of.split(['<', ' ', '{', '(']).next().unwrap_or_default();
        let name = path.rsplit("::").next().unwrap_or_default().trim_start_matches('&').to_owned();
        let is_whole = line.ends_with('}');
        let body = if is_whole { 0 } else { lines.by_ref().take_while(|line| !line.starts_with('}')).count() + 1 };
        found.push((name, body));
    }
    found
}

/// The text without comments and without the unit tests at its end. Tests in separate files end nothing.
fn code(text: &str) -> String {
    let is_inline = |at: &usize| text[*at..].lines().nth(1).is_some_and(|line| line.ends_with('{'));
    let tests = text.match_indices("#[cfg(test)]\nmod ").map(|(at, _)| at).find(is_inline);
    let text = &text[..tests.unwrap_or(text.len())];
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}
