//! Settings of the client side, mostly limits. Knows nothing of the configuration.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    mcp::{ClientInfo, translate::Profile},
    model::Serves,
};

/// Settings of the client side, mostly limits of what clients can make the gateway hold.
#[derive(Debug, Clone)]
pub struct FrontendSettings {
    /// Maximum time of a session without open stream, running call and request. 30 minutes.
    pub session_idle: Duration,
    /// Maximum time of a session without request before `notifications/initialized`. 60 seconds.
    pub handshake: Duration,
    /// Maximum number of sessions. 10,000.
    pub sessions: usize,
    /// Maximum number of sessions of one caller. 100.
    pub sessions_per_caller: usize,
    /// Maximum number of concurrent calls in one session; a further one gets `-32603`. 256.
    pub calls_per_session: usize,
    /// Maximum number of concurrent requests of one user's clients without sessions (2026-07-28), without listens; a
    /// further one gets `-32603`. 10,000.
    pub calls_per_user: usize,
    /// Maximum number of open `subscriptions/listen` of one user; a further one gets `-32603`. At most half of
    /// [`FrontendSettings::listens`]. 10,000.
    pub listens_per_user: usize,
    /// Maximum number of open `subscriptions/listen` of all users: each holds a connection. 20,000 unless configured.
    pub listens: usize,
    /// Maximum number of open server requests in one session; a further one gets `-32603`. 64.
    pub questions_per_session: usize,
    /// Time for the client to answer a server request; then the server gets an error, and the client's dialog is
    /// withdrawn. 10 minutes.
    pub server_request_timeout: Duration,
    /// Only for clients of 2025-11-25: lifetime of the stream of one call; the client reconnects for the rest
    /// (2025-11-25, transports, *Sending Messages*). `None`: unlimited.
    pub stream_lifetime: Option<Duration>,
    /// Maximum number of messages of one stream that are kept for resumption with `Last-Event-ID`. 256.
    pub replay_messages: usize,
    /// Maximum size of these messages in bytes, for one session. 4 MiB.
    pub replay_bytes: usize,
    /// Maximum number of streams of one session that are kept for resumption. 32; a further one drops the oldest that
    /// has ended.
    pub replay_streams: usize,
    /// Time for which an ended stream is kept. 5 minutes.
    pub replay_for: Duration,
    /// Maximum number of standalone streams (GET) of one session; a further one closes the oldest. 8.
    pub streams_per_session: usize,
    /// Maximum number of messages that wait for a standalone stream. 256. A further one drops the oldest dispensable
    /// message; an open stream is then too slow, and is closed.
    pub queue: usize,
    /// Maximum size of these messages in bytes. 64 MiB.
    pub queue_bytes: usize,
    /// Maximum number of messages in a batch (2025-03-26). 100.
    pub batch: usize,
    /// Maximum size of a request body in bytes. 4 MiB unless configured.
    pub body: usize,
    /// Silence in a message on a WebSocket before the connection is closed; after the first such time at least 1 KiB must
    /// come for each second, as in a request body. 30 seconds unless configured.
    pub body_timeout: Duration,
    /// Names (`clientInfo.name`) of clients that get only members which their version defines. None.
    pub strict_clients: BTreeSet<String>,
    /// Eras of the clients that are served. Both.
    pub serves: Serves,
    /// Interval at which expired sessions are ended and `last_seen` is written. 30 seconds.
    pub sweep_every: Duration,
}

// === impl FrontendSettings ===

impl FrontendSettings {
    /// Treatment of members that the client's version does not define.
    pub(crate) fn profile(&self, client: &ClientInfo) -> Profile {
        let strict = &self.strict_clients;
        let is_strict = !strict.is_empty() && client.name().is_some_and(|name| strict.contains(&name));
        if is_strict { Profile::Strict } else { Profile::Faithful }
    }
}

impl Default for FrontendSettings {
    fn default() -> Self {
        Self {
            session_idle: Duration::from_mins(30),
            handshake: Duration::from_mins(1),
            sessions: 10_000,
            sessions_per_caller: 100,
            calls_per_session: 256,
            calls_per_user: 10_000,
            listens_per_user: 10_000,
            listens: 20_000,
            questions_per_session: 64,
            server_request_timeout: Duration::from_mins(10),
            stream_lifetime: None,
            replay_messages: 256,
            replay_bytes: 4 * 1024 * 1024,
            replay_streams: 32,
            replay_for: Duration::from_mins(5),
            streams_per_session: 8,
            queue: 256,
            queue_bytes: 64 * 1024 * 1024,
            batch: 100,
            body: 4 * 1024 * 1024,
            body_timeout: Duration::from_secs(30),
            strict_clients: BTreeSet::new(),
            serves: Serves::BothEras,
            sweep_every: Duration::from_secs(30),
        }
    }
}
