//! Limits and timeouts of connections.

use std::time::Duration;

use ipnet::IpNet;

use crate::{model::LimitsConfig, support::Live};

#[derive(Debug, Clone)]
pub struct ListenerSettings {
    /// Maximum number of connections.
    pub connections: usize,
    /// The configured limits on connections of one address (loopback and the proxies are exempt), and on each step.
    pub limits: Live<LimitsConfig>,
    /// Proxies whose connections carry the requests of many clients.
    pub proxies: Vec<IpNet>,
}

/// Timeouts of the steps of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Time from the first byte of a request to the end of its head. For the first request, it starts with the
    /// connection.
    pub head: Duration,
    /// Time in which the first byte of an awaited body must come. In each further period of this length, 1 KiB for each
    /// second must come.
    pub body: Duration,
    /// Time from a response to the first byte of the next request.
    pub idle: Duration,
}

impl Timeouts {
    /// Timeouts of a connection that begins under these limits.
    pub(super) const fn of(limits: &LimitsConfig) -> Self {
        Self { head: limits.head_timeout, body: limits.body_timeout, idle: limits.keep_alive }
    }
}
