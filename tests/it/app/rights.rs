//! What callers reach at a server with a right to read it and with full rights: two people, one of them hostile, over real
//! sockets at real servers.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use lockkeeper::mcp::{Method, methods::MethodAccess};
use serde_json::{Value, json};

use super::{Gateway, client, made_key};
use crate::{
    backend::scripted_servers::everyday,
    kit::{person::Person, programs::ProgramServer, scripted::Script},
    support::data_folder::DataFolder,
};

/// Methods that MCP does not define, some of them in disguise.
const BEYOND: [&str; 4] = ["admin/wipe", "skills/list", "events/subscribe", "skills/a/b"];

/// Other spellings of methods that MCP defines.
const DISGUISED: [&str; 8] = [
    "Tools/Call",
    "tools//call",
    "tools/call ",
    "\u{ff54}ools/call",
    "tools\u{ff0f}call",
    "tools/call\u{0}",
    "to\u{200b}ols/call",
    "tasks/li\u{17f}t",
];

/// The server `plain`; `ruled`, with rules for its tools; and `open`, where everybody may send `skills/…`.
struct Servers(BTreeMap<&'static str, ProgramServer>);

impl Servers {
    fn start() -> Self {
        let server = || ProgramServer::start(everyday(Script::everyday()));
        Self(["plain", "ruled", "open"].map(|name| (name, server())).into())
    }

    /// The gateway in front of them.
    async fn gateway(&self, folder: &Path) -> Gateway {
        let mut text = String::new();
        for (name, server) in &self.0 {
            let rules = match *name {
                "ruled" => "tools.deny = [\"die\"]",
                "open" => "allow_methods = [\"skills/*\", \"tools/*\", \"tasks/*\"]\ntools.deny = [\"die\"]",
                _ => "",
            };
            let lines = format!("{}era = \"legacy\"\nread_only_tools = [\"echo\"]", server.lines());
            writeln!(text, "[servers.{name}]\n{lines}\n{rules}").unwrap();
        }
        fs::write(folder.join("lockkeeper.toml"), text).unwrap();
        Gateway::start(folder).await
    }

    /// The number of lines that a server read and that hold this text.
    fn read(&self, server: &str, text: &str) -> usize {
        self.0[server].journal().count(text)
    }
}

/// A client of one endpoint, in a session or without one.
struct Endpoint<'a> {
    gateway: &'a Gateway,
    path: &'a str,
    key: &'a str,
    /// The id of its session and its version.
    session: Option<(String, &'static str)>,
}

impl<'a> Endpoint<'a> {
    fn modern(gateway: &'a Gateway, path: &'a str, key: &'a str) -> Self {
        Self { gateway, path, key, session: None }
    }

    async fn legacy(gateway: &'a Gateway, path: &'a str, key: &'a str, version: &'static str) -> Self {
        let mut client = Self::modern(gateway, path, key);
        let params =
            json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let opened = client.send(&[], hello.to_string()).await;
        let session = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        client.session = Some((session, version));
        assert_eq!(client.notify("notifications/initialized", json!({})).await, 202);
        client
    }

    async fn send(&self, headers: &[(&str, &str)], body: String) -> reqwest::Response {
        let mut request = client().post(format!("{}{}", self.gateway.url, self.path)).bearer_auth(self.key).body(body);
        let common = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        for (name, value) in common.iter().chain(headers) {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap()
    }

    /// The status and the message that answers.
    async fn raw(&self, method: &str, name: Option<&str>, body: String) -> (u16, Value) {
        let headers = if let Some((session, version)) = &self.session {
            vec![("mcp-session-id", session.as_str()), ("mcp-protocol-version", version)]
        } else {
            let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
            headers.extend(name.map(|name| ("mcp-name", name)));
            headers
        };
        let response = self.send(&headers, body).await;
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        let answer = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
        (status, serde_json::from_str(answer).unwrap_or_default())
    }

    async fn ask(&self, method: &str, mut params: Value) -> (u16, Value) {
        if self.session.is_none() {
            params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {} });
        }
        let name = params["name"].as_str().map(str::to_owned);
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.raw(method, name.as_deref(), message.to_string()).await
    }

    async fn notify(&self, method: &str, params: Value) -> u16 {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.raw(method, None, message.to_string()).await.0
    }

    /// Status and code of an error.
    async fn refused(&self, method: &str, params: Value) -> (u16, i64) {
        let (status, answer) = self.ask(method, params).await;
        (status, answer["error"]["code"].as_i64().unwrap_or_default())
    }

    /// True if a request of this method gets as far as its method: without a session its header has to mirror it.
    fn can_send(&self, method: &str) -> bool {
        self.session.is_some() || method.bytes().all(|byte| matches!(byte, b'!'..=b'~'))
    }

    /// Status and code for a method that does not exist.
    fn unknown(&self) -> (u16, i64) {
        (if self.session.is_some() { 200 } else { 404 }, -32601)
    }
}

