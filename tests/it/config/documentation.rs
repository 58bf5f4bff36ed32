//! The page of the configuration and the JSON Schema, compared with the parser: the same keys, defaults, bounds and
//! choices.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};

use super::load;

/// One key, from its line of the page.
#[derive(Debug)]
struct Key {
    /// The path of its table; empty for the root.
    table: &'static str,
    name: String,
    default: String,
    bounds: String,
}

/// The tables of the page: the heading, the path of an example, and the path of the properties in the schema.
const TABLES: &[(&str, &str, &str)] = &[
    ("Top level", "", "/properties"),
    ("`[limits]`", "limits", "/properties/limits/properties"),
    ("`[auth]`", "auth", "/properties/auth/properties"),
    ("`[http]`", "http", "/properties/http/properties"),
    ("`[stdio]`", "stdio", "/properties/stdio/properties"),
    ("`[log]`", "log", "/properties/log/properties"),
    ("`[clients.<name>]`", "clients.x", "/$defs/client/properties"),
    ("`[servers.<name>]`", "servers.x", "/$defs/server/properties"),
    ("`[servers.<name>.tools]`", "servers.x.tools", "/$defs/tools/properties"),
    ("`[groups.<name>]`", "groups.x", "/$defs/group/properties"),
    ("`[groups.<name>.tools]`", "groups.x.tools", "/$defs/group_tools/properties"),
    ("`[login.<name>]`", "login.x", "/$defs/login/properties"),
    ("`[login.<name>.rights.<rule>]`", "login.x.rights.r", "/$defs/login_rights/properties"),
];

#[test]
fn the_page_has_every_key_that_the_parser_knows_and_no_other() {
    let keys = keys();
    let page = page();
    let former: BTreeSet<&str> = former_names(&page).collect();
    let literals = literals();
    for (_, table, _) in TABLES {
        let documented: BTreeSet<&str> = of_table(&keys, table).map(|key| key.name.as_str()).collect();
        let candidates = literals.iter().map(String::as_str).filter(|name| !former.contains(name));
        let candidates = candidates.chain(documented.iter().copied());
        let known: BTreeSet<&str> = candidates.filter(|name| is_known(table, name)).collect();
        assert_eq!(known, documented, "the keys of the parser and of the page, in [{table}]");
    }
}

#[test]
fn the_defaults_of_the_page_are_those_of_the_parser() {
    for key in keys() {
        let Some(default) = quoted(&key.default).next() else { continue };
        assert_eq!(loaded(&key, Some(default)), loaded(&key, None), "{key:?}");
    }
}

#[test]
fn the_bounds_of_the_page_are_those_of_the_parser() {
    let keys = keys();
    let mut checked = 0;
    for key in &keys {
        let bounds: Vec<&str> = quoted(&key.bounds).collect();
        let [least, most] = bounds[..] else { continue };
        if !key.bounds.contains("` to `") {
            continue;
        }
        // the bound may be another key
        let other = keys.iter().find(|other| other.name == most);
        let most = other.map_or(most, |other| other.default.trim_matches(['`', '"']));
        let is_number = least.bytes().all(|byte| byte.is_ascii_digit());
        let beyond = if is_number || least.ends_with('B') { "99999999999" } else { "\"99999d\"" };
        let problem = loaded(key, Some(beyond)).unwrap_err();
        assert!(problem.contains(&format!("is not between {least} and {most}")), "{key:?}: {problem}");
        checked += 1;
    }
    assert!(checked > 25, "{checked}");
}

#[test]
fn the_choices_of_the_page_are_those_of_the_parser() {
    let mut checked = 0;
    for key in keys() {
        let documented: BTreeSet<&str> = quoted(&key.bounds).filter(|choice| choice.starts_with('"')).collect();
        if documented.is_empty() {
            continue;
        }
        let problem = loaded(&key, Some("\"no such choice\"")).unwrap_err();
        let listed = problem.split("this must be one of ").nth(1).unwrap().lines().next().unwrap();
        let listed: Vec<String> = quoted(listed).map(|choice| format!("\"{choice}\"")).collect();
        // a choice that is listed but refused does not count
        let accepted = listed.iter().map(String::as_str).filter(|choice| loaded(&key, Some(choice)).is_ok()).collect();
        assert_eq!(documented, accepted, "{key:?}");
        checked += 1;
    }
    assert!(checked > 7, "{checked}");
}

