//! `lockkeeper add`, `remove`, `list` and `tools`.

use std::{fs, path::Path, process::Output};

use insta::assert_snapshot;
use lockkeeper::mcp::Revision;
use serde_json::json;
use tempfile::TempDir;

use super::{lockkeeper, shown};
use crate::kit::{
    carriers::Program,
    programs::ProgramServer,
    scripted::{Script, ScriptedServer},
};

/// A configuration as people write it.
const WRITTEN: &str = "# ours\nlisten = \"127.0.0.1:7777\"  # a port of its own\n\n# the first one\n[servers.first]\ncommand = \"sh\"\nargs = [\"server.sh\"]\n";

/// Control sequences, and what writes them in the shell.
const RUDE: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\r\u{9b}1A\u{202e}";
const WRITE_RUDE: &str = r"printf '\033]0;owned\007\033[2J\r\302\2331A\342\200\256on stderr\n' >&2";

/// A folder with the program of a server.
struct Folder {
    folder: TempDir,
    _server: ProgramServer,
}

impl Folder {
    fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    lockkeeper(folder, arguments, &[("PATH", "/usr/local/bin:/usr/bin:/bin")])
}

/// A folder with a server whose tools return their arguments, or fail.
fn folder(config: Option<&str>) -> Folder {
    let tool =
        |name: &str| json!({ "name": name, "description": "Does it\nslowly", "inputSchema": { "type": "object" } });
    let said = |fails: bool| json!([["text", "{/params/arguments}", { "isError": fails }]]);
    let script = Script::named("scripted").listed(tool("say")).listed(tool("fail"));
    let folder = folder_with(ScriptedServer::scripted(
        Revision::NEWEST_LEGACY,
        script.hidden("fail", said(true)).any_tool(said(false)),
    ));
    if let Some(config) = config {
        fs::write(folder.path().join("lockkeeper.toml"), config).unwrap();
    }
    folder
}

fn folder_with(server: ScriptedServer) -> Folder {
    let folder = tempfile::tempdir().unwrap();
    let server = ProgramServer::in_background(server);
    fs::write(folder.path().join("server.sh"), server.script()).unwrap();
    Folder { folder, _server: server }
}

/// A server that writes control sequences wherever its words are shown.
fn rude() -> ScriptedServer {
    let greeting = json!({
        "protocolVersion": "{/params/protocolVersion}", "capabilities": { "tools": {} },
        "serverInfo": { "name": format!("{RUDE}rude"), "version": format!("{RUDE}1") },
    });
    let content = json!([{ "type": "text", "text": format!("{RUDE}said") }, { "type": RUDE, "a": RUDE }]);
    let said = json!([["give", { "result": { "content": content, "isError": false } }]]);
    let error = json!({ "code": -32000, "message": format!("{RUDE}refused"), "data": RUDE });
    let script = ["say", "fail", RUDE].into_iter().fold(Script::default().greeting(&greeting), |script, name| {
        let description = format!("{RUDE}Does it");
        script.listed(json!({ "name": name, "description": description, "inputSchema": { "type": "object" } }))
    });
    let script = script.hidden("say", said).any_tool(json!([["give", { "error": error }]]));
    ScriptedServer::scripted(Revision::NEWEST_LEGACY, script)
        .run_as(Program { at_start: WRITE_RUDE.to_owned(), ..Program::default() })
}

fn written(folder: &Path) -> String {
    fs::read_to_string(folder.join("lockkeeper.toml")).unwrap()
}

