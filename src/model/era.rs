//! In which manner a server is spoken to, and what tells one server from another. Knows nothing of how it is found out.

use super::{StdioSpec, TransportSpec};
use crate::support::{Digest, Timestamp};

/// Who keeps the state of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// An `initialize` handshake opens a session.
    Legacy,
    /// Every request stands alone.
    Modern,
}

/// What was found out about the era of a server (`translation` 2.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownEra {
    /// Which server: [`TransportSpec::server`].
    pub server: Digest,
    /// Of which era it was.
    pub era: Era,
    /// When that was found out.
    pub found: Timestamp,
}

// === impl TransportSpec ===

impl TransportSpec {
    /// What tells the server from others: the digest of where it is, or of all that is run. A backend that is configured
    /// otherwise is another server. `None` for the built-in one. Arguments, variables and queries can hold secrets, and so
    /// their text is not kept.
    pub fn server(&self) -> Option<Digest> {
        let parts = match self {
            Self::Stdio(StdioSpec { command, args, env, cwd }) => {
                let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
                serde_json::json!(["stdio", command, args, env, cwd.as_ref().map(|cwd| cwd.to_string_lossy())])
            }
            Self::Http(http) => {
                serde_json::json!(["http", http.url.origin().ascii_serialization(), http.url.path(), http.url.query()])
            }
            Self::Demo => return None,
        };
        Some(Digest::sha256(parts.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{model::HttpSpec, support::Secret};

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
