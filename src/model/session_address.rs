//! The address where a client opened its session, and the transport it uses there.

use std::fmt;

use super::{Binding, Endpoint};

/// Endpoint and transport of a session. Displays as the path, followed by the transport (`/mcp#sse`) if it is not the
/// usual one of the path: clients of one may get the address of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionAddress {
    /// The endpoint, for credentials.
    pub endpoint: Endpoint,
    pub binding: Binding,
}

// === impl SessionAddress ===

impl SessionAddress {
    /// The endpoint with the usual transport of its path.
    pub const fn own(endpoint: Endpoint) -> Self {
        Self { binding: endpoint.binding, endpoint }
    }

    /// Reads the output of [`fmt::Display`].
    pub fn parse(text: &str) -> Option<Self> {
        let (path, binding) = match text.split_once('#') {
            None => return Some(Self::own(Endpoint::from_path(text)?)),
            Some((path, "mcp")) => (path, Binding::Mcp),
            Some((path, "sse")) => (path, Binding::Sse),
            Some(_) => return None,
        };
        Some(Self { endpoint: Endpoint::from_path(path)?, binding })
    }

    /// True for this transport at this endpoint.
    pub fn is(&self, endpoint: &Endpoint, binding: Binding) -> bool {
        self.binding == binding && self.endpoint == *endpoint
    }
}

impl fmt::Display for SessionAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.endpoint)?;
        match self.binding {
            own if own == self.endpoint.binding => Ok(()),
            Binding::Mcp => f.write_str("#mcp"),
            Binding::Sse => f.write_str("#sse"),
            // only used at their own addresses
            Binding::WebSocket | Binding::Stdio => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_back_as_it_is_written() {
        for text in ["/mcp", "/sse/git", "/ws", "/mcp#sse", "/mcp/git#sse", "/sse#mcp"] {
            let address = SessionAddress::parse(text).unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(address.binding == address.endpoint.binding, !text.contains('#'));
        }
        for text in ["", "/mcp#", "/mcp#ws", "/x#sse", "/mcp#sse#mcp"] {
            assert_eq!(SessionAddress::parse(text), None, "{text}");
        }
    }
}
