//! Settings of the client side, mostly limits.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    mcp::{ClientInfo, translate::Profile},
    model::{LimitsConfig, Serves},
    support::Live,
};

/// Settings of the client side, mostly limits of what clients can make the gateway hold.
#[derive(Debug, Clone)]
pub struct FrontendSettings {
    pub limits: Live<LimitsConfig>,
    /// Maximum number of client connections, from which the number of listens derives.
    pub connections: usize,
    /// Names (`clientInfo.name`) of clients that get only members which their version defines.
    pub strict_clients: BTreeSet<String>,
    /// Eras of the clients that are served.
    pub serves: Serves,
    /// Maximum time of a session without request before `notifications/initialized`.
    pub handshake: Duration,
    /// Maximum number of open server requests in one session; a further one gets `-32603`.
    pub questions_per_session: usize,
    /// Maximum number of messages of one stream that are kept for resumption with `Last-Event-ID`.
    pub replay_messages: usize,
    /// Maximum size of these messages in bytes, for one session.
    pub replay_bytes: usize,
    /// Maximum number of streams of one session that are kept for resumption; a further one drops the oldest that has
    /// ended.
    pub replay_streams: usize,
    /// An ended stream is kept for this long.
    pub replay_for: Duration,
    /// Maximum number of standalone streams (GET) of one session; a further one closes the oldest.
    pub streams_per_session: usize,
    /// Maximum number of messages that wait for a standalone stream. A further one drops the oldest dispensable message;
    /// an open stream is then too slow, and is closed.
    pub queue: usize,
    /// Maximum size in bytes of the unsolicited ones among these messages. One message always fits.
    pub queue_bytes: usize,
    /// Interval for ending expired sessions and writing `last_seen`.
    pub sweep_every: Duration,
}

// === impl FrontendSettings ===

impl FrontendSettings {
    /// Settings of a gateway with these limits, this maximum number of client connections, and these clients. The others
    /// cannot be configured.
    pub fn new(
        limits: Live<LimitsConfig>,
        connections: usize,
        strict_clients: BTreeSet<String>,
        serves: Serves,
    ) -> Self {
        Self {
            limits,
            connections,
            strict_clients,
            serves,
            handshake: Duration::from_mins(1),
            questions_per_session: 64,
            replay_messages: 256,
            replay_bytes: 4 * 1024 * 1024,
            replay_streams: 32,
            replay_for: Duration::from_mins(5),
            streams_per_session: 8,
            queue: 256,
            queue_bytes: 4 * 1024 * 1024,
            sweep_every: Duration::from_secs(30),
        }
    }

    /// Settings with these limits, for tests.
    #[cfg(test)]
    pub(crate) fn with(limits: LimitsConfig) -> Self {
        Self::new(Live::new(limits), 1_000, BTreeSet::new(), Serves::BothEras)
    }

    /// Treatment of members that the client's version does not define.
    pub(crate) fn profile(&self, client: &ClientInfo) -> Profile {
        let strict = &self.strict_clients;
        let is_strict = !strict.is_empty() && client.name().is_some_and(|name| strict.contains(&name));
        if is_strict { Profile::Strict } else { Profile::Faithful }
    }
}
