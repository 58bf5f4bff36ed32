//! `lockkeeper check` in front of a server with odd tools.

use std::fs;

use lockkeeper::mcp::Revision;
use serde_json::{Value, json};

use super::{endings::on_terminal, lockkeeper, shown};
use crate::kit::{
    programs::ProgramServer,
    scripted::{Script, ScriptedServer},
};

/// A server with a long name among its tools.
fn server() -> ProgramServer {
    let script = Script::named("s").lists(&[&"a".repeat(60), "short"]);
    ProgramServer::in_background(ScriptedServer::scripted(Revision::NEWEST_LEGACY, script))
}

#[test]
fn names_that_clients_with_a_prefix_refuse_are_told_and_can_be_shortened() {
    let folder = tempfile::tempdir().unwrap();
    let server = server();
    let config = format!("[servers.one]\n{}", server.lines());
    let check = |config: &str| {
        fs::write(folder.path().join("lockkeeper.toml"), config).unwrap();
        let output = lockkeeper(folder.path(), &["check"], &[("PATH", "/usr/local/bin:/usr/bin:/bin")]);
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = check(&config);
    assert!(said.contains("warning: tool names longer than 47 characters are refused by clients"), "{said}");
    assert!(said.contains("one__aaaa") && !said.contains("short,"), "{said}");
    let half = "a".repeat(20);
    let shorter = format!("{config}[servers.one.tools]\nrename = {{ \"{half}*\" = \"b*\" }}\n");
    assert!(!check(&shorter).contains("tool names longer than"));
}

#[test]
fn the_tools_of_a_group_are_counted_and_a_wrong_group_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = server();
    let check = |groups: &str| {
        let config = format!("[servers.one]\n{}{groups}", server.lines());
        fs::write(folder.path().join("lockkeeper.toml"), config).unwrap();
        let output = lockkeeper(folder.path(), &["check"], &[("PATH", "/usr/local/bin:/usr/bin:/bin")]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = check("[groups.work]\nservers = [\"one\"]\ntools.allow = [\"one__s*\"]\n");
    assert!(code == Some(0) && said.contains("the group `work` has 1 tool, at /mcp/work"), "{said}");
    let (code, said) = check("[groups.work]\nservers = [\"one\"]\ntools.allow = [\"short\"]\n");
    assert!(code == Some(0) && said.contains("warning: the group `work` has no tools"), "{said}");
    let (code, said) = check("[groups.one]\nservers = [\"onee\"]\n");
    assert!(code != Some(0) && said.contains("there is a server `one`"), "{said}");
    assert!(said.contains("there is no server `onee`") && said.contains("did you mean `one`?"), "{said}");
}

#[test]
fn up_018_a_secret_without_an_issuer_is_the_fault_of_one_server() {
    let folder = tempfile::tempdir().unwrap();
    for auth in ["oauth", "client-credentials"] {
        let section =
            format!("url = \"https://x.example/mcp\"\nauth = \"{auth}\"\nclient_id = \"a\"\nclient_secret = \"b\"");
        let config = format!("[servers.x]\n{section}\n[servers.demo]\nbuiltin = \"demo\"\n");
        fs::write(folder.path().join("lockkeeper.toml"), config).unwrap();
        let output = lockkeeper(folder.path(), &["check"], &[]);
        let said = shown(folder.path(), &output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("add `issuer = \"https://…\"`") && said.contains("1 of 2 servers failed: x"), "{said}");
    }
}

#[test]
fn a_machine_without_certificates_of_authorities_serves_what_needs_none() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("none.pem"), "").unwrap();
    fs::write(folder.path().join("lockkeeper.toml"), "[servers.demo]\nbuiltin = \"demo\"\n").unwrap();
    let checked = lockkeeper(folder.path(), &["check"], &[("SSL_CERT_FILE", "none.pem")]);
    assert_eq!(checked.status.code(), Some(0), "{}", shown(folder.path(), &checked));
}

#[test]
fn what_a_server_says_of_its_tools_is_shown_and_more_of_it_with_verbose() {
    let folder = tempfile::tempdir().unwrap();
    let tool = |name: &str, annotations: Value| json!({ "name": name, "inputSchema": { "type": "object" }, "annotations": annotations });
    let script = Script::named("s")
        .listed(tool("look", json!({ "readOnlyHint": true })))
        .listed(tool("wipe", json!({ "readOnlyHint": false })))
        .listed(tool("drop", json!({ "destructiveHint": true })))
        .listed(tool("quiet", json!({})))
        .listed(tool("more", json!({ "readOnlyHint": true })));
    let server = ProgramServer::in_background(ScriptedServer::scripted(Revision::NEWEST_LEGACY, script));
    let check = |tools: &str, words: &[&str]| {
        let config = format!("[servers.one]\n{}read_only_tools = {tools}\n", server.lines());
        fs::write(folder.path().join("lockkeeper.toml"), config).unwrap();
        let words = [&["check"], words].concat();
        let output = lockkeeper(folder.path(), &words, &[("PATH", "/usr/local/bin:/usr/bin:/bin")]);
        shown(folder.path(), &output)
    };
    let contrary = "the server does not say that these only read, but `read_only_tools` lists them: wipe, drop, quiet. \
                    Keys with `:read` may call them";
    let further = "the server says that these only read, but `read_only_tools` does not list them: more";
    let listed = r#"["look", "wipe", "drop", "quiet"]"#;
    let brief = check(listed, &[]);
    assert!(brief.starts_with("0\n") && brief.contains(contrary), "{brief}");
    assert!(!brief.contains(further) && !brief.contains("for its authors") && !brief.contains("KIND"), "{brief}");
    let long = check(listed, &["-v"]);
    assert!(long.contains(contrary) && long.contains(further) && long.contains("for its authors"), "{long}");
    assert!(long.contains("\none     tool  quiet\n"), "{long}");
    let silent = check(r#"["look", "more"]"#, &["-v"]);
    assert!(!silent.contains("only read, but `read_only_tools`"), "{silent}");
}

#[test]
fn a_person_on_a_terminal_sees_which_server_has_started() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lockkeeper.toml"), "[servers.demo]\nbuiltin = \"demo\"\n").unwrap();
    let (code, said) = on_terminal(folder.path(), "", &["check"]);
    assert!(code == 0 && said.contains("1 of 1: demo ready"), "{said}");
    assert!(!shown(folder.path(), &lockkeeper(folder.path(), &["check"], &[])).contains("1 of 1"));
}