#[test]
fn a_server_is_tried_and_added_to_a_new_file() {
    let folder = folder(None);
    let added = run(folder.path(), &["add", "My Server", "--env", "A=b", "--", "sh", "server.sh"]);
    assert_snapshot!(shown(folder.path(), &added), @r"
    0
    --- out
    added `my-server` to lockkeeper.toml: scripted 1 (MCP 2025-11-25), 2 tools: say, fail
    --- err
    `My Server` becomes `my-server`
    starting `my-server`: 60 s at most
    file: FOLDER/lockkeeper.toml
    `lockkeeper serve` serves it
    ");
    assert_snapshot!(written(folder.path()), @r#"
    [servers.my-server]
    command = "sh"
    args = ["server.sh"]
    env = { A = "b" }
    "#);
    assert_eq!(run(folder.path(), &["check"]).status.code(), Some(0));
}

#[test]
fn the_rest_of_the_file_stays_as_it_was_written() {
    let folder = folder(Some(WRITTEN));
    let added = run(folder.path(), &["add", "second", "http://127.0.0.1:1/mcp", "--header", "A=b", "--no-check"]);
    assert_eq!(added.status.code(), Some(0));
    let entry = "\n[servers.second]\nurl = \"http://127.0.0.1:1/mcp\"\nheaders = { A = \"b\" }\n";
    assert_eq!(written(folder.path()), format!("{WRITTEN}{entry}"));
    assert_eq!(run(folder.path(), &["remove", "second"]).status.code(), Some(0));
    assert_eq!(written(folder.path()), WRITTEN);
}

#[test]
fn a_comment_that_is_not_a_servers_own_outlives_it() {
    let commented = "listen = \"127.0.0.1:7777\"\n\n# our servers\n";
    let first = "\n# the first one\n[servers.first]\nurl = \"http://127.0.0.1:2/\"\n";
    let second = "\n[servers.second]\nurl = \"http://127.0.0.1:1/mcp\"\n";
    let folder = folder(Some(commented));
    let done = |arguments: &[&str]| assert_eq!(run(folder.path(), arguments).status.code(), Some(0));
    done(&["add", "second", "http://127.0.0.1:1/mcp", "--no-check"]);
    assert_eq!(written(folder.path()), format!("{commented}{second}"));
    done(&["remove", "second"]);
    assert!(written(folder.path()).contains("# our servers"));

    fs::write(folder.path().join("lockkeeper.toml"), format!("{commented}{first}{second}")).unwrap();
    done(&["remove", "first"]);
    assert_eq!(written(folder.path()), format!("{commented}{second}"));
}

#[test]
fn what_cannot_be_configured_is_refused_without_lines_of_a_file_that_is_not_written() {
    let folder = folder(Some(WRITTEN));
    let refused = run(folder.path(), &["add", "admin", "ftp://a"]);
    assert_snapshot!(shown(folder.path(), &refused), @r"
    2
    --- out
    --- err
    error: `admin` cannot be added, and nothing was written
      `admin` is reserved: `mcp:admin` is the scope that administers the gateway
        choose another name
      url: this must be a URL with http, https, ws, wss, tcp or unix
    ");
    assert_eq!(written(folder.path()), WRITTEN);
}

#[test]
fn nothing_is_written_of_a_server_that_fails_or_is_there() {
    let folder = folder(Some(WRITTEN));
    let failing = run(folder.path(), &["add", "bad", "--", "no-such-program"]);
    assert_snapshot!(shown(folder.path(), &failing), @r"
    1
    --- out
    --- err
    starting `bad`: 60 s at most
    error: `bad` did not start, and nothing was written
      the command `no-such-program` was not found: install it, or give its full path in `command`
    help: correct its command or URL, or write it anyway with `--no-check`
    ");
    let again = run(folder.path(), &["add", "First", "--no-check", "--", "other"]);
    assert_snapshot!(shown(folder.path(), &again), @r"
    1
    --- out
    --- err
    `First` becomes `first`
    error: lockkeeper.toml already has a server `first`
    help: choose another name, or add `--replace`; `lockkeeper remove first` removes it
    ");
    assert_eq!(written(folder.path()), WRITTEN);
    assert_eq!(run(folder.path(), &["add", "first", "--replace", "--no-check", "--", "other"]).status.code(), Some(0));
    assert!(written(folder.path()).contains("command = \"other\""));
}

#[test]
fn a_server_that_a_group_names_is_not_removed() {
    let folder = folder(Some(&format!("{WRITTEN}\n[groups.work]\nservers = [\"first\"]\n")));
    let removed = run(folder.path(), &["remove", "first"]);
    let said = shown(folder.path(), &removed);
    assert!(removed.status.code() == Some(2) && said.contains("there is no server `first`"), "{said}");
    let unknown = run(folder.path(), &["remove", "other"]);
    let said = shown(folder.path(), &unknown);
    assert!(unknown.status.code() == Some(1) && said.contains("lockkeeper.toml has no server `other`"), "{said}");
    assert!(written(folder.path()).contains("[servers.first]"));
}

#[test]
fn a_file_of_another_program_is_not_edited() {
    let folder = folder(None);
    let text = r#"{"mcpServers":{"a":{"command":"a"}}}"#;
    fs::write(folder.path().join("mcp.json"), text).unwrap();
    let added = run(folder.path(), &["add", "b", "--config", "mcp.json", "--no-check", "--", "b"]);
    let said = shown(folder.path(), &added);
    assert!(added.status.code() == Some(2) && said.contains("mcp.json belongs to another program"), "{said}");
    assert_eq!(fs::read_to_string(folder.path().join("mcp.json")).unwrap(), text);
}

#[test]
fn a_description_of_the_registry_is_added() {
    let folder = folder(None);
    let described = r#"{"name": "io.example/weather", "packages": [{
        "registryType": "npm", "identifier": "@example/weather", "version": "1.2.0", "transport": {"type": "stdio"},
        "environmentVariables": [{"name": "WEATHER_KEY", "description": "the key", "isRequired": true, "isSecret": true}]}]}"#;
    fs::write(folder.path().join("server.json"), described).unwrap();
    let open = run(folder.path(), &["add", "weather", "server.json", "--no-check"]);
    let said = shown(folder.path(), &open);
    assert!(said.contains("it needs WEATHER_KEY in the gateway's environment: the key"), "{said}");
    assert!(open.status.code() == Some(0) && said.contains("not tried, since WEATHER_KEY is not set here"), "{said}");
    let given = ["add", "weather", "server.json", "--replace", "--no-check", "--env", "WEATHER_KEY=x"];
    assert_eq!(run(folder.path(), &given).status.code(), Some(0));
    assert_snapshot!(written(folder.path()), @r#"
    [servers.weather]
    command = "npx"
    args = ["-y", "@example/weather@1.2.0"]
    env = { WEATHER_KEY = "x" }
    "#);
}

#[test]
fn the_configured_servers_are_listed_without_secrets() {
    let folder = folder(Some(&format!(
        "{WRITTEN}[servers.far]\nurl = \"https://a.example/mcp?key=secret\"\nheaders = {{ A = \"secret\" }}\n"
    )));
    let listed = run(folder.path(), &["list"]);
    assert_snapshot!(shown(folder.path(), &listed), @r"
    0
    --- out
    SERVER  TRANSPORT        COMMAND OR URL
    first   stdio            sh server.sh
    far     streamable-http  https://a.example/mcp
    --- err
    configuration: lockkeeper.toml (found in the working directory)
    ");
    let json = String::from_utf8(run(folder.path(), &["list", "--json"]).stdout).unwrap();
    assert!(json.contains("\"far\"") && !json.contains("secret"), "{json}");
}

#[test]
fn tools_are_listed_and_called() {
    let folder = folder(Some(WRITTEN));
    let listed = run(folder.path(), &["tools"]);
    assert_snapshot!(shown(folder.path(), &listed), @r"
    0
    --- out
    TOOL         WHAT IT DOES
    first__say   Does it
    first__fail  Does it
    --- err
    ");
    let called = run(folder.path(), &["tools", "call", "first__say", "--arg", "n=1", "--arg", "text=hello you"]);
    assert_snapshot!(shown(folder.path(), &called), @r#"
    0
    --- out
    {"n": 1, "text": "hello you"}
    --- err
    "#);
    let failing = run(folder.path(), &["tools", "call", "fail", "--arguments", "{\"a\":[]}", "--", "sh", "server.sh"]);
    assert_snapshot!(shown(folder.path(), &failing), @r#"
    1
    --- out
    {"a": []}
    --- err
    error: `fail` reports an error
    "#);
    let unknown = run(folder.path(), &["tools", "call", "first__none"]);
    assert_eq!((unknown.status.code(), unknown.stdout.len()), (Some(0), 3), "the server decides: it knows every name");
    let wrong = run(folder.path(), &["tools", "call", "none"]);
    assert_snapshot!(shown(folder.path(), &wrong), @r"
    1
    --- out
    --- err
    error: `none` could not be called
      Unknown tool: none
    help: `lockkeeper tools` lists the tools
    ");
    let meant = shown(folder.path(), &run(folder.path(), &["tools", "call", "say"]));
    assert!(meant.starts_with("1\n") && meant.contains("help: did you mean `first__say`?"), "{meant}");
    let sick = run(folder.path(), &["tools", "--", "sh", "-c", "exit 2"]);
    let said = shown(folder.path(), &sick);
    assert!(said.contains("error: some servers are not ready\n  sh: the process exited (exit status: 2)"), "{said}");
}

#[test]
fn no_server_controls_the_terminal() {
    let folder = folder_with(rude());
    fs::write(folder.path().join("sick.sh"), format!("{WRITE_RUDE}\nexit 1\n")).unwrap();
    let server: &[&str] = &["--", "sh", "server.sh"];
    for (command, server, shown) in [
        (&["add", "rude"][..], server, "rude"),
        (&["add", "sick"], &["--", "sh", "sick.sh"], "on stderr"),
        (&["check"], &[], "rude"),
        (&["tools"], server, "Does it"),
        (&["tools", "--json"], server, "Does it"),
        (&["tools", "call", "say"], server, "said"),
        (&["tools", "call", "say", "--json"], server, "said"),
        (&["tools", "call", "fail"], server, "refused"),
    ] {
        let output = run(folder.path(), &[command, server].concat());
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let controls = |char: char| (char.is_control() && char != '\n') || ('\u{202a}'..='\u{202e}').contains(&char);
        assert!(said.contains(shown) && !said.contains(controls), "{command:?}: {said:?}");
    }
}

#[test]
fn a_command_in_quotes_is_told_how_to_be_written() {
    let folder = folder(None);
    let said = shown(folder.path(), &run(folder.path(), &["add", "one", "--", "python3 server.py"]));
    let advice = "help: write the command without quotes: lockkeeper add one -- python3 server.py";
    assert!(said.starts_with('2') && said.contains(advice), "{said}");
    assert!(!folder.path().join("lockkeeper.toml").exists());
}

/// The URL of a server that answers each request alike, on a thread that ends with the test.
fn answering(answer: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let _ = std::io::Read::read(&mut stream, &mut request);
            let _ = std::io::Write::write_all(&mut stream, answer.as_bytes());
        }
    });
    url
}

#[test]
fn a_server_that_asks_for_a_login_is_added_with_it() {
    let folder = folder(Some("public_url = \"https://mcp.example.com\"\n"));
    let url = answering(
        "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer resource_metadata=\"http://127.0.0.1/x\"\r\n\
         content-length: 0\r\nconnection: close\r\n\r\n",
    );
    let added = run(folder.path(), &["add", "work", &url]);
    let said = shown(folder.path(), &added);
    assert!(
        said.starts_with("0\n") && said.contains("it asks for a login, so each user connects an account"),
        "{said}"
    );
    assert!(said.contains("https://mcp.example.com/account"), "{said}");
    assert!(written(folder.path()).contains("auth = \"oauth\""), "{}", written(folder.path()));
    let json = run(folder.path(), &["add", "work", &url, "--replace", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(document["account"], "https://mcp.example.com/account");
}

#[test]
fn a_program_is_added_without_dashes_and_what_is_missing_is_named() {
    let folder = folder(None);
    assert_eq!(run(folder.path(), &["add", "one", "sh", "server.sh"]).status.code(), Some(0));
    assert!(written(folder.path()).contains("command = \"sh\"\nargs = [\"server.sh\"]"));
    let said = shown(folder.path(), &run(folder.path(), &["add", "two"]));
    assert!(said.starts_with("2\n") && said.contains("its URL or its program is missing"), "{said}");
    let said = shown(folder.path(), &run(folder.path(), &["add", "two", "docs.example/mcp"]));
    assert!(said.starts_with("2\n") && said.contains("lockkeeper add two https://docs.example/mcp"), "{said}");
}

#[test]
fn a_variable_that_is_not_set_here_is_written_and_headers_have_either_form() {
    let folder = folder(None);
    let add = ["add", "work", "https://a.example/mcp", "--header", "X-Api-Key: ${KEY}", "--header", "A=b"];
    let said = shown(folder.path(), &run(folder.path(), &add));
    assert!(said.starts_with("0\n") && said.contains("not tried, since KEY is not set here"), "{said}");
    assert!(written(folder.path()).contains("headers = { X-Api-Key = \"${KEY}\", A = \"b\" }"));
    // nor is it needed to change another server
    assert_eq!(run(folder.path(), &["add", "one", "sh", "server.sh"]).status.code(), Some(0));
    assert_eq!(run(folder.path(), &["remove", "one"]).status.code(), Some(0));
}

#[test]
fn tools_that_only_read_by_the_word_of_the_server_are_a_comment() {
    let tool = |name: &str, hint: bool| json!({ "name": name, "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": hint } });
    let script = Script::named("scripted").listed(tool("look", true)).listed(tool("change", false));
    let folder = folder_with(ScriptedServer::scripted(Revision::NEWEST_LEGACY, script));
    assert_eq!(run(folder.path(), &["add", "one", "--env", "A=b", "sh", "server.sh"]).status.code(), Some(0));
    let text = written(folder.path());
    assert!(text.contains("\n# read_only_tools = [\"look\"]\n") && text.lines().count() <= 15, "{text}");
    // a comment changes nothing
    let listed = run(folder.path(), &["add", "two", "http://127.0.0.1:1/mcp", "--no-check"]);
    assert_eq!(listed.status.code(), Some(0), "{}", shown(folder.path(), &listed));
    assert!(written(folder.path()).starts_with(&text), "{}", written(folder.path()));
}

#[test]
fn the_file_of_a_client_is_taken_over() {
    let folder = folder(Some("[servers.taken]\nbuiltin = \"demo\"\n"));
    let text = r#"{
        // mine
        "inputs": [{ "id": "token", "type": "promptString", "description": "Token of git" }],
        "servers": {
            "github.com/modelcontextprotocol/servers/src/filesystem": { "command": "npx", "args": ["-y", "server", "/data"] },
            "git": { "type": "stdio", "command": "git-mcp", "env": { "TOKEN": "${input:token}", "API_KEY": "abc" }, "gallery": true },
            "old": { "type": "sse", "url": "https://a.example/sse" },
            "Taken": { "command": "x" },
            "off": { "command": "x", "disabled": true },
            "broken": { "command": "x", "url": "https://a.example/mcp" }
        }
    }"#;
    fs::write(folder.path().join("mcp.json"), text).unwrap();
    let imported = run(folder.path(), &["import", "mcp.json"]);
    let said = shown(folder.path(), &imported);
    assert!(said.starts_with("0\n"), "{said}");
    for part in [
        "added 3 servers of mcp.json to FOLDER/lockkeeper.toml: filesystem, git, old",
        "is called `filesystem` here",
        "`git`: gallery have no meaning here",
        "`git`: env.API_KEY is a secret in the file",
        "`Taken` is left out: the file already has a server `taken`",
        "`broken` is left out: ",
        "set TOKEN in the gateway's environment: Token of git",
        "switched off there, and left out: off",
        "the comments of the file are not copied",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_snapshot!(written(folder.path()), @r#"
    [servers.taken]
    builtin = "demo"

    [servers.filesystem]
    command = "npx"
    args = ["-y", "server", "/data"]

    [servers.git]
    command = "git-mcp"
    env = { TOKEN = "${TOKEN}", API_KEY = "abc" }

    [servers.old]
    type = "sse"
    url = "https://a.example/sse"
    "#);
    // a second time there is nothing left to do
    let before = written(folder.path());
    let said = shown(folder.path(), &run(folder.path(), &["import", "mcp.json"]));
    assert!(said.starts_with("0\n") && said.contains("added 0 servers"), "{said}");
    assert_eq!(written(folder.path()), before);
    let said = shown(folder.path(), &run(folder.path(), &["import", "."]));
    assert!(said.starts_with("1\n") && said.contains("it is a folder"), "{said}");
}

#[test]
fn the_last_server_of_dotted_keys_leaves_no_demonstration() {
    let folder = folder(Some("servers.a.command = \"a\"\n"));
    assert_eq!(run(folder.path(), &["remove", "a"]).status.code(), Some(0));
    let said = shown(folder.path(), &run(folder.path(), &["list"]));
    assert!(said.starts_with("0\n") && !said.contains("demo"), "{said} {}", written(folder.path()));
}

#[test]
fn a_key_that_does_not_open_a_gateway_is_told_from_a_gateway_that_is_not_there() {
    let folder = folder(None);
    let tools = |words: &[&str]| {
        let variables = [("PATH", "/usr/bin:/bin"), ("LOCKKEEPER_API_KEY", "lkk_x")];
        shown(folder.path(), &lockkeeper(folder.path(), words, &variables))
    };
    let refusing = answering(
        "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer resource_metadata=\"http://127.0.0.1/x\"\r\n\
         content-length: 0\r\nconnection: close\r\n\r\n",
    );
    for command in [&["tools"][..], &["tools", "call", "git__about"]] {
        let said = tools(&[command, &["--gateway", refusing.trim_end_matches("/mcp")]].concat());
        assert!(
            said.starts_with("1\n") && said.contains("refused the key") && said.contains("it is unknown there"),
            "{said}"
        );
        let said = tools(&[command, &["--gateway", "http://127.0.0.1:1"]].concat());
        assert!(said.starts_with("1\n") && said.contains("does not answer like a gateway"), "{said}");
    }
}
