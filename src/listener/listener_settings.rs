//! Bounds and timeouts of connections. Knows nothing of sockets.

use std::time::Duration;

use ipnet::IpNet;

/// The bounds of connections.
#[derive(Debug, Clone)]
pub struct ListenerSettings {
    /// Connections in all.
    pub connections: usize,
    /// Connections of one address. Loopback and the proxies are exempt.
    pub connections_per_address: usize,
    /// The proxies whose connections carry the requests of many clients.
    pub proxies: Vec<IpNet>,
    /// Timeouts of each step.
    pub timeouts: Timeouts,
}

/// Timeouts of the steps of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// From the first byte of a request (of the first one: from the connection) to the end of its head.
    pub head: Duration,
    /// Silence in a body that is waited for; also the period in which further bytes must come at 1 KiB/s.
    pub body: Duration,
    /// From a response to the first byte of the next request.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { head: Duration::from_secs(30), body: Duration::from_secs(30), idle: Duration::from_mins(5) }
    }
}
