//! The protected endpoints of the gateway and their paths. Knows nothing of the gateway's own address.

use std::fmt;

use super::BackendId;

/// The clients of which eras are served (`translation` 2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serves {
    /// Those with sessions and those without.
    BothEras,
    /// Those without sessions alone (2026-07-28).
    ModernAlone,
}

/// By which binding an endpoint is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Binding {
    /// Streamable HTTP at `/mcp`.
    Mcp,
    /// HTTP+SSE of 2024-11-05 at `/sse`.
    Sse,
    /// WebSocket at `/ws`.
    WebSocket,
}

/// What an endpoint leads to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// All backends, merged, with prefixed names.
    Merged,
    /// One backend, with its own names.
    Backend(BackendId),
}

/// One protected endpoint: what RFC 9728 calls a protected resource. Displays as its path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// How it is spoken to.
    pub binding: Binding,
    /// What it leads to.
    pub target: Target,
}

impl Binding {
    /// Whether a session is its connection, and ends with it.
    pub const fn is_connection(self) -> bool {
        match self {
            Self::Mcp => false,
            Self::Sse | Self::WebSocket => true,
        }
    }
}

impl Endpoint {
    /// The merged endpoint `/mcp`.
    pub const MERGED: Self = Self { binding: Binding::Mcp, target: Target::Merged };

    /// The endpoint at this path, a trailing slash tolerated; `None` where there cannot be one.
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
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binding = match self.binding {
            Binding::Mcp => "/mcp",
            Binding::Sse => "/sse",
            Binding::WebSocket => "/ws",
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
}
