//! Transport of one configured server: its program, or its URL.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{dialect::Dialect, disclosure, env_file, header, keys, network, section::Section};
use crate::{
    model::{CallerText, Disclosure, HttpSpec, ServerUrl, StdioSpec, TransportSpec, config_key::key_rows},
    support::Secret,
};
use http::HeaderValue;

/// Launchers, whose arguments name the actual program.
pub(super) const LAUNCHERS: [&str; 12] =
    ["npx", "uvx", "uv", "node", "python", "python3", "bunx", "bun", "deno", "docker", "pnpm", "yarn"];

/// Why HTTP over a socket of the file system (VS Code, Goose) is refused, and what to do.
const HTTP_ON_SOCKET: (&str, &str) = (
    "HTTP over a Unix socket is not supported: messages on a socket are framed as on standard input and output",
    "let the server listen on a port of 127.0.0.1, and write its URL",
);

/// Transport named in an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransportKind {
    Stdio,
    Http,
    Sse,
    WebSocket,
}

/// The values of `type` and `transport`.
const KINDS: [(&str, TransportKind); 9] = [
    ("stdio", TransportKind::Stdio),
    ("http", TransportKind::Http),
    ("streamable-http", TransportKind::Http),
    ("streamableHttp", TransportKind::Http),
    ("streamable_http", TransportKind::Http),
    ("sse", TransportKind::Sse),
    ("http+sse", TransportKind::Sse),
    ("ws", TransportKind::WebSocket),
    ("websocket", TransportKind::WebSocket),
];

key_rows! {
    /// The keys of a program.
    pub(super) const COMMAND {
        /// The program to start, which speaks MCP on its standard input and output.
        command: Text("text"), None("\"npx\"");
        /// Its arguments. Only with `command`.
        args: Texts, Example("[]", "[\"-y\", \"@modelcontextprotocol/server-filesystem\", \"${HOME}\"]");
        /// Its variables, in addition to [those passed on](operations.md#what-a-program-sees). Only with `command`.
        env: TableOfTexts, Example("{}", "{ LOG_LEVEL = \"info\" }");
        /// A file with more of them, a line `NAME=value` each, as in `.env` files; nothing in it is expanded. `env`
        /// takes precedence. Only with `command`.
        env_file: Text("text"), None("\"files.env\"");
        /// Its working directory. Without it: the gateway's own. Only with `command`.
        cwd: Text("path"), None("\"/srv\"");
    }
}

key_rows! {
    /// The keys of a server at a URL.
    pub(super) const REMOTE {
        /// `http`, `https`: a Streamable HTTP or HTTP+SSE endpoint. `ws`, `wss`: a WebSocket. `unix:PATH`,
        /// `tcp://HOST:PORT`: a socket with one message in each line, as over stdio; without TLS.
        ///
        /// Without user and password.
        url: Text("URL"), None("\"https://docs.example.com/mcp\"");
        /// Headers of every request, such as `Authorization`. Headers that the gateway sets itself are refused. Only
        /// with an HTTP or WebSocket `url`.
        headers: TableOfTexts, Example("{}", "{ Authorization = \"Bearer ${DOCS_TOKEN}\" }");
    }
}

key_rows! {
    /// The key of the demonstration.
    pub(super) const BUILT_IN {
        /// The demonstration.
        builtin: Choice(&["demo"]), None("\"demo\"");
    }
}

key_rows! {
    /// The keys that only check the others.
    pub(super) const KIND {
        /// Rarely needed: checked against `command` or `url`. A server over HTTP+SSE is detected by itself (Streamable
        /// HTTP is tried first); `"sse"` tries nothing else.
        type: Choice(&keys::words(&KINDS)), None("\"http\"");
        /// Another word for `type`.
        transport: Choice(&keys::words(&KINDS)), None("");
    }
}

/// A transport, with its texts for the gateway itself.
pub(super) struct ReadTransport {
    pub(super) spec: TransportSpec,
    /// Facts about callers for its server.
    pub(super) disclosure: Disclosure,
}

/// Reads the transport of a server: exactly one of `command`, `url` and `builtin`. Relative paths start at `folder`.
pub(super) fn read(section: &mut Section<'_>, dialect: Dialect, folder: &Path) -> Option<ReadTransport> {
    let (kind, transport) = (section.choice("type", &KINDS), section.choice("transport", &KINDS));
    let kind = kind.or(transport);
    let (by_command, by_url, built_in) = (section.has("command"), section.has("url"), section.has("builtin"));
    let said = usize::from(by_command) + usize::from(by_url) + usize::from(built_in);
    let is_extension = said == 0 && dialect == Dialect::Shared && (section.has("source") || section.has("settings"));
    if is_extension {
        let advice = "write its `command` or `url`, or leave it out of a copy of the file";
        section.fault("an extension of Zed, which only Zed can start", Some(advice));
    } else if said != 1 {
        let what = if said == 0 { "the transport is missing" } else { "there is more than one transport" };
        section.fault(
            what,
            Some("set either `command` (a program to start) or `url` (of a server over HTTP, WebSocket or a socket)"),
        );
    }
    match kind {
        Some(TransportKind::Stdio) if by_url && !by_command => {
            section.fault("`stdio` needs a `command`, not a `url`", None);
        }
        Some(TransportKind::Http | TransportKind::Sse | TransportKind::WebSocket) if by_command && !by_url => {
            section.fault("this type needs a `url`, not a `command`", None);
        }
        _ => {}
    }
    let stdio = stdio(section, dialect, folder, by_command);
    let remote = remote(section, kind, dialect, folder);
    let demo = section.choice("builtin", &[("demo", ())]).map(|()| ReadTransport::told_nothing(TransportSpec::Demo));
    stdio.or(remote).or(demo)
}

