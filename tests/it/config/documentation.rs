//! The rows of keys that readers of their own take, compared with these readers: the same keys, defaults and choices. The
//! example is valid by the schema.

use std::{collections::BTreeSet, fs, path::Path};

use lockkeeper::{
    config::key_tables::{DocumentedKeys, tables},
    model::config_key::{KeyDefault, KeyForm, KeyRow},
};
use serde_json::{Value, json};

use super::load;

#[test]
fn the_parser_knows_every_documented_key_and_no_other() {
    let page = fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let former: BTreeSet<&str> = former_names(&page).collect();
    let literals = literals();
    for table in tables() {
        let documented: BTreeSet<&str> = table.rows().map(|row| row.name).collect();
        let candidates = literals.iter().map(String::as_str).filter(|name| !former.contains(name));
        let candidates = candidates.chain(documented.iter().copied());
        let known: BTreeSet<&str> = candidates.filter(|name| is_known(&table, name)).collect();
        assert_eq!(known, documented, "the keys of the parser and of its documentation, in [{}]", table.path);
    }
}

#[test]
fn the_documented_defaults_are_those_of_the_parser() {
    for (table, row) in rows() {
        if let KeyDefault::Value(default) | KeyDefault::Example(default, _) = row.default {
            let [said, unsaid] = [Some(default), None].map(|value| loaded(&table, row.name, value));
            assert_eq!(said, unsaid, "{row:?}");
        }
    }
}

#[test]
fn the_documented_choices_are_those_of_the_parser() {
    let mut checked = 0;
    for (table, row) in rows() {
        let KeyForm::Choice(words) = row.form else { continue };
        let problem = loaded(&table, row.name, Some("\"no such choice\"")).unwrap_err();
        let listed = problem.split("this must be one of ").nth(1).unwrap().lines().next().unwrap();
        assert_eq!(quoted(listed).collect::<Vec<_>>(), words, "{row:?}");
        for word in words {
            // a choice that is listed but refused does not count
            loaded(&table, row.name, Some(&format!("\"{word}\""))).unwrap();
        }
        checked += 1;
    }
    assert!(checked > 15, "{checked}");
}

#[test]
fn the_example_file_is_valid_by_the_schema() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let errors = |text: &str| {
        let document = json!(toml::from_str::<toml::Table>(text).unwrap());
        validator.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect::<Vec<_>>()
    };
    let text = fs::read_to_string(root().join("lockkeeper.example.toml")).unwrap();
    assert_eq!(errors(&text), [""; 0]);
    // with the examples that have no default
    let whole: Vec<&str> = text.lines().map(|line| line.strip_prefix("#: ").unwrap_or(line)).collect();
    assert_eq!(errors(&whole.join("\n")), [""; 0]);
    for wrong in [
        "sessions = 3",
        "[limits]\nsessions = 0",
        "[limits]\nsession_idle = 30",
        "[limits]\nsession_idle = \"30 years\"",
        "[auth]\nregistration = \"maybe\"",
        "[servers.x]\nshare = \"all\"",
        "[servers.x]\ncommand = \"a\"\nurl = \"https://b.example/mcp\"",
        "[clients.x]\nprofil = \"strict\"",
        "[groups.x]\nservers = []",
        "[login.x]\nissuer = \"https://id.example\"",
        "[login.x]\nissuer = \"https://id.example\"\nclient_id = \"a\"\nsession = \"short\"",
        "[groups.x]\nservers = [\"a\"]\ntools.rename = { a = \"b\" }",
    ] {
        assert_ne!(errors(wrong), [""; 0], "{wrong}");
    }
    assert_eq!(errors("[limits]\nsession_idle = \"${IDLE:-1h 30m}\"\nrequest_body = 65536"), [""; 0]);
}

// === the tables ===

/// The last parts of the names in the second column of the table "Former names".
pub(super) fn former_names(page: &str) -> impl Iterator<Item = &str> {
    let rows = page.split("\n## Former names").nth(1).unwrap().lines().filter(|line| line.starts_with("| ")).skip(1);
    let former = rows.filter_map(|line| line.split('|').nth(2).map(|cell| cell.trim().trim_matches('`')));
    former.map(|name| name.trim_start_matches('[').trim_end_matches(".<name>]").rsplit('.').next().unwrap_or_default())
}

