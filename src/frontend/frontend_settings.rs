//! Settings of the client side.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    mcp::{ClientInfo, translate::Profile},
    model::{LimitsConfig, Serves},
    support::Live,
};

/// Settings of the client side. Most of them limit what clients can make the gateway hold.
#[derive(Debug, Clone)]
pub struct FrontendSettings {
    pub limits: Live<LimitsConfig>,
    /// Maximum number of client connections. The maximum number of listens follows from it.
    pub connections: usize,
    /// Names (`clientInfo.name`) of clients that get only members that their version defines.
    pub strict_clients: BTreeSet<String>,
    /// Eras of the clients that the gateway serves.
    pub serves: Serves,
    /// Maximum time that a session may exist without a request before `notifications/initialized`.
    pub handshake: Duration,
    /// Maximum number of open server requests in one session. Any more get `-32603`.
    pub questions_per_session: usize,
    /// Maximum number of messages that one stream keeps for resumption with `Last-Event-ID`.
    pub replay_messages: usize,
    /// Maximum size of these messages in bytes, for all streams of a session.
    pub replay_bytes: usize,
    /// Maximum number of streams that one session keeps for resumption. One more removes the oldest that has ended.
    pub replay_streams: usize,
    /// Time to keep a stream after its end.
    pub replay_for: Duration,
    /// Maximum number of standalone streams (GET) of one session. One more closes the oldest.
    pub streams_per_session: usize,
    /// Maximum number of messages that wait for a standalone stream. One more drops the oldest dispensable message; if
    /// a stream is open, it is too slow, and is closed.
    pub queue: usize,
    /// Maximum size in bytes of the unsolicited messages among them. One message always fits.
    pub queue_bytes: usize,
    /// Interval at which expired sessions are ended and `last_seen` is written.
    pub sweep_every: Duration,
}

// === impl FrontendSettings ===

impl FrontendSettings {
    /// Settings for a gateway with these limits, this maximum number of client connections, and these clients. The
    /// other settings cannot be configured.
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
