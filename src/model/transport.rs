//! Transports toward servers: configuration and abilities. Code above a transport asks for abilities, never for the
//! transport.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use url::{Origin, Url};

use super::{Bearer, IdentityToken, NetworkSpec};
use crate::support::{Digest, Secret};

/// Transport of a backend, with its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportSpec {
    /// A child process, over its standard input and output.
    Stdio(StdioSpec),
    /// A server at a URL, over Streamable HTTP; over HTTP+SSE if it refuses that.
    Http(HttpSpec),
    /// A server over HTTP+SSE (2024-11-05).
    Sse(HttpSpec),
    /// A WebSocket endpoint, `ws` or `wss`.
    WebSocket(HttpSpec),
    /// A byte stream with one message in each line, as over stdio.
    Socket(SocketAddress),
    /// The built-in demonstration backend.
    Demo,
}

/// Address of a byte stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketAddress {
    /// Path of a Unix domain socket.
    Unix(PathBuf),
    /// A TCP socket, without TLS.
    Tcp {
        /// Host name or IP address, IPv6 in brackets.
        host: String,
        port: u16,
    },
}

/// A child process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StdioSpec {
    /// Program; looked up in `PATH` if it has no slash.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables in addition to the allow list.
    pub env: BTreeMap<String, Secret>,
    /// Working directory; the gateway's own if absent.
    pub cwd: Option<PathBuf>,
}

/// A server at a URL: Streamable HTTP, HTTP+SSE or WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSpec {
    /// Its URL.
    pub url: Url,
    /// Headers sent with every request, such as `Authorization`.
    pub headers: BTreeMap<String, Secret>,
    /// Token of a login, sent as `Authorization`; `None` if there are only the headers.
    pub bearer: Option<Bearer>,
    /// The signed statement about the caller, sent with every request; `None` if the server gets none.
    pub identity: Option<IdentityToken>,
    /// Settings of its connections; `None`: the settings for all servers.
    pub network: Option<Arc<NetworkSpec>>,
}

// === impl HttpSpec ===

impl HttpSpec {
    /// A server without credentials.
    pub const fn new(url: Url) -> Self {
        Self { url, headers: BTreeMap::new(), bearer: None, identity: None, network: None }
    }
}

/// Abilities of a transport, and the resources of its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportAbilities {
    /// Path of responses.
    pub delivery: Delivery,
    /// Handling of header parameters (`x-mcp-header`).
    pub header_params: HeaderParams,
    /// File descriptors that it uses.
    pub descriptors: Descriptors,
}

/// Path of a server's responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// One channel for the whole connection, shared with everything else from the server. The server knows the
    /// connection and may keep state for it.
    Channel,
    /// One exchange for each request. Several machines may answer, and the server may be replaced unnoticed.
    Exchange,
}

/// Handling of parameters that a tool annotates with `x-mcp-header` (2026-07-28, transports).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderParams {
    /// Repeated in `Mcp-Param-*` headers.
    Mirrored,
    /// Not repeated: the transport has no headers.
    Ignored,
}

/// File descriptors that a transport uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Descriptors {
    None,
    /// Some for each connection, for its lifetime.
    PerConnection,
    /// One for each running request.
    PerRequest,
}

// === impl TransportSpec ===

impl TransportSpec {
    /// The server at a URL with `http` or `https`, if it is one.
    pub const fn http(&self) -> Option<&HttpSpec> {
        match self {
            Self::Http(http) | Self::Sse(http) => Some(http),
            Self::Stdio(_) | Self::WebSocket(_) | Self::Socket(_) | Self::Demo => None,
        }
    }

    /// The origin of the web addresses at the server's own URL; for a WebSocket, the origin of its handshake.
    pub fn origin(&self) -> Option<Origin> {
        let (Self::Http(HttpSpec { url, .. })
        | Self::Sse(HttpSpec { url, .. })
        | Self::WebSocket(HttpSpec { url, .. })) = self
        else {
            return None;
        };
        let mut url = url.clone();
        let scheme = match url.scheme() {
            "ws" => Some("http"),
            "wss" => Some("https"),
            _ => None,
        };
        if let Some(scheme) = scheme {
            url.set_scheme(scheme).ok()?;
        }
        Some(url.origin())
    }

    /// The same server with this token.
    #[must_use]
    pub fn with_bearer(mut self, bearer: Bearer) -> Self {
        if let Self::Http(http) | Self::Sse(http) = &mut self {
            http.bearer = Some(bearer);
        }
        self
    }

