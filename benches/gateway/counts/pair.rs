//! The counted pairs, and the floors for comparison.

use std::fmt;

use crate::{floor::TOOL_PREFIX, peers::Era};

/// A client, a server, and the transport between the gateway and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) client: Era,
    pub(crate) transport: Transport,
    pub(crate) server: Era,
}

/// The transport between the gateway and a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Stdio,
    Http,
    /// HTTP, with the floor instead of the gateway.
    Floor,
    /// The same through the reading floor.
    ReadingFloor,
    /// Stdio, through the reading floor.
    StdioFloor,
}

// === impl Pair ===

impl Pair {
    /// The pairs whose names contain `part`, in counting order.
    pub(crate) fn named(part: &str) -> Vec<Self> {
        Self::all().filter(|pair| pair.to_string().contains(part)).collect()
    }

    fn all() -> impl Iterator<Item = Self> {
        let transports = [Transport::Stdio, Transport::Http].into_iter();
        let pairs = transports.flat_map(|transport| {
            [Era::Legacy, Era::Modern].into_iter().flat_map(move |client| {
                [Era::Legacy, Era::Modern].into_iter().map(move |server| Self { client, transport, server })
            })
        });
        let floors = [Transport::Floor, Transport::ReadingFloor, Transport::StdioFloor]
            .into_iter()
            .flat_map(|transport| [Era::Legacy, Era::Modern].map(|era| Self { client: era, transport, server: era }));
        pairs.chain(floors)
    }

    /// The pair with this name.
    pub(crate) fn exactly(name: &str) -> Option<Self> {
        Self::all().find(|pair| pair.to_string() == name)
    }

    /// True if the pair is counted over sockets: the count then includes the kernel's timing.
    pub(crate) fn is_over_sockets(self) -> bool {
        !matches!(self.transport, Transport::Stdio | Transport::StdioFloor)
    }

    /// True if it has no gateway.
    pub(crate) fn is_floor(self) -> bool {
        !matches!(self.transport, Transport::Stdio | Transport::Http)
    }

    /// The tool that is called.
    pub(crate) fn tool(self) -> String {
        match self.transport {
            Transport::Floor => "pass".to_owned(),
            Transport::ReadingFloor | Transport::StdioFloor => format!("{TOOL_PREFIX}pass"),
            Transport::Stdio | Transport::Http => format!("{}__pass", self.backend()),
        }
    }

    /// The backend's name in the gateway's configuration.
    fn backend(self) -> &'static str {
        match (self.transport, self.server) {
            (Transport::Stdio, Era::Legacy) => "stdio-legacy",
            (Transport::Stdio, Era::Modern) => "stdio-modern",
            (Transport::Http, Era::Legacy) => "http-legacy",
            (Transport::Http, Era::Modern) => "http-modern",
            (Transport::Floor, _) => "floor",
            (Transport::ReadingFloor, _) => "reading floor",
            (Transport::StdioFloor, _) => "stdio reading floor",
        }
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let client = match self.client {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        };
        write!(f, "{client} client, {}", self.backend())
    }
}
