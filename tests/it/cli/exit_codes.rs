//! Exit codes: 1 where the state of things stands in the way, 2 where the command line or a file has to be written otherwise.

use std::fs;

use super::{lockkeeper, shown};

/// A folder with a configuration and data, in which a gateway ran before.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("lockkeeper.toml"), "data_dir = \"data\"\n[servers.demo]\nbuiltin = \"demo\"\n").unwrap();
    for name in ["twice", "twice", "laptop"] {
        let user: &[&str] = if name == "laptop" { &["--user", "ann"] } else { &[] };
        let words = [&["keys", "create", name, "--data-dir", "data"], user].concat();
        assert_eq!(lockkeeper(path, &words, &[]).status.code(), Some(0));
    }
    fs::write(path.join("there"), "").unwrap();
    fs::write(path.join("broken.json"), "{").unwrap();
    fs::write(path.join("wrong.toml"), "[servers").unwrap();
    folder
}

fn ends(code: i32, commands: &[&str]) {
    let folder = folder();
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let output = lockkeeper(folder.path(), &words, &[("PATH", "/usr/local/bin:/usr/bin:/bin")]);
        assert_eq!(output.status.code(), Some(code), "{command} {}", shown(folder.path(), &output));
        assert!(code == 0 || !output.stderr.is_empty(), "{command} says nothing");
    }
}

#[test]
fn what_is_not_there_ends_a_command_with_1() {
    ends(
        1,
        &[
            "remove none",
            "import none.json",
            "import .",
            "add x none.json",
            "tools call none",
            "doctor http://127.0.0.1:1/mcp --ca-file none.pem",
            "keys set none --admin",
            "keys rotate none",
            "keys revoke none",
            "keys create x --server none",
            "keys create x --group none",
            "invite bob --again",
            "invite bob --server none",
            "invite --email a@b.example --login none",
            "invite bob --by none",
            "invitations revoke none",
            "users disable none",
            "users enable none",
            "users delete none",
            "clients create x --jwks none.json",
            "clients create x --server none",
            "clients show none",
            "clients revoke none",
            "clients restore none",
            "clients initial-access-tokens revoke none",
            "grants revoke none",
            "signing-keys retire none",
            "upstream disconnect ann demo",
            "status --url http://127.0.0.1:1 --api-key-file none",
            "migrate --from sqlite:none.sqlite3 --to sqlite:other.sqlite3",
        ],
    );
}

#[test]
fn without_a_gateway_or_its_data_a_command_ends_with_1() {
    let asking = ["status", "healthcheck", "restart demo", "logs demo", "log debug", "sessions list", "sessions end x"];
    ends(1, &asking);
    let of_data = [
        "keys list",
        "keys revoke x",
        "keys rotate x",
        "invitations list",
        "users list",
        "clients list",
        "grants list",
        "signing-keys list",
        "signing-keys rotate",
        "upstream list",
        "audit",
        "backup copy",
        "master-key rotate",
        "clients prune",
        "clients initial-access-tokens list",
    ];
    let elsewhere: Vec<String> = of_data.iter().map(|command| format!("{command} --data-dir none")).collect();
    ends(1, &elsewhere.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn what_is_there_already_ends_a_command_with_1() {
    ends(1, &["add demo http://127.0.0.1:1/mcp --no-check", "backup there", "invite ann"]);
}

#[test]
fn a_wrong_line_a_wrong_file_and_a_name_of_several_end_a_command_with_2() {
    ends(
        2,
        &[
            "kyes",
            "keys",
            "keys list extra",
            "keys list --no-such-option",
            "keys create",
            "keys create x --expires soon",
            "keys revoke twice",
            "users disable laptop",
            "grants revoke",
            "status --log banana",
            "list --config none.toml",
            "list --config wrong.toml",
            "list --config broken.json",
            "import broken.json",
            "add x broken.json",
            "add 1x http://127.0.0.1:1/mcp",
            "clients create x --jwks broken.json",
            "doctor http://127.0.0.1:1/mcp --ca-file there",
            "help none",
            "completions tcsh",
        ],
    );
}

#[test]
fn what_is_done_ends_with_0_also_where_there_is_nothing_to_do() {
    ends(
        0,
        &[
            "list",
            "version",
            "help",
            "help --all",
            "keys list",
            "invitations list",
            "users list",
            "clients list",
            "clients prune",
            "grants list",
            "grants revoke --client none",
            "grants revoke --user none",
            "upstream list",
            "audit --event none",
            "client cursor --remove --file none.json",
        ],
    );
}