fn stdio(section: &mut Section<'_>, dialect: Dialect, folder: &Path, chosen: bool) -> Option<ReadTransport> {
    if !chosen {
        let shared = (dialect == Dialect::Shared).then_some("envFile");
        for key in COMMAND.iter().map(|key| key.name).filter(|key| *key != "command").chain(shared) {
            section.refuse(key, "this needs a `command`", "remove it, or set a `command`");
        }
    }
    let command = section.parsed("command", |text| match text.split_once(' ') {
        _ if text.trim().is_empty() => Err("the program's name is empty".to_owned()),
        // a path may contain spaces
        Some((program, _)) if LAUNCHERS.contains(&program) => {
            Err(format!("this is a whole command line: write only `{program}`, and put the rest into `args`"))
        }
        _ => Ok(text.to_owned()),
    });
    let args = section.caller_texts("args").unwrap_or_default();
    let read = |file: &str| env_file::read(file, folder);
    let in_file = section.parsed("env_file", read);
    let in_file = if dialect == Dialect::Shared { in_file.or(section.parsed("envFile", read)) } else { in_file };
    let own = section.caller_secrets("env", |name, value| {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            Err("a variable name must not contain `=`, and neither name nor value a zero byte".to_owned())
        } else {
            Ok(())
        }
    });
    let env = in_file.unwrap_or_default().into_iter().chain(for_gateway(&own)).collect();
    let cwd = section.text("cwd").map(|path| folder.join(PathBuf::from(path)));
    let texts = args.iter().map(|argument| argument.for_gateway().expose().to_owned()).collect();
    let spec = TransportSpec::Stdio(StdioSpec { command: command?, args: texts, env, cwd });
    let args = args.into_iter().enumerate().filter(|(_, argument)| argument.is_of_caller()).collect();
    Some(ReadTransport { spec, disclosure: Disclosure { args, env: of_caller(own), ..Disclosure::default() } })
}

/// The texts for the gateway itself.
fn for_gateway(texts: &BTreeMap<String, CallerText>) -> BTreeMap<String, Secret> {
    texts.iter().map(|(name, text)| (name.clone(), text.for_gateway())).collect()
}

/// The texts that differ between callers.
fn of_caller(texts: BTreeMap<String, CallerText>) -> BTreeMap<String, CallerText> {
    texts.into_iter().filter(|(_, text)| text.is_of_caller()).collect()
}

/// A server at a URL, with its headers.
fn remote(
    section: &mut Section<'_>,
    kind: Option<TransportKind>,
    dialect: Dialect,
    folder: &Path,
) -> Option<ReadTransport> {
    let has_url = section.has("url");
    let url = section.parsed("url", ServerUrl::parse);
    if !has_url || matches!(url, Some(ServerUrl::Socket(_))) {
        section.refuse("headers", "this needs a `url` with http, https, ws or wss", "remove it, or set such a `url`");
        network::refuse(section);
        disclosure::refuse(section);
    }
    let network = network::read(section, folder);
    let headers = section.caller_secrets("headers", |name, value| {
        header::name(name)?;
        HeaderValue::try_from(value).map(drop).map_err(|_| "the value is not a valid header value".to_owned())
    });
    let identity = disclosure::identity(section, &headers, url.as_ref().and_then(ServerUrl::audience));
    if dialect == Dialect::Shared {
        section.refuse("socket", HTTP_ON_SOCKET.0, HTTP_ON_SOCKET.1);
    }
    let url = url?;
    let is_http = matches!(url, ServerUrl::Http(_));
    if kind == Some(TransportKind::Http) && matches!(url, ServerUrl::Socket(_)) {
        section.fault(HTTP_ON_SOCKET.0, Some(HTTP_ON_SOCKET.1));
    }
    if kind == Some(TransportKind::Sse) && !is_http {
        section.fault("`sse` needs a URL with http or https", None);
    }
    // entries of other programs use this name for HTTP+SSE
    let is_named_sse = kind.is_none() && dialect == Dialect::Shared && url.ends_in_sse();
    let fixed = for_gateway(&headers);
    let spec = match url.transport(folder) {
        TransportSpec::Http(http) if kind == Some(TransportKind::Sse) || is_named_sse => {
            TransportSpec::Sse(HttpSpec { headers: fixed, network, ..http })
        }
        TransportSpec::Http(http) => TransportSpec::Http(HttpSpec { headers: fixed, network, ..http }),
        TransportSpec::WebSocket(http) => TransportSpec::WebSocket(HttpSpec { headers: fixed, network, ..http }),
        other => other,
    };
    Some(ReadTransport {
        spec,
        disclosure: Disclosure { identity, headers: of_caller(headers), ..Disclosure::default() },
    })
}

// === impl ReadTransport ===

impl ReadTransport {
    /// A server that learns nothing about callers.
    fn told_nothing(spec: TransportSpec) -> Self {
        Self { spec, disclosure: Disclosure::default() }
    }
}