    /// Settings of the connections, if this server has its own.
    pub fn network(&self) -> Option<&NetworkSpec> {
        match self {
            Self::Http(http) | Self::Sse(http) | Self::WebSocket(http) => http.network.as_deref(),
            Self::Stdio(_) | Self::Socket(_) | Self::Demo => None,
        }
    }

    /// The transport's name in configuration, status and logs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(_) => "streamable-http",
            Self::Sse(_) => "http+sse",
            Self::WebSocket(_) => "websocket",
            Self::Socket(SocketAddress::Unix(_)) => "unix",
            Self::Socket(SocketAddress::Tcp { .. }) => "tcp",
            Self::Demo => "built-in",
        }
    }

    /// Identity of the server: the digest of its address, or of the command with its environment. A changed
    /// configuration is a different server. `None` for the built-in backend. Arguments, variables and queries may hold
    /// secrets, so only the digest is kept.
    pub fn server(&self) -> Option<Digest> {
        let parts = match self {
            Self::Stdio(StdioSpec { command, args, env, cwd }) => {
                let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
                serde_json::json!(["stdio", command, args, env, cwd.as_ref().map(|cwd| cwd.to_string_lossy())])
            }
            // the scheme distinguishes HTTP from WebSocket; HTTP+SSE is the same server
            Self::Http(http) | Self::Sse(http) | Self::WebSocket(http) => {
                serde_json::json!(["http", http.url.origin().ascii_serialization(), http.url.path(), http.url.query()])
            }
            Self::Socket(SocketAddress::Unix(path)) => serde_json::json!(["unix", path.to_string_lossy()]),
            Self::Socket(SocketAddress::Tcp { host, port }) => serde_json::json!(["tcp", host, port]),
            Self::Demo => return None,
        };
        Some(Digest::sha256(parts.to_string()))
    }

    /// True if each connection starts a process.
    pub const fn starts_process(&self) -> bool {
        matches!(self, Self::Stdio(_))
    }

    /// True if its servers can only have sessions: it is older than 2026-07-28.
    pub const fn has_sessions_alone(&self) -> bool {
        matches!(self, Self::Sse(_))
    }

    /// Abilities of this transport.
    pub const fn abilities(&self) -> TransportAbilities {
        match self {
            Self::Stdio(_) | Self::Sse(_) | Self::WebSocket(_) | Self::Socket(_) => TransportAbilities {
                delivery: Delivery::Channel,
                header_params: HeaderParams::Ignored,
                descriptors: Descriptors::PerConnection,
            },
            Self::Http(_) => TransportAbilities {
                delivery: Delivery::Exchange,
                header_params: HeaderParams::Mirrored,
                descriptors: Descriptors::PerRequest,
            },
            Self::Demo => TransportAbilities {
                delivery: Delivery::Exchange,
                header_params: HeaderParams::Ignored,
                descriptors: Descriptors::None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stdio(change: impl FnOnce(&mut StdioSpec)) -> Option<Digest> {
        let args = vec!["a".to_owned(), "b".to_owned()];
        let mut spec = StdioSpec { command: "run".to_owned(), args, env: BTreeMap::new(), cwd: None };
        change(&mut spec);
        TransportSpec::Stdio(spec).server()
    }

    fn http(url: &str, token: &str) -> Option<Digest> {
        let headers = BTreeMap::from([("authorization".to_owned(), Secret::new(token))]);
        TransportSpec::Http(HttpSpec { headers, ..HttpSpec::new(url.parse().unwrap()) }).server()
    }

    #[test]
    fn a_program_with_any_changed_option_is_another_server() {
        let servers = [
            stdio(|_| {}),
            stdio(|spec| spec.command = "walk".to_owned()),
            stdio(|spec| spec.args = vec!["a b".to_owned()]),
            stdio(|spec| drop(spec.args.pop())),
            stdio(|spec| spec.cwd = Some("/srv".into())),
            stdio(|spec| drop(spec.env.insert("KEY".to_owned(), Secret::new("x")))),
        ];
        assert_eq!(servers[0], stdio(|_| {}));
        for (index, server) in servers.iter().enumerate() {
            assert!(!servers[..index].contains(server), "{index}");
        }
    }

    #[test]
    fn a_remote_server_is_identified_by_its_url_without_credentials() {
        let server = http("https://mcp.example.com/a", "one");
        assert_eq!(server, http("https://user:word@MCP.example.com:443/a#part", "two"));
        for other in ["http://mcp.example.com/a", "https://mcp.example.com/a/", "https://mcp.example.com/a?to=b"] {
            assert_ne!(server, http(other, "one"), "{other}");
        }
        assert_eq!(TransportSpec::Demo.server(), None);
    }
}
