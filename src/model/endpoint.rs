//! The protected endpoints of the gateway and their paths.

use std::fmt;

use super::BackendId;

/// Client eras that the gateway serves (`translation` 2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serves {
    BothEras,
    ModernAlone,
}

/// Binding of an endpoint to a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Binding {
    /// Streamable HTTP at `/mcp`.
    Mcp,
    /// HTTP+SSE of 2024-11-05 at `/sse`.
    Sse,
    WebSocket,
    /// Standard input and output of this process. It has no path and needs no authorization.
    Stdio,
}

/// Backends behind an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// All backends, merged, with prefixed names.
    Merged,
    /// One backend with its own names, or the backends of the group with this name ([`super::Groups`]), merged.
    Backend(BackendId),
}

/// One protected endpoint: what RFC 9728 calls a protected resource. Displays as its path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// Binding.
    pub binding: Binding,
    pub target: Target,
}

impl Binding {
    /// True if the session is the connection and ends with it.
    pub const fn is_connection(self) -> bool {
        match self {
            Self::Mcp => false,
            Self::Sse | Self::WebSocket | Self::Stdio => true,
        }
    }
}

impl Endpoint {
    /// The merged endpoint `/mcp`.
    pub const MERGED: Self = Self { binding: Binding::Mcp, target: Target::Merged };

    /// Parses a path, with or without a trailing slash; `None` if no endpoint can have it.
    pub fn from_path(path: &str) -> Option<Self> {
        let path = path.strip_prefix('/')?;
        let path = path.strip_suffix('/').unwrap_or(path);
        let (binding, rest) = path.split_once('/').map_or((path, None), |(binding, rest)| (binding, Some(rest)));
        let binding = match binding {
            "mcp" => Binding::Mcp,
            "sse" => Binding::Sse,
            "ws" => Binding::WebSocket,
            _ => return None,
        };
        let target = match rest {
            None => Target::Merged,
            Some(name) => Target::Backend(BackendId::parse(name).ok()?),
        };
        Some(Self { binding, target })
    }

    /// The intended path, for a client that joins addresses wrongly; `None` if the path is well formed, or belongs to
    /// no endpoint. A base with a trailing slash gives `//sse`; clients that take the message address as relative to
    /// their stream post below it. A GET there opens the stream of the server with that name.
    pub fn intended_path(path: &str, is_get: bool) -> Option<String> {
        let is_doubled = path.as_bytes().windows(2).any(|pair| pair == b"//");
        let is_odd = is_doubled || path.ends_with('/') || path.ends_with("/messages");
        if !is_odd {
            return None;
        }
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let intended = match *segments {
            ["sse", "messages"] | ["sse", _, "messages"] if !is_get => "/messages".to_owned(),
            ["mcp" | "sse" | "messages" | "ws", ..] => format!("/{}", segments.join("/")),
            _ => return None,
        };
        (intended != path).then_some(intended)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binding = match self.binding {
            Binding::Mcp => "/mcp",
            Binding::Sse => "/sse",
            Binding::WebSocket => "/ws",
            Binding::Stdio => "stdio",
        };
        match &self.target {
            Target::Merged => f.write_str(binding),
            Target::Backend(backend) => write!(f, "{binding}/{backend}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_back_as_it_is_written() {
        for path in ["/mcp", "/sse", "/ws", "/mcp/git", "/sse/my-server", "/ws/git"] {
            assert_eq!(Endpoint::from_path(path).unwrap().to_string(), path);
        }
        assert_eq!(Endpoint::from_path("/mcp/"), Some(Endpoint::MERGED));
        for path in ["", "/", "/ws2", "/mcp/Git", "/mcp/a/b", "/mcp//"] {
            assert_eq!(Endpoint::from_path(path), None, "{path}");
        }
    }

    #[test]
    fn an_address_that_was_joined_wrongly_is_understood() {
        for (path, intended) in [
            ("//sse", "/sse"),
            ("//sse//git/", "/sse/git"),
            ("//messages", "/messages"),
            ("/messages/", "/messages"),
            ("/sse/messages", "/messages"),
            ("/sse//messages", "/messages"),
            ("/sse/git/messages", "/messages"),
            ("/mcp/", "/mcp"),
        ] {
            assert_eq!(Endpoint::intended_path(path, false).as_deref(), Some(intended), "{path}");
        }
        // a server may have this name
        assert_eq!(Endpoint::intended_path("/sse/messages", true), None);
        for path in ["/", "//", "/mcp", "/messages", "//healthz", "/oauth/", "/a/messages", "/mcp/messages", "/ssex/"] {
            assert_eq!(Endpoint::intended_path(path, false), None, "{path}");
        }
    }
}
