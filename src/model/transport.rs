//! Transports toward servers: how each is configured, and what it can do. What runs over a transport asks for its abilities,
//! and never which transport it is.

use std::{collections::BTreeMap, path::PathBuf};

use url::Url;

use crate::support::{Digest, Secret};

/// How a backend is reached.
#[derive(Debug, Clone)]
pub enum TransportSpec {
    /// A child process that speaks on its standard input and output.
    Stdio(StdioSpec),
    /// A Streamable HTTP endpoint.
    Http(HttpSpec),
    /// A WebSocket endpoint, `ws` or `wss`.
    WebSocket(HttpSpec),
    /// The built-in demonstration backend.
    Demo,
}

/// A child process.
#[derive(Debug, Clone)]
pub struct StdioSpec {
    /// The program, looked up in `PATH` where it has no slash.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables set beside the allow list.
    pub env: BTreeMap<String, Secret>,
    /// Its working directory; the gateway's own where absent.
    pub cwd: Option<PathBuf>,
}

/// A Streamable HTTP endpoint.
#[derive(Debug, Clone)]
pub struct HttpSpec {
    /// Its URL.
    pub url: Url,
    /// Headers sent with every request, such as `Authorization`.
    pub headers: BTreeMap<String, Secret>,
}

/// What a transport toward servers can do, and what its connections take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportAbilities {
    /// Where answers arrive.
    pub delivery: Delivery,
    /// Where header parameters (`x-mcp-header`) are repeated.
    pub header_params: HeaderParams,
    /// File descriptors that it takes.
    pub descriptors: Descriptors,
}

/// Where the answers of a server arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// On the one channel of the connection, between everything else that the server sends. The server knows the connection,
    /// and may keep state for it.
    Channel,
    /// Each on an exchange of its own. Several machines may answer, and the server may be replaced unseen.
    Exchange,
}

/// Where the parameters that a tool annotates with `x-mcp-header` are repeated (2026-07-28, transports).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderParams {
    /// In `Mcp-Param-*` headers.
    Mirrored,
    /// Nowhere: the transport has no headers.
    Ignored,
}

/// File descriptors that a transport takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Descriptors {
    /// None.
    None,
    /// Some for each connection, for as long as it lasts.
    PerConnection,
    /// One for each request that runs.
    PerRequest,
}

// === impl TransportSpec ===

impl TransportSpec {
    /// The transport's name in configuration, status and logs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(_) => "streamable-http",
            Self::WebSocket(_) => "websocket",
            Self::Demo => "built-in",
        }
    }

    /// What tells the server from others: the digest of where it is, or of all that is run. A backend that is configured
    /// otherwise is another server. `None` for the built-in one. Arguments, variables and queries can hold secrets, and so
    /// their text is not kept.
    pub fn server(&self) -> Option<Digest> {
        let parts = match self {
            Self::Stdio(StdioSpec { command, args, env, cwd }) => {
                let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
                serde_json::json!(["stdio", command, args, env, cwd.as_ref().map(|cwd| cwd.to_string_lossy())])
            }
            // the scheme tells the two apart
            Self::Http(http) | Self::WebSocket(http) => {
                serde_json::json!(["http", http.url.origin().ascii_serialization(), http.url.path(), http.url.query()])
            }
            Self::Demo => return None,
        };
        Some(Digest::sha256(parts.to_string()))
    }

    /// Abilities of this transport.
    pub const fn abilities(&self) -> TransportAbilities {
        match self {
            Self::Stdio(_) | Self::WebSocket(_) => TransportAbilities {
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
        TransportSpec::Http(HttpSpec { url: url.parse().unwrap(), headers }).server()
    }

    #[test]
    fn a_program_is_another_server_where_anything_of_it_is_configured_otherwise() {
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
    fn a_server_on_the_network_is_known_by_its_place_and_not_by_who_asks() {
        let server = http("https://mcp.example.com/a", "one");
        assert_eq!(server, http("https://user:word@MCP.example.com:443/a#part", "two"));
        for other in ["http://mcp.example.com/a", "https://mcp.example.com/a/", "https://mcp.example.com/a?to=b"] {
            assert_ne!(server, http(other, "one"), "{other}");
        }
        assert_eq!(TransportSpec::Demo.server(), None);
    }
}
