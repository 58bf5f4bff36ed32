//! House rules that no compiler checks: who may import what, and how large a file may be.

use std::{fs, path::Path};

/// Each room, and the rooms that it may import beside itself. `support` and `model` are open to all.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("support", &[]),
    ("model", &[]),
    ("mcp", &[]),
    ("wire", &["mcp"]),
    ("gateway", &["mcp"]),
    ("backend", &["mcp", "wire"]),
    ("frontend", &["mcp", "wire", "resource", "storage"]),
    ("storage", &[]),
    ("oauth", &["storage"]),
    ("resource", &["oauth"]),
    ("web", &["oauth", "storage"]),
    ("http", &["listener"]),
    ("listener", &[]),
    ("config", &[]),
    ("telemetry", &[]),
];

/// Rooms that may import everything.
const OPEN: &[&str] = &["app", "cli", "lib", "main"];

/// Who alone may name a word in its code.
const RESERVED: &[(&str, &[&str])] = &[
    ("sqlx::", &["storage"]),
    ("std::env::var", &["config"]),
    ("crate::storage", &["frontend/sessions", "oauth", "web", "app", "cli", "storage"]),
];

/// The longest file that is let pass, in lines; the aim is around 120.
const MOST_LINES: usize = 500;

#[test]
fn every_room_imports_only_what_it_may() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let room = path.split(['/', '.']).next().unwrap_or_default();
        if OPEN.contains(&room) {
            continue;
        }
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == room) else {
            broken.push(format!("{path}: the room `{room}` is not on the map"));
            continue;
        };
        for other in imports(&text) {
            let free = ["support", "model", room].contains(&other.as_str());
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
fn what_serves_a_client_knows_no_http() {
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
fn every_file_says_what_it_is_and_fits_in_the_head() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        if !text.starts_with("//!") {
            broken.push(format!("{path}: does not begin with `//!`"));
        }
        if text.lines().count() > MOST_LINES {
            broken.push(format!("{path}: {} lines, build the next room", text.lines().count()));
        }
        if path.ends_with("/mod.rs") {
            broken.push(format!("{path}: rooms are `foo.rs` + `foo/`"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Every source file: its path below `src`, and its text.
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

/// The rooms that a file names after `crate::`, its unit tests left out.
fn imports(text: &str) -> Vec<String> {
    let code = code(text);
    let mut rooms = Vec::new();
    for part in code.split("crate::").skip(1) {
        if let Some(group) = part.strip_prefix('{') {
            // `use crate::{a::B, c}`: the names at depth one
            let mut depth = 1;
            let mut name = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ',' if depth == 1 => rooms.push(std::mem::take(&mut name)),
                    _ if depth == 1 => name.push(c),
                    _ => {}
                }
                if depth == 0 {
                    rooms.push(name);
                    break;
                }
            }
        } else {
            rooms.push(part.to_owned());
        }
    }
    let room = |text: &String| text.trim().split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned);
    rooms.iter().filter_map(room).filter(|room| !room.is_empty()).collect()
}

/// The text without comments and without what follows `#[cfg(test)]`.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}