#[test]
fn the_schema_says_what_the_page_says() {
    let (keys, schema) = (keys(), schema());
    for (_, table, way) in TABLES {
        let properties = schema.pointer(way).unwrap().as_object().unwrap();
        let documented: BTreeSet<&str> = of_table(&keys, table).map(|key| key.name.as_str()).collect();
        let present = properties.iter().filter(|(_, property)| property["deprecated"] != true);
        let present: BTreeSet<&str> = present.map(|(name, _)| name.as_str()).collect();
        assert_eq!(present, documented, "[{table}]");
        for key in of_table(&keys, table) {
            let property = &properties[&key.name];
            let default = quoted(&key.default).next().map(value);
            assert_eq!(property.get("default"), default.as_ref(), "{key:?}");
            let bounds: Vec<&str> = quoted(&key.bounds).collect();
            if property["type"] == "integer" {
                let said = [&property["minimum"], &property["maximum"]].map(ToString::to_string);
                assert_eq!(bounds, said, "{key:?}");
            }
            if let Some(choices) = property.pointer("/anyOf/0/enum") {
                let said: Vec<String> = choices.as_array().unwrap().iter().map(ToString::to_string).collect();
                assert_eq!(bounds, said, "{key:?}");
            }
        }
    }
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

// === the page ===

fn page() -> String {
    fs::read_to_string(root().join("docs/configuration.md")).unwrap()
}

/// The last parts of the names in the second column of the table "Former names".
pub(super) fn former_names(page: &str) -> impl Iterator<Item = &str> {
    let rows = page.split("\n## Former names").nth(1).unwrap().lines().filter(|line| line.starts_with("| `"));
    let former = rows.filter_map(|line| line.split('|').nth(2).map(|cell| cell.trim().trim_matches('`')));
    former.map(|name| name.trim_start_matches('[').trim_end_matches(".<name>]").rsplit('.').next().unwrap_or_default())
}

fn keys() -> Vec<Key> {
    let page = page();
    let mut keys = Vec::new();
    for section in page.split("\n## ").skip(1) {
        let heading = section.lines().next().unwrap_or_default();
        let Some((_, table, _)) = TABLES.iter().find(|(title, ..)| *title == heading) else { continue };
        for line in section.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [name, _, default, bounds, _] = cells[..] else { panic!("{line}") };
            let name = name.trim_matches('`').to_owned();
            keys.push(Key { table, name, default: default.to_owned(), bounds: bounds.to_owned() });
        }
    }
    assert!(keys.len() > 60, "the tables were not found");
    keys
}

fn of_table<'a>(keys: &'a [Key], table: &'a str) -> impl Iterator<Item = &'a Key> {
    keys.iter().filter(move |key| key.table == table)
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
fn is_known(table: &str, name: &str) -> bool {
    let text = match table {
        "" => format!("{name} = 1\n"),
        // the options of a server depend on its transport
        "servers.x" if name != "builtin" => format!("[{table}]\nbuiltin = \"demo\"\n{name} = 1\n"),
        _ => format!("[{table}]\n{name} = 1\n"),
    };
    let problems = load("lockkeeper.toml", &text, &[]).map_or_else(|problems| problems.to_string(), |_| String::new());
    !problems.contains("unknown option")
}

/// The configuration with the key at `value`, or without it; else the error.
fn loaded(key: &Key, value: Option<&str>) -> Result<String, String> {
    let Key { table, name, .. } = key;
    let is_backend = *table == "servers.x";
    let reached = match (name.as_str(), value.unwrap_or_default()) {
        (name, _) if !is_backend || ["command", "url", "builtin"].contains(&name) => "",
        ("args" | "env" | "cwd", _) | ("type" | "transport", "\"stdio\"") => "command = \"run\"",
        ("type" | "transport", "\"ws\"" | "\"websocket\"") => "url = \"wss://server.test/mcp\"",
        ("auth", "\"client-credentials\"") => {
            "url = \"https://server.test/mcp\"\nclient_id = \"a\"\nclient_secret = \"b\""
        }
        ("private_authorization_server" | "resource" | "issuer", _) => {
            "url = \"https://server.test/mcp\"\nauth = \"oauth\""
        }
        ("type" | "transport" | "headers" | "identity" | "auth", _) => "url = \"https://server.test/mcp\"",
        _ => "builtin = \"demo\"",
    };
    let line = value.map(|value| format!("{name} = {value}\n")).unwrap_or_default();
    let heading = match *table {
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

/// The value of a key as the schema writes it.
fn value(text: &str) -> Value {
    let table: toml::Table = toml::from_str(&format!("key = {text}")).unwrap();
    json!(table["key"])
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
