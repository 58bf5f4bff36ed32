//! Transport of one configured server: its program, or its URL. Knows nothing of connections.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use http::HeaderValue;
use url::Url;

use super::{dialect::Dialect, disclosure, env_file, header, network, section::Section};
use crate::{
    model::{CallerText, Disclosure, HttpSpec, SocketAddress, StdioSpec, TransportSpec},
    support::Secret,
};

/// Launchers: their arguments name the program that runs.
pub(super) const LAUNCHERS: [&str; 12] =
    ["npx", "uvx", "uv", "node", "python", "python3", "bunx", "bun", "deno", "docker", "pnpm", "yarn"];

/// Why HTTP over a socket of the file system (VS Code, Goose) is refused, and what to do.
const HTTP_ON_SOCKET: (&str, &str) = (
    "HTTP over a Unix socket is not supported: messages on a socket are framed as on standard input and output",
    "let the server listen on a port of 127.0.0.1, and write its URL",
);

/// Transport that an entry names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransportKind {
    Stdio,
    Http,
    Sse,
    WebSocket,
}

/// URL of a server; its scheme selects the transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ServerUrl {
    /// `http` or `https`.
    Http(Url),
    /// `ws` or `wss`.
    WebSocket(Url),
    /// `unix:PATH` or `tcp://HOST:PORT`.
    Socket(SocketAddress),
}

/// A transport, with its texts for the gateway itself.
pub(super) struct ReadTransport {
    /// The transport.
    pub(super) spec: TransportSpec,
    /// What its server is told of callers.
    pub(super) disclosure: Disclosure,
}

