//! Bounds and timeouts of connections. Knows nothing of sockets.

use std::time::Duration;

use ipnet::IpNet;

use crate::{model::LimitsConfig, support::Live};

/// The bounds of connections.
#[derive(Debug, Clone)]
pub struct ListenerSettings {
    /// Connections in all.
    pub connections: usize,
    /// The configured limits: of connections of one address (loopback and the proxies are exempt), and of each step.
    pub limits: Live<LimitsConfig>,
    /// The proxies whose connections carry the requests of many clients.
    pub proxies: Vec<IpNet>,
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

impl Timeouts {
    /// Those of a connection that begins under these limits.
    pub(super) const fn of(limits: &LimitsConfig) -> Self {
        Self { head: limits.head_timeout, body: limits.body_timeout, idle: limits.keep_alive }
    }
}