/// What the server reads as the name of a method.
fn method(name: &str) -> String {
    format!("\"method\":{}", serde_json::to_string(name).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_154_a_caller_that_may_read_reaches_no_method_that_mcp_does_not_define() {
    let folder = DataFolder::new();
    let servers = Servers::start();
    let gateway = servers.gateway(folder.path()).await;
    let ann = made_key(folder.path(), &["--direct", "--user", "ann"]);
    let bob =
        ["--direct", "--user", "bob", "--server", "plain:read", "--server", "ruled:read", "--server", "open:read"];
    let bob = made_key(folder.path(), &bob);
    for path in ["/mcp/plain", "/mcp/ruled", "/mcp/open", "/mcp"] {
        for client in
            [Endpoint::modern(&gateway, path, &bob), Endpoint::legacy(&gateway, path, &bob, "2025-11-25").await]
        {
            let is_open = |name: &str| path == "/mcp/open" && name.starts_with("skills/");
            let names = DISGUISED.into_iter().chain(BEYOND);
            for name in names.filter(|name| !is_open(name) && client.can_send(name)) {
                assert_eq!(client.refused(name, json!({ "name": "die" })).await, client.unknown(), "{path} {name}");
            }
        }
    }
    for server in ["plain", "ruled", "open"] {
        for name in DISGUISED.into_iter().chain(BEYOND) {
            assert_eq!(servers.read(server, &method(name)), 0, "{server} {name}");
        }
    }
    // what the operator opened is open to both; the server itself does not know it
    for key in [&ann, &bob] {
        let client = Endpoint::legacy(&gateway, "/mcp/open", key, "2025-11-25").await;
        assert_eq!(client.refused("skills/list", json!({})).await, (200, -32601));
        assert_eq!(client.refused("admin/wipe", json!({})).await, (200, -32601));
    }
    assert_eq!(servers.read("open", &method("skills/list")), 2);
    // full rights reach a server without rules for its tools, in no spelling of a method of MCP
    for path in ["/mcp/plain", "/mcp/ruled"] {
        let client = Endpoint::legacy(&gateway, path, &ann, "2025-11-25").await;
        for name in DISGUISED.into_iter().chain(["admin/wipe"]) {
            assert_eq!(client.refused(name, json!({ "name": "die" })).await, (200, -32601), "{path} {name}");
        }
    }
    let wiped = ["plain", "ruled", "open"].map(|server| servers.read(server, &method("admin/wipe")));
    assert_eq!(wiped, [1, 0, 0]);
    for server in ["plain", "ruled"] {
        assert!(DISGUISED.iter().all(|name| servers.read(server, &method(name)) == 0));
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_154_a_tool_that_may_change_something_is_unknown_in_every_form_of_a_call() {
    let folder = DataFolder::new();
    let servers = Servers::start();
    let gateway = servers.gateway(folder.path()).await;
    let ann = made_key(folder.path(), &["--direct", "--user", "ann"]);
    let bob = made_key(folder.path(), &["--direct", "--user", "bob", "--server", "plain:read"]);
    let client = Endpoint::legacy(&gateway, "/mcp/plain", &bob, "2025-03-26").await;
    for params in [
        json!({ "name": "about" }),
        json!({ "name": "about", "task": {} }),
        json!({ "name": "about", "_meta": { "progressToken": 1 } }),
        json!({ "name": "Echo", "arguments": { "text": "x" } }),
        json!({ "name": "plain__echo", "arguments": { "text": "x" } }),
        json!({ "name": ["echo", "about"] }),
    ] {
        assert_eq!(client.refused("tools/call", params.clone()).await, (200, -32602), "{params}");
    }
    let about = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"about"}}"#;
    let batch = format!(r#"[{about},{{"jsonrpc":"2.0","id":3,"method":"ping"}}]"#);
    let (_, answers) = client.raw("", None, batch).await;
    let codes: Vec<_> = answers.as_array().unwrap().iter().filter_map(|one| one["error"]["code"].as_i64()).collect();
    assert_eq!(codes, [-32602]);
    for hidden in
        [r#""name":"echo","name":"about""#, r#""name":"echo","n\u0061me":"about""#, r#""name":"about","Name":"echo""#]
    {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{hidden}}}}}"#);
        assert_eq!(client.raw("", None, text).await.1["error"]["code"], -32602, "{hidden}");
    }
    // without an id it is a call all the same
    let silent = r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"about"}}"#;
    assert_eq!(client.raw("", None, silent.to_owned()).await.0, 202);
    let (_, answer) = client.ask("tools/call", json!({ "name": "\u{65}cho", "arguments": { "text": "hi" } })).await;
    assert_eq!(answer["result"]["content"][0]["text"], "hi", "{answer}");
    assert_eq!(servers.read("plain", "about"), 0);
    let (_, answer) =
        Endpoint::modern(&gateway, "/mcp/plain", &ann).ask("tools/call", json!({ "name": "about" })).await;
    assert!(answer["result"].is_object(), "{answer}");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_154_notifications_beyond_mcp_are_accepted_and_reach_no_server_that_is_only_read() {
    let folder = DataFolder::new();
    let servers = Servers::start();
    let gateway = servers.gateway(folder.path()).await;
    let ann = made_key(folder.path(), &["--direct", "--user", "ann"]);
    let rights = ["--server", "plain:read", "--server", "ruled", "--server", "open:read"];
    let bob = made_key(folder.path(), &[&["--direct", "--user", "bob"][..], &rights].concat());
    let sent = ["notifications/vendor/wipe", "notifications/message", "Notifications/Cancelled", "admin/wipe"];
    for path in ["/mcp", "/mcp/plain", "/mcp/ruled", "/mcp/open"] {
        let client = Endpoint::legacy(&gateway, path, &bob, "2025-11-25").await;
        let echo = if path == "/mcp" { "plain__echo" } else { "echo" };
        let echo = json!({ "name": echo, "arguments": { "text": "hi" } });
        // a server that runs gets notifications at once
        client.ask("tools/call", echo.clone()).await;
        for name in sent {
            assert_eq!(client.notify(name, json!({ "data": "wipe" })).await, 202, "{path} {name}");
            // nothing answers it, so no request has its name
            if name.starts_with("notifications/") {
                assert_eq!(client.refused(name, json!({})).await, client.unknown(), "{path} {name}");
            }
        }
        assert_eq!(client.notify("notifications/roots/list_changed", json!({})).await, 202);
        let (_, answer) = client.ask("tools/call", echo).await;
        assert_eq!(answer["result"]["content"][0]["text"], "hi", "{path} {answer}");
    }
    let modern = Endpoint::modern(&gateway, "/mcp/plain", &bob);
    assert_eq!(modern.refused("notifications/message", json!({})).await, (404, -32601));
    for server in ["plain", "ruled", "open"] {
        assert_eq!(servers.read(server, &method("notifications/vendor/wipe")), 0, "{server}");
        assert_eq!(servers.read(server, &method("admin/wipe")), 0, "{server}");
        assert!(servers.read(server, &method("notifications/message")) == 0 || server == "ruled", "{server}");
    }
    // full rights at a server without rules for its tools
    let client = Endpoint::legacy(&gateway, "/mcp/plain", &ann, "2025-11-25").await;
    client.ask("tools/call", json!({ "name": "echo", "arguments": { "text": "hi" } })).await;
    assert_eq!(client.notify("notifications/vendor/wipe", json!({})).await, 202);
    client.ask("tools/call", json!({ "name": "echo", "arguments": { "text": "hi" } })).await;
    assert_eq!(servers.read("plain", &method("notifications/vendor/wipe")), 1);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_154_completions_of_anything_but_prompts_and_templates_take_full_rights() {
    let folder = DataFolder::new();
    let servers = Servers::start();
    let gateway = servers.gateway(folder.path()).await;
    let ann = made_key(folder.path(), &["--direct", "--user", "ann"]);
    let bob = made_key(folder.path(), &["--direct", "--user", "bob", "--server", "plain:read"]);
    let of = |kind: &str| json!({ "ref": { "type": kind, "name": "die" }, "argument": { "name": "a", "value": "" } });
    for (key, reaches) in [(&bob, 1), (&ann, 2)] {
        let before = servers.read("plain", &method("completion/complete"));
        let client = Endpoint::legacy(&gateway, "/mcp/plain", key, "2025-11-25").await;
        for kind in ["ref/prompt", "ref/tool"] {
            client.ask("completion/complete", of(kind)).await;
        }
        assert_eq!(servers.read("plain", &method("completion/complete")) - before, reaches);
    }
    let client = Endpoint::modern(&gateway, "/mcp/plain", &bob);
    assert_eq!(client.refused("completion/complete", of("ref/tool")).await.1, -32602);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_153_a_tool_that_rules_leave_out_is_called_in_no_spelling() {
    let folder = DataFolder::new();
    let servers = Servers::start();
    let gateway = servers.gateway(folder.path()).await;
    let ann = made_key(folder.path(), &["--direct", "--user", "ann"]);
    let bob = made_key(folder.path(), &["--direct", "--user", "bob", "--server", "ruled"]);
    let spellings = ["die", "Die", "die ", "DIE", "\u{ff44}ie", "d\u{200b}ie", "/die", "about", "Echo"];
    let of = |name: &str| json!({ "name": name, "arguments": { "text": "hi" } });
    for (key, prefix, path) in [(&bob, "", "/mcp/ruled"), (&bob, "ruled__", "/mcp"), (&ann, "", "/mcp/ruled")] {
        let legacy = Endpoint::legacy(&gateway, path, key, "2025-11-25").await;
        let modern = Endpoint::modern(&gateway, path, key);
        for name in spellings.map(|name| format!("{prefix}{name}")) {
            let (_, answer) = legacy.ask("tools/call", of(&name)).await;
            assert_eq!(answer["error"]["message"], format!("Unknown tool: {name}"), "{answer}");
            if modern.can_send(&name) {
                assert_eq!(modern.refused("tools/call", of(&name)).await, (200, -32602), "{name}");
            }
        }
        let (_, answer) = legacy.ask("tools/call", of(&format!("{prefix}echo"))).await;
        assert_eq!(answer["result"]["content"][0]["text"], "hi", "{answer}");
    }
    assert_eq!(servers.read("ruled", &method("tools/call")), 3, "the calls of `echo`");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_112_a_server_beyond_a_persons_rights_is_like_none_to_a_client_on_a_page_and_to_an_app() {
    let folder = DataFolder::new();
    let servers = Servers::start();
    let gateway = servers.gateway(folder.path()).await;
    let bob = made_key(folder.path(), &["--direct", "--user", "bob", "--server", "plain:read"]);
    let mut person = Person::new(&gateway.url, &bob);
    person.log_in().await;
    let app = person.connect_app("App", "/mcp").await;
    for credential in [&bob, &app.access] {
        let modern = Endpoint::modern(&gateway, "/mcp", credential);
        let legacy = Endpoint::legacy(&gateway, "/mcp", credential, "2025-11-25").await;
        for client in [&modern, &legacy] {
            let (_, answer) = client.ask("tools/list", json!({})).await;
            assert_eq!(answer["result"]["tools"].as_array().map(Vec::len), Some(1), "{answer}");
            let mut answers = Vec::new();
            for server in ["ruled", "nobody"] {
                for (method, params) in [
                    ("tools/call", json!({ "name": format!("{server}__echo"), "arguments": { "text": "hi" } })),
                    ("prompts/get", json!({ "name": format!("{server}__p") })),
                    ("resources/read", json!({ "uri": format!("{server}+x:1") })),
                    ("completion/complete", json!({ "ref": { "type": "ref/prompt", "name": format!("{server}__p") } })),
                    ("tasks/get", json!({ "taskId": format!("{server}.t1") })),
                ] {
                    let (status, answer) = client.ask(method, params).await;
                    assert!(answer["error"].is_object(), "{method} {answer}");
                    answers.push(format!("{method} {status} {answer}").replace(server, "SERVER"));
                }
            }
            assert_eq!(answers[..5], answers[5..]);
        }
        // its own endpoint is closed like one that does not exist
        let closed = ["/mcp/ruled", "/mcp/nobody"].map(|path| Endpoint::modern(&gateway, path, credential));
        let closed = [closed[0].ask("tools/list", json!({})).await, closed[1].ask("tools/list", json!({})).await];
        assert_eq!(closed[0], closed[1]);
        assert!([401, 403].contains(&closed[0].0), "{closed:?}");
    }
    for page in ["/", "/account"] {
        let page = person.get(page).await.body;
        assert!(page.contains("plain") && !page.contains("ruled"), "{page}");
    }
    let mut connect = Vec::new();
    for path in ["/connect/ruled", "/connect/nobody"] {
        let page = person.get(path).await.body;
        connect.push(page.split_once(", request <code>").unwrap().0.to_owned());
    }
    assert_eq!(connect[0], connect[1]);
    for text in ["\"tools/call\"", "\"prompts/get\"", "\"resources/read\"", "\"completion/complete\"", "\"tasks/get\""]
    {
        assert_eq!(servers.read("ruled", text), 0, "{text}");
    }
    gateway.stop().await;
}

#[test]
fn the_page_lists_the_access_class_of_every_method() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/authorization.md")).unwrap();
    let section = page.split_once("### What `:read` allows").unwrap().1.split_once("\n## ").unwrap().0;
    let mut listed = BTreeMap::new();
    for row in section.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let access = match cells[0] {
            "any" => MethodAccess::Any,
            "tool" => MethodAccess::Tool,
            "own task" => MethodAccess::OwnTask,
            "of servers" => MethodAccess::OfServers,
            _ => continue,
        };
        listed.extend(cells[1].split(", ").map(|name| (name.trim_matches('`').to_owned(), access)));
    }
    let defined: BTreeMap<_, _> = Method::defined().map(|(name, access)| (name.to_owned(), access)).collect();
    assert_eq!(listed, defined);
}
