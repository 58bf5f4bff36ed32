//! The bounds of the client side. Knows nothing of where they are configured.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    mcp::{ClientInfo, translate::Profile},
    model::Serves,
};

/// The bounds of everything that clients can make the gateway hold.
#[derive(Debug, Clone)]
pub struct FrontendSettings {
    /// A session without open stream, running call and request for this long is ended. 30 minutes.
    pub session_idle: Duration,
    /// A session without `notifications/initialized` is ended after this long without a request. 60 seconds.
    pub handshake: Duration,
    /// Sessions in all. 10,000.
    pub sessions: usize,
    /// Sessions of one caller. 100.
    pub sessions_per_caller: usize,
    /// Calls that run at once in one session; one more is answered `-32603`. 256.
    pub calls_per_session: usize,
    /// Requests of one user's clients without sessions (2026-07-28) that run at once, listens left aside; one more is
    /// answered `-32603`. 10,000.
    pub calls_per_user: usize,
    /// Open `subscriptions/listen` of one user; one more is answered `-32603`. Never more than half of
    /// [`FrontendSettings::listens`]. 10,000.
    pub listens_per_user: usize,
    /// Open `subscriptions/listen` of all users: each holds a connection. 20,000 unless configured.
    pub listens: usize,
    /// Requests of servers that wait at once in one session; one more is answered `-32603`. 64.
    pub questions_per_session: usize,
    /// The time that a request of a server waits for the client's answer; then the server gets an error, and the client's
    /// dialog is withdrawn. 10 minutes.
    pub question_timeout: Duration,
    /// Toward clients of 2025-11-25 alone: the stream of one call is closed after this long, and the client comes
    /// back for the rest (2025-11-25, transports, *Sending Messages*). `None`: it stays open.
    pub stream_lifetime: Option<Duration>,
    /// Messages of one stream that are kept for a client that comes back with `Last-Event-ID`. 256.
    pub replay_messages: usize,
    /// Bytes of the messages that are kept so, for one session. 4 MiB.
    pub replay_bytes: usize,
    /// Streams of one session whose messages are kept so. 32; one more drops the oldest that has ended.
    pub replay_streams: usize,
    /// The time that they are kept after the stream ended. 5 minutes.
    pub replay_for: Duration,
    /// Standalone streams (GET) of one session; one more closes the oldest. 8.
    pub streams_per_session: usize,
    /// Messages that wait for a standalone stream. 256. One more drops the oldest that can be spared; if a
    /// stream is open its reader is too slow, and the stream is closed.
    pub queue: usize,
    /// Messages in one batch (2025-03-26). 100.
    pub batch: usize,
    /// Bytes of one request body. 4 MiB unless configured.
    pub body: usize,
    /// The names (`clientInfo.name`) of clients that get no member which their version does not define. None.
    pub strict_clients: BTreeSet<String>,
    /// The eras whose clients are served. Both.
    pub serves: Serves,
    /// The interval at which idle sessions are ended and `last_seen` is written. 30 seconds.
    pub sweep_every: Duration,
}

// === impl FrontendSettings ===

impl FrontendSettings {
    /// The fate of members that the client's version does not define.
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
            question_timeout: Duration::from_mins(10),
            stream_lifetime: None,
            replay_messages: 256,
            replay_bytes: 4 * 1024 * 1024,
            replay_streams: 32,
            replay_for: Duration::from_mins(5),
            streams_per_session: 8,
            queue: 256,
            batch: 100,
            body: 4 * 1024 * 1024,
            strict_clients: BTreeSet::new(),
            serves: Serves::BothEras,
            sweep_every: Duration::from_secs(30),
        }
    }
}