/// Each key with the path of its table in a file.
fn rows() -> Vec<(String, KeyRow)> {
    let of_table = |table: DocumentedKeys| {
        let path = path(&table);
        table.rows().map(|row| (path.clone(), *row)).collect::<Vec<_>>()
    };
    let rows: Vec<_> = tables().into_iter().flat_map(of_table).collect();
    assert!(rows.len() > 100, "the tables were not found");
    rows
}

/// The path of the table in a file.
fn path(table: &DocumentedKeys) -> String {
    table.path.replace("<name>", "x").replace("<rule>", "r")
}

/// The parts of a text between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

// === the parser ===

/// Words in the sources of the parser that may be names of keys.
fn literals() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(root().join("src/config")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let is_name = |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
        found.extend(text.split('"').filter(is_name).map(str::to_owned));
    }
    found
}

/// What a provider cannot do without.
const PROVIDER: &str = "issuer = \"https://id.test\"\nclient_id = \"a\"\nsubjects = [\"*\"]\n";

/// Returns `true` if the parser knows the key in this table, whatever its value.
fn is_known(table: &DocumentedKeys, name: &str) -> bool {
    let table = path(table);
    let text = match table.as_str() {
        "" => format!("{name} = 1\n"),
        // the options of a server depend on its transport
        "servers.x" if name != "builtin" => format!("[{table}]\nbuiltin = \"demo\"\n{name} = 1\n"),
        _ => format!("[{table}]\n{name} = 1\n"),
    };
    let problems = load("lockkeeper.toml", &text, &[]).map_or_else(|problems| problems.to_string(), |_| String::new());
    !problems.contains("unknown option")
}

/// The configuration with the key at `value`, or without it; else the error.
fn loaded(table: &str, name: &str, value: Option<&str>) -> Result<String, String> {
    let is_backend = table == "servers.x";
    let reached = match (name, value.unwrap_or_default()) {
        (name, _) if !is_backend || ["command", "url", "builtin"].contains(&name) => "",
        ("args" | "env" | "cwd" | "contain", _) | ("type" | "transport", "\"stdio\"") => "command = \"run\"",
        ("type" | "transport", "\"ws\"" | "\"websocket\"") => "url = \"wss://server.test/mcp\"",
        ("auth", "\"client-credentials\"") => {
            "url = \"https://server.test/mcp\"\nclient_id = \"a\"\nclient_secret = \"b\""
        }
        ("private_authorization_server" | "resource" | "issuer" | "pkce", _) => {
            "url = \"https://server.test/mcp\"\nauth = \"oauth\""
        }
        ("type" | "transport" | "headers" | "identity" | "auth", _) => "url = \"https://server.test/mcp\"",
        _ => "builtin = \"demo\"",
    };
    let line = value.map(|value| format!("{name} = {value}\n")).unwrap_or_default();
    let heading = match table {
        "" => String::new(),
        "servers.x.tools" => "[servers.x]\nbuiltin = \"demo\"\n[servers.x.tools]\n".to_owned(),
        "groups.x" => "[servers.y]\nbuiltin = \"demo\"\n[groups.x]\n".to_owned(),
        "groups.x.tools" => {
            "[servers.y]\nbuiltin = \"demo\"\n[groups.x]\nservers = [\"y\"]\n[groups.x.tools]\n".to_owned()
        }
        "login.x" => format!("[login.x]\n{PROVIDER}"),
        "login.x.rights.r" => format!("[login.x]\n{PROVIDER}[login.x.rights.r]\nsubjects = [\"ann\"]\n"),
        table => format!("[{table}]\n"),
    };
    let config = load("lockkeeper.toml", &format!("{heading}{reached}\n{line}"), &[]);
    config.map(|config| format!("{config:?}")).map_err(|problems| problems.to_string())
}

// === the schema ===

fn schema() -> Value {
    serde_json::from_str(&fs::read_to_string(root().join("lockkeeper.schema.json")).unwrap()).unwrap()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