/// Reads the transport of a server: exactly one of `command`, `url` and `builtin`. Relative paths are relative to
/// `folder`.
pub(super) fn read(section: &mut Section<'_>, dialect: Dialect, folder: &Path) -> Option<ReadTransport> {
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
    let (kind, transport) = (section.choice("type", &KINDS), section.choice("transport", &KINDS));
    let kind = kind.or(transport);
    let (by_command, by_url, built_in) = (section.has("command"), section.has("url"), section.has("builtin"));
    let said = usize::from(by_command) + usize::from(by_url) + usize::from(built_in);
    let is_extension = said == 0 && dialect == Dialect::Shared && (section.has("source") || section.has("settings"));
    if is_extension {
        let advice = "write its `command` or `url`, or leave it out of a copy of the file";
        section.fault("an extension of Zed, which Zed alone can start", Some(advice));
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
    let stdio = stdio(section, (dialect, folder), by_command);
    let remote = remote(section, (kind, dialect), folder);
    let demo = section.choice("builtin", &[("demo", ())]).map(|()| ReadTransport::told_nothing(TransportSpec::Demo));
    stdio.or(remote).or(demo)
}

fn stdio(section: &mut Section<'_>, (dialect, folder): (Dialect, &Path), chosen: bool) -> Option<ReadTransport> {
    if !chosen {
        let shared = (dialect == Dialect::Shared).then_some("envFile");
        for key in ["args", "env", "env_file", "cwd"].into_iter().chain(shared) {
            section.refuse(key, "this needs a `command`", "remove it, or set a `command`");
        }
    }
    let command = section.parsed("command", |text| match text.split_once(' ') {
        _ if text.trim().is_empty() => Err("the program's name is empty".to_owned()),
        // a path may have spaces
        Some((program, _)) if LAUNCHERS.contains(&program) => {
            Err(format!("this is a whole command line: write `{program}` alone, and put the rest into `args`"))
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
    (kind, dialect): (Option<TransportKind>, Dialect),
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
    // entries of other programs name HTTP+SSE so
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
    /// A server that is told nothing.
    fn told_nothing(spec: TransportSpec) -> Self {
        Self { spec, disclosure: Disclosure::default() }
    }
}

// === impl ServerUrl ===

impl ServerUrl {
    /// Parses a URL. Messages never quote it, since it may hold keys.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            // `unix:///path` is `unix:/path`
            let path = path.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(path);
            if path.is_empty() || path.contains('\0') {
                return Err("`unix:` must be followed by the path of a socket".to_owned());
            }
            return Ok(Self::Socket(SocketAddress::Unix(path.into())));
        }
        let url = Url::parse(text).map_err(|error| format!("this is not a URL: {error}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("put user and password into `headers`, as `Authorization`".to_owned());
        }
        match (url.scheme(), url.host_str(), url.port()) {
            ("http" | "https", ..) => Ok(Self::Http(url)),
            ("ws" | "wss", ..) => Ok(Self::WebSocket(url)),
            ("tcp", Some(host), Some(port)) if !host.is_empty() && matches!(url.path(), "" | "/") => {
                Ok(Self::Socket(SocketAddress::Tcp { host: host.to_owned(), port }))
            }
            ("tcp", ..) => Err("`tcp` must have the form `tcp://HOST:PORT`".to_owned()),
            _ => Err("this must be a URL with http, https, ws, wss, tcp or unix".to_owned()),
        }
    }

    /// The host; `None` for the path of a socket.
    pub(super) fn host(&self) -> Option<&str> {
        match self {
            Self::Http(url) | Self::WebSocket(url) => url.host_str(),
            Self::Socket(SocketAddress::Tcp { host, .. }) => Some(host),
            Self::Socket(SocketAddress::Unix(_)) => None,
        }
    }

    /// The transport, without headers.
    pub(super) fn transport(self, folder: &Path) -> TransportSpec {
        match self {
            Self::Http(url) => TransportSpec::Http(HttpSpec::new(url)),
            Self::WebSocket(url) => TransportSpec::WebSocket(HttpSpec::new(url)),
            Self::Socket(SocketAddress::Unix(path)) => TransportSpec::Socket(SocketAddress::Unix(folder.join(path))),
            Self::Socket(tcp) => TransportSpec::Socket(tcp),
        }
    }

    /// The URL without its query, as the audience of tokens for the server; `None` for a socket.
    pub(super) fn audience(&self) -> Option<String> {
        let (Self::Http(url) | Self::WebSocket(url)) = self else { return None };
        let mut audience = url.clone();
        audience.set_query(None);
        audience.set_fragment(None);
        Some(audience.into())
    }

    /// True if it is an HTTP URL whose path ends in `/sse`.
    fn ends_in_sse(&self) -> bool {
        matches!(self, Self::Http(url) if url.path().trim_end_matches('/').ends_with("/sse"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transport(url: &str) -> Result<TransportSpec, String> {
        ServerUrl::parse(url).map(|url| url.transport(Path::new("/etc/lockkeeper")))
    }

    #[test]
    fn the_scheme_of_a_url_selects_the_transport() {
        let name = |url: &str| transport(url).map(|transport| transport.name());
        let cases = [
            ("https://a.test/mcp", "streamable-http"),
            ("https://a.test/sse", "streamable-http"),
            ("wss://a.test/", "websocket"),
            ("tcp://a.test:7000", "tcp"),
            ("tcp://[::1]:7000", "tcp"),
            ("unix:/run/a.sock", "unix"),
        ];
        for (url, expected) in cases {
            assert_eq!(name(url), Ok(expected), "{url}");
        }
        for wrong in
            ["a", "unix:", "tcp://a.test", "tcp://:7000", "tcp://a.test:7000/x", "https://u:p@a.test/", "ftp://a/"]
        {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_path_of_a_socket_is_relative_to_the_file() {
        let path = |url: &str| match transport(url) {
            Ok(TransportSpec::Socket(SocketAddress::Unix(path))) => path,
            other => panic!("{other:?}"),
        };
        assert_eq!(path("unix:mcp.sock"), Path::new("/etc/lockkeeper/mcp.sock"));
        assert_eq!(path("unix:/run/mcp.sock"), Path::new("/run/mcp.sock"));
        assert_eq!(path("unix:///run/mcp.sock"), Path::new("/run/mcp.sock"));
    }
}
