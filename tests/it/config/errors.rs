//! Error messages of the configuration.

use insta::assert_snapshot;
use lockkeeper::{
    config::{self, CommandLineOptions, Environment},
    model::EgressNames,
};

use super::{errors, load};

#[test]
fn all_errors_are_reported_together_each_with_its_place() {
    let text = r#"listen = "80800"
public_url = "http://gw.example"
lissten = "x"

[limits]
session_idle = "5s"
sessions = 0
session_per_user = 3
request_body = "2GiB"

[auth]
acess_token_lifetime = "1h"
conceal_servers = "no"

[servers.files]
command = "npx"
args = "-y"
env = { KEY = "${KEY}" }
share = "everybody"
start_timeout = 60

[servers.docs]
url = "ftp://docs.example.com"
headers = { Host = "x", "Bad Name" = "y" }
"#;
    assert_snapshot!(errors("lockkeeper.toml", text, &[]), @r#"
    lockkeeper.toml:1:10: listen: this must be a port, or an address and a port, such as `8080`, `[::]:8080` or `0.0.0.0:8080`
    lockkeeper.toml:2:14: public_url: `http` is allowed for loopback addresses only; use `https`
    lockkeeper.toml:3:1: lissten: unknown option
        did you mean `listen`?
    lockkeeper.toml:6:16: limits.session_idle: 5s is not between 1m and 30d
    lockkeeper.toml:7:12: limits.sessions: 0 is not between 1 and 1000000
    lockkeeper.toml:8:1: limits.session_per_user: unknown option
        did you mean `sessions_per_user`?
    lockkeeper.toml:9:16: limits.request_body: 2GiB is not between 64KiB and 1GiB
    lockkeeper.toml:12:1: auth.acess_token_lifetime: unknown option
        did you mean `access_token_lifetime`?
    lockkeeper.toml:13:19: auth.conceal_servers: this must be true or false, without quotes, not a string
    lockkeeper.toml:17:8: servers.files.args: this must be a list of strings, not a string
    lockkeeper.toml:18:15: servers.files.env.KEY: the environment variable `KEY` is not set
        set it, or give a default: `${KEY:-…}`
    lockkeeper.toml:19:9: servers.files.share: this must be one of `session`, `user`, `all`
    lockkeeper.toml:20:17: servers.files.start_timeout: this needs its unit and quotes: `"500ms"`, `"60s"`, `"30m"`
    lockkeeper.toml:23:7: servers.docs.url: this must be a URL with http, https, ws, wss, tcp or unix
    lockkeeper.toml:24:13: servers.docs.headers.Host: the gateway sets this header itself
    lockkeeper.toml:24:25: servers.docs.headers.Bad Name: this is not a header name
    "#);
}

#[test]
fn oa_148_names_are_left_to_a_proxy_only_where_there_is_one() {
    let alone = errors("lockkeeper.toml", "[auth]\negress_proxy_resolves = true\n", &[]);
    assert!(alone.contains("needs a proxy") && alone.contains("add `egress_proxy = "), "{alone}");
    let both = "[auth]\negress_proxy = \"http://a:1\"\negress_proxy_resolves = true\nfake_ip_resolver = true\n";
    let both = errors("lockkeeper.toml", both, &[]);
    assert!(both.contains("exclude each other"), "{both}");
    let names = |text: &str| load("lockkeeper.toml", text, &[]).unwrap().auth.egress.names;
    assert_eq!(names("[auth]\negress_proxy = \"http://a:1\"\n"), EgressNames::Resolved);
    assert_eq!(names("[auth]\negress_proxy = \"http://a:1\"\negress_proxy_resolves = true\n"), EgressNames::ByProxy);
    assert_eq!(names("[auth]\nfake_ip_resolver = true\n"), EgressNames::Fake);
}

#[test]
fn the_caller_stands_only_where_each_user_has_a_server() {
    let text = r#"[servers.all]
command = "run"
args = ["--user", "${user}"]
share = "all"

[servers.files]
command = "run-${user}"
cwd = "/srv/${user}"

[servers.docs]
url = "https://docs.example.com/${user}"

[servers.wiki]
url = "https://wiki.example.com/mcp"
headers = { Authorization = "x" }
identity = "jwt"

[servers.pages]
url = "https://pages.example.com/mcp"
identity = "header"
identity_header = "Host"
identity_audience = "pages"

[servers.line]
url = "tcp://line.example.com:7"
identity = "header"

[servers.chat]
url = "wss://chat.example.com/mcp"
identity_header = "X-User"
"#;
    assert_snapshot!(errors("lockkeeper.toml", text, &[]), @r#"
    lockkeeper.toml:1:10: servers.all: `${user}` is the user who calls, and `share = "all"` gives all users the same server
        set `share` to "user" or "session", or remove `${user}`
    lockkeeper.toml:7:11: servers.files.command: `${user}` is the user who calls, and this is the same for all users
        write it into `env`, `args` or `headers` of a server, or `${env:user}` for a variable of that name
    lockkeeper.toml:8:7: servers.files.cwd: `${user}` is the user who calls, and this is the same for all users
        write it into `env`, `args` or `headers` of a server, or `${env:user}` for a variable of that name
    lockkeeper.toml:11:7: servers.docs.url: `${user}` is the user who calls, and this is the same for all users
        write it into `env`, `args` or `headers` of a server, or `${env:user}` for a variable of that name
    lockkeeper.toml:13:10: servers.wiki: `headers` and `identity` both set the header `authorization`
        remove it from `headers`, or set `identity_header` to another name
    lockkeeper.toml:21:19: servers.pages.identity_header: the gateway sets this header itself
    lockkeeper.toml:22:1: servers.pages.identity_audience: this needs `identity = "jwt"`
        remove it
    lockkeeper.toml:26:1: servers.line.identity: this needs a `url` with http, https, ws or wss
        remove it; a program is told who calls by `${user}` in its `env` or `args`
    lockkeeper.toml:30:1: servers.chat.identity_header: this needs `identity`
        set `identity`, or remove it
    "#);
}

#[test]
fn a_secret_of_each_user_stands_only_where_each_user_has_a_server() {
    let text = r#"[servers.keys]
url = "https://keys.example.com/${secret:KEY}"
headers = { X-Key = "${secret:}" }

[servers.one]
command = "run"
env = { KEY = "${secret:KEY}" }
share = "all"
"#;
    assert_snapshot!(errors("lockkeeper.toml", text, &[]), @r#"
    lockkeeper.toml:2:7: servers.keys.url: `${secret:KEY}` is entered by each user, and this is the same for all users
        write it into `env`, `args` or `headers` of a server, or the value of all into `${NAME}` or `${file:PATH}`
    lockkeeper.toml:3:21: servers.keys.headers.X-Key: `${secret:` must be followed by a name and `}`: the name of a secret has 1 to 64 of a-z, A-Z, 0-9, `_`, `-` and `.`
        choose another name
    lockkeeper.toml:5:10: servers.one: each user enters a `${secret:…}`, and `share = "all"` gives all users the same server
        set `share` to "user" or "session", or give all users the same value by `${NAME}` or `${file:PATH}`
    "#);
}

#[test]
fn the_token_of_a_login_and_the_statement_of_who_calls_need_two_headers() {
    let server = |auth: &str, more: &str| {
        let url = "https://docs.example.com/mcp";
        format!("[servers.docs]\nurl = \"{url}\"\nidentity = \"jwt\"\nauth = \"{auth}\"\n{more}")
    };
    let credentials = "client_id = \"a\"\nclient_secret = \"b\"\n";
    for text in [server("oauth", ""), server("client-credentials", credentials)] {
        let found = errors("lockkeeper.toml", &text, &[]);
        assert!(found.contains("`auth` and `identity` both set the header `authorization`"), "{found}");
        assert!(found.contains("set `identity_header` to another name, or remove `auth` or `identity`"), "{found}");
    }
}

#[test]
fn up_018_an_issuer_is_a_plain_https_url_and_needs_auth() {
    let problems =
        |more: &str| errors("lockkeeper.toml", &format!("[servers.x]\nurl = \"https://x.example/mcp\"\n{more}\n"), &[]);
    let client = "auth = \"oauth\"\nclient_id = \"a\"\nclient_secret = \"b\"\n";
    // without an issuer the file is valid: only this server fails
    let is_valid = |more: &str| {
        load("lockkeeper.toml", &format!("[servers.x]\nurl = \"https://x.example/mcp\"\n{more}\n"), &[]).is_ok()
    };
    for fine in [
        "",
        "issuer = \"https://id.example/t/\"",
        "issuer = \"http://127.0.0.1:1\"",
        "resource = false",
        "resource = \"api://a\"",
    ] {
        assert!(is_valid(&format!("{client}{fine}")), "{fine}");
    }
    for wrong in
        ["http://id.example", "id.example", "https://a@id.example", "https://id.example?a", "https://id.example#a"]
    {
        assert!(problems(&format!("{client}issuer = \"{wrong}\"")).contains("servers.x.issuer"), "{wrong}");
    }
    for wrong in ["true", "1", "\"/mcp\"", "\"https://a.example/#b\"", "\"https://a.example/ b\""] {
        assert!(problems(&format!("{client}resource = {wrong}")).contains("servers.x.resource"), "{wrong}");
    }
    for key in ["issuer = \"https://id.example\"", "resource = false"] {
        assert!(problems(key).contains("this needs `auth`"), "{key}");
    }
}

#[test]
fn a_group_has_a_name_of_its_own_and_servers_that_there_are() {
    let servers = "[servers.github]\nbuiltin = \"demo\"\n[servers.\"My Files\"]\nbuiltin = \"demo\"\ndisabled = true\n";
    let problems = |groups: &str| errors("lockkeeper.toml", &format!("{servers}{groups}"), &[]);
    let wrong = r#"[groups.github]
servers = ["my-files"]

[groups.admin]
servers = ["githab", "nowhere", "github"]

[groups.empty]
servers = []

[groups.none]
tools.allow = ["[a"]
tools.rename = { a = "b" }

[groups.3]
servers = "github"

[groups.Work]
servers = ["github"]

[groups.work]
servers = ["github"]
"#;
    assert_snapshot!(problems(wrong), @r#"
    lockkeeper.toml:6:9: groups.github: there is a server `github`, and both would be at `/mcp/github`
        choose another name for the group
    lockkeeper.toml:9:9: groups.admin: `admin` is reserved: `mcp:admin` is the scope that administers the gateway
        choose another name for the group
    lockkeeper.toml:9:9: groups.admin: there is no server `githab`
        did you mean `github`?
    lockkeeper.toml:9:9: groups.admin: there is no server `nowhere`
        the servers are github, my-files
    lockkeeper.toml:12:9: groups.empty: the group has no servers
        name them: `servers = ["…"]`
    lockkeeper.toml:15:9: groups.none: the group has no servers
        name them: `servers = ["…"]`
    lockkeeper.toml:16:1: groups.none.tools: `allow`: error parsing glob '[a': unclosed character class; missing ']'
        patterns have `*`, `?`, `[ab]` and `{a,b}`
    lockkeeper.toml:17:7: groups.none.tools.rename: unknown option
    lockkeeper.toml:19:9: groups.3: `3` is not a valid name: use a letter, then up to 31 of a-z, 0-9 and `-`
        choose another name for the group
    lockkeeper.toml:20:11: groups.3.servers: this must be a list of strings, not a string
    lockkeeper.toml:25:9: groups.work: another group is `work` too
        rename one of them
    "#);
    let config = load(
        "lockkeeper.toml",
        &format!("{servers}[groups.work]\nservers = [\"GitHub\", \"My Files\", \"github\"]\ntools.deny = [\"*\"]\n"),
        &[],
    )
    .unwrap();
    let group = config.groups.iter().next().unwrap();
    let named: Vec<&str> = group.servers.iter().map(lockkeeper::model::BackendId::as_str).collect();
    assert_eq!((named, group.offers("github__x")), (vec!["github", "my-files"], false), "a disabled one is known");
}

#[test]
fn the_limits_on_open_questions_must_fit_together() {
    let text = "[limits]\nserver_request_timeout = \"30s\"\nserver_request_slot_time = \"60s\"\nslot_wait = \"30s\"\n";
    assert_snapshot!(errors("lockkeeper.toml", text, &[]), @"
    lockkeeper.toml:1:2: limits: `slot_wait` must be longer than `server_request_slot_time`: calls would end before they can get a process
        raise `slot_wait`, or lower `server_request_slot_time`
    lockkeeper.toml:3:28: limits.server_request_slot_time: 1m is not between 1s and 30s
    ");
}

#[test]
fn a_backend_may_not_have_the_name_of_a_scope() {
    let text = "[servers.admin]\ncommand = \"a\"\n[servers.Use]\ncommand = \"b\"\n[servers.user]\ncommand = \"c\"\n";
    assert_snapshot!(errors("lockkeeper.toml", text, &[]), @"
    lockkeeper.toml:1:10: servers.admin: `admin` is reserved: `mcp:admin` is the scope that administers the gateway
        choose another name
    lockkeeper.toml:3:10: servers.Use: `use` is reserved: `mcp:use` is the scope of all servers
        choose another name
    ");
}

#[test]
fn a_missing_variable_is_named_in_json_too() {
    let text = r#"{
  "mcpServers": {
    "github": { "command": "npx", "env": { "TOKEN": "${GITHUB_TOKEN}", "OTHER": "${A}${B:-b}${C}" } },
    "docs": { "type": "http", "url": "https://docs.example.com/${PART", "headers": { "Authorization": "Bearer ${T}" } }
  }
}"#;
    assert_snapshot!(errors("claude.json", text, &[]), @r#"
    claude.json:3:53: mcpServers.github.env.TOKEN: the environment variable `GITHUB_TOKEN` is not set
        set it, or give a default: `${GITHUB_TOKEN:-…}`
    claude.json:3:81: mcpServers.github.env.OTHER: the environment variable `A` is not set
        set it, or give a default: `${A:-…}`
    claude.json:3:81: mcpServers.github.env.OTHER: the environment variable `C` is not set
        set it, or give a default: `${C:-…}`
    claude.json:4:38: mcpServers.docs.url: `${` must be followed by the name of an environment variable and `}`
        for a literal `${` write `$${`
    claude.json:4:103: mcpServers.docs.headers.Authorization: the environment variable `T` is not set
        set it, or give a default: `${T:-…}`
    "#);
}

#[test]
fn options_that_need_a_person_or_another_transport_are_refused_with_an_alternative() {
    let text = r#"{
  "inputs": [{ "id": "key", "type": "promptString" }],
  "servers": {
    "old": { "type": "sse", "url": "wss://old.example.com/sse" },
    "socket": { "url": "wss://socket.example.com" },
    "asks": { "command": "server", "env": { "KEY": "${input:key}" }, "envFile": ".env" }
  }
}"#;
    assert_snapshot!(errors("mcp.json", text, &[]), @r#"
    mcp.json:4:5: servers.old: `sse` needs a URL with http or https
    mcp.json:6:52: servers.asks.env.KEY: `${input:key}` needs a person to answer
        start on a terminal, which asks, or put the value into an environment variable and write `${NAME}`
    mcp.json:6:81: servers.asks.envFile: the file `.env` cannot be read: No such file or directory (os error 2)
    "#);
}

#[test]
fn a_backend_has_exactly_one_transport() {
    let text = r#"
[servers.none]
args = ["x"]
version = "2025-11-25"
[servers.both]
command = "server"
url = "https://example.com/mcp"
[servers.wrong]
type = "stdio"
url = "https://user:hunter2@example.com/mcp"
[servers.typo]
comand = "server"
"#;
    assert_snapshot!(errors("lockkeeper.toml", text, &[]), @r#"
    lockkeeper.toml:2:10: servers.none: the transport is missing
        set either `command` (a program to start) or `url` (of a server over HTTP, WebSocket or a socket)
    lockkeeper.toml:3:1: servers.none.args: this needs a `command`
        remove it, or set a `command`
    lockkeeper.toml:5:10: servers.both: there is more than one transport
        set either `command` (a program to start) or `url` (of a server over HTTP, WebSocket or a socket)
    lockkeeper.toml:8:10: servers.wrong: `stdio` needs a `command`, not a `url`
    lockkeeper.toml:10:7: servers.wrong.url: put user and password into `headers`, as `Authorization`
    lockkeeper.toml:11:10: servers.typo: the transport is missing
        set either `command` (a program to start) or `url` (of a server over HTTP, WebSocket or a socket)
    lockkeeper.toml:12:1: servers.typo.comand: unknown option
        did you mean `command`?
    "#);
}

#[test]
fn equal_names_and_invalid_names_are_reported() {
    let text = r#"
[servers.My_Files]
command = "a"
[servers.my-files]
command = "b"
[servers.2fast]
command = "c"
"#;
    assert_snapshot!(errors("lockkeeper.toml", text, &[]), @r#"
    lockkeeper.toml:4:10: servers.my-files: `my-files` and `My_Files` (lockkeeper.toml:2:10: servers.My_Files) both become `my-files`
        rename one of them
    lockkeeper.toml:6:10: servers.2fast: `2fast` is not a server name: use a letter, then up to 31 of a-z, 0-9 and `-`
        choose another name
    "#);
}

#[test]
fn syntax_errors_have_a_place_and_do_not_quote_the_line() {
    let text = "listen = \"127.0.0.1:8080\"\n[servers.a]\ncommand = \"a\"\nenv = { KEY = \"hunter2 }\n";
    assert_snapshot!(errors("lockkeeper.toml", text, &[]), @r#"
    lockkeeper.toml:4:25: this is not TOML: unclosed inline table, expected `}`
    lockkeeper.toml:4:25: this is not TOML: invalid basic string, expected `"`
    "#);
    assert_snapshot!(errors("mcp.json", "{\n  \"mcpServers\": { \"a\": { \"command\": hunter2 } }\n}", &[]), @"mcp.json:2:37: this is not JSON: Unexpected word");
    assert_snapshot!(errors("mcp.json", "[]", &[]), @"mcp.json:1:1: the file must hold a JSON object");
    assert_snapshot!(errors("mcp.json", "{ \"other\": {} }", &[]), @r#"
    mcp.json:1:1: the file has no servers
        a JSON file needs one object `mcpServers` (in VS Code `servers`)
    "#);
    assert_snapshot!(errors("mcp.json", "", &[]), @"mcp.json:1:1: the file is empty");
}

#[test]
fn no_secret_is_ever_in_a_message_or_in_debug_output() {
    let secrets = [("KEY", "hunter2"), ("URL", "https://hunter2@example.com")];
    let text = r#"
listen = "${KEY}"
public_url = "https://hunter2@example.com"
[limits]
session_idle = "${KEY}"
[http]
allowed_origins = ["${KEY}"]
trusted_proxies = ["hunter2"]
[log]
filter = "a=${KEY}"
format = "${KEY}"
[servers.a]
command = "a"
env = { "A=B" = "hunter2", KEY = ["hunter2"] }
share = "${KEY}"
[servers.b]
url = "${URL}"
headers = { Authorization = "hunter2\n" }
"#;
    let told = errors("lockkeeper.toml", text, &secrets);
    assert!(!told.contains("hunter2"), "{told}");
    assert!(told.lines().count() > 10, "{told}");

    let text = r#"
[servers.a]
command = "a"
env = { KEY = "${KEY}" }
[servers.b]
url = "https://example.com/mcp"
headers = { Authorization = "Bearer ${KEY}" }
"#;
    let config = load("lockkeeper.toml", text, &secrets).unwrap();
    let shown = format!("{config:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_missing_file_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let given = CommandLineOptions { config: Some("nowhere.toml".into()), ..Default::default() };
    assert_snapshot!(super::load_in(folder.path(), &given, &[]).unwrap_err(), @r#"
    nowhere.toml: the file cannot be read: No such file or directory (os error 2)
        check its name and its permissions
    "#);
}

#[test]
fn rules_for_tools_that_cannot_be_followed_are_reported() {
    let text = "[servers.x]\nbuiltin = \"demo\"\n[servers.x.tools]\nallow = [\"[a\"]\nrename = { \"a*\" = \"b\", c = 1 }\n\
                arguments = { d = 2 }\nallowed = []\n";
    let problems = load("lockkeeper.toml", text, &[]).unwrap_err().to_string();
    assert_snapshot!(problems, @"
    lockkeeper.toml:3:12: servers.x.tools: `allow`: error parsing glob '[a': unclosed character class; missing ']'
        patterns have `*`, `?`, `[ab]` and `{a,b}`
    lockkeeper.toml:3:12: servers.x.tools: `rename` of `c` must be a string
    lockkeeper.toml:3:12: servers.x.tools: `rename` of `a*` to `b`: both names need a `*`, or none
    lockkeeper.toml:3:12: servers.x.tools: `arguments` of `d` must be a table
    lockkeeper.toml:7:1: servers.x.tools.allowed: unknown option
    ");
}

#[test]
fn parameters_that_a_login_sets_itself_are_refused() {
    let text = |parameters: &str| {
        format!(
            "[servers.docs]\nbuiltin = \"demo\"\n[login.corp]\nissuer = \"https://id.example\"\nclient_id = \"a\"\n\
             subjects = [\"*\"]\nauthorize_params = {{ {parameters} }}\n"
        )
    };
    for (parameters, told) in [
        ("state = \"x\"", "login.corp.authorize_params: the login itself sets `state`"),
        (
            "code_challenge_method = \"plain\"",
            "login.corp.authorize_params: the login itself sets `code_challenge_method`",
        ),
        ("prompt = \"none\"", "login.corp.authorize_params: `prompt=none` lets nobody log in"),
        ("access_type = 7", "login.corp.authorize_params: `access_type` must be a text"),
    ] {
        let report = load("lockkeeper.toml", &text(parameters), &[]).unwrap_err().to_string();
        assert!(report.contains(told), "{report}");
    }
    let server =
        "[servers.x]\nurl = \"https://a.example/mcp\"\nauth = \"oauth\"\nauthorize_params = { resource = \"x\" }\n";
    let report = load("lockkeeper.toml", server, &[]).unwrap_err().to_string();
    assert!(report.contains("servers.x.authorize_params: the login itself sets `resource`"), "{report}");
    let good = load("lockkeeper.toml", &text("access_type = \"offline\", prompt = \"consent\""), &[]).unwrap();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(good.login[0].authorize_params, [pair("access_type", "offline"), pair("prompt", "consent")]);
}

#[test]
fn a_login_provider_that_cannot_work_is_reported() {
    let text = "[servers.docs]\nbuiltin = \"demo\"\n[groups.work]\nservers = [\"docs\"]\n[login.Corp]\nissuer = \"http://id.example\"\n\
                client_secret = \"\"\nalgorithms = [\"HS256\", \"none\"]\ndomains = [\"@example.com\"]\nservers = [\"dosc\", \"work:read\"]\n\
                [login.other]\nissuer = \"https://id.example/.well-known/openid-configuration\"\nclient_id = \"a\"\n\
                scopes = [\"a b\"]\nsubjects = [\"*\"]\n[login.other.rights.ops]\nadmin = true\n";
    let problems = load("lockkeeper.toml", text, &[]).unwrap_err().to_string();
    for expected in [
        "login.Corp: `Corp` is not a valid name for a provider",
        "login.Corp.issuer: this must be an `https` URL; `http` is allowed for loopback addresses only",
        "login.Corp: `client_id` is missing",
        "login.Corp.client_secret: this is empty",
        "login.Corp.algorithms[0]: this must be one of `RS256`",
        "login.Corp.algorithms[1]: this must be one of `RS256`",
        "login.Corp.domains[0]: this must be a domain",
        "login.Corp.servers[0]: there is no server or group `dosc`; did you mean `docs`?",
        "login.Corp: nobody may log in through this provider",
        "login.other.issuer: write only the issuer",
        "login.other.scopes[0]: this is not a scope",
        "login.other.rights.ops: these rights are for nobody",
    ] {
        assert!(problems.contains(expected), "{expected}\n{problems}");
    }
    assert!(!problems.contains("backends[1]"), "{problems}");
    let text = "[login.corp]\nissuer = \"https://id.example\"\nclient_id = \"a\"\nclient_secret = \"${SECRET}\"\nsession = \"bound\"\n\
                domains = [\"Example.COM\"]\n";
    let config = load("lockkeeper.toml", text, &[("SECRET", "hunter2")]).unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
    assert_eq!(config.login[0].scopes, ["openid", "email", "profile", "offline_access"]);
    let twice = format!("{text}{}", text.replace("login.corp", "login.two"));
    let problems = load("lockkeeper.toml", &twice, &[("SECRET", "x")]).unwrap_err().to_string();
    assert!(problems.contains("another provider has this issuer too"), "{problems}");
}

#[test]
fn a_gateway_that_starts_itself_ends_with_an_error_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let load = |above: &str| {
        let environment: Environment = [("LOCKKEEPER_NESTING", above)].into_iter().collect();
        config::load(&CommandLineOptions::default(), &environment, folder.path())
    };
    assert!(load("2").is_ok());
    let refused = load("3").unwrap_err().to_string();
    assert!(
        refused.contains("does its configuration start itself?") && refused.contains("`--config FILE`"),
        "{refused}"
    );
}

#[test]
fn a_file_in_another_encoding_is_named_as_such() {
    let text = "[servers.a]\ncommand = \"a\"\n";
    let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let cases: [(&str, Vec<u8>, &str); 5] = [
        ("marked.toml", [&b"\xff\xfe"[..], &little].concat(), "it is UTF-16"),
        ("marked-big.toml", [&b"\xfe\xff"[..], &big].concat(), "it is UTF-16"),
        ("plain.toml", little, "it is UTF-16"),
        ("plain-big.toml", big, "it is UTF-16"),
        ("latin.toml", b"# caf\xe9\n".to_vec(), "it is not UTF-8"),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, told) in cases {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        let given = CommandLineOptions { config: Some(name.into()), ..Default::default() };
        let problems = super::load_in(folder.path(), &given, &[]).unwrap_err().to_string();
        assert!(problems.contains(told) && problems.contains("save it as UTF-8"), "{problems}");
        assert!(!problems.contains("permissions"), "{problems}");
    }
    let marked = [b"\xef\xbb\xbf", text.as_bytes()].concat();
    std::fs::write(folder.path().join("lockkeeper.toml"), marked).unwrap();
    super::load_in(folder.path(), &CommandLineOptions::default(), &[]).unwrap();
}

#[test]
fn variables_and_secrets_in_another_encoding_are_named_as_such() {
    let utf16 = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), [&b"\xff\xfe"[..], &utf16("hunter2")].concat()).unwrap();
    std::fs::write(folder.path().join(".env"), utf16("KEY=hunter2")).unwrap();
    for option in ["env_file = \".env\"", "env = { KEY = \"${file:secret}\" }"] {
        let text = format!("[servers.a]\ncommand = \"a\"\n{option}\n");
        std::fs::write(folder.path().join("lockkeeper.toml"), text).unwrap();
        let problems = super::load_in(folder.path(), &CommandLineOptions::default(), &[]).unwrap_err().to_string();
        assert!(problems.contains("UTF-16") && !problems.contains("hunter2"), "{problems}");
    }
}
