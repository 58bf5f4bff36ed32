//! What the operator says of one backend. Knows nothing of files and of running processes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{BackendId, Delivery, TransportSpec};

/// Who shares one session of a backend (`design`: isolation between people).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// A backend session for each client session.
    Session,
    /// A backend session for each user.
    User,
    /// One backend session for everybody.
    All,
}

/// What a client session does when the state of a backend session is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLoss {
    /// Goes on with a fresh backend session.
    Reinit,
    /// Ends, honestly, with 404.
    End,
}

/// In which manner a backend is spoken to (`translation` 2.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EraChoice {
    /// It is found out.
    Auto,
    /// Every request stands alone (2026-07-28).
    Modern,
    /// In sessions that a handshake opens (2024-11-05 to 2025-11-25).
    Legacy,
}

/// One configured backend, checked.
#[derive(Debug, Clone)]
pub struct BackendSpec {
    /// Its name on this gateway.
    pub id: BackendId,
    /// How it is reached.
    pub transport: TransportSpec,
    /// In which manner it is spoken to.
    pub era: EraChoice,
    /// The protocol version that is asked for, of this era; `None`: the newest that both speak.
    pub version: Option<&'static str>,
    /// Who shares a session of it.
    pub share: Share,
    /// What happens when its session is lost.
    pub on_loss: OnLoss,
    /// How long a start may take, from the first byte sent to the handshake done.
    pub start_timeout: Duration,
    /// How long a process may be silent when it is asked of which era it is, before it is taken for an older one until it
    /// answers.
    pub probe_timeout: Duration,
    /// How long one call may stay without any sign of life from the backend before it fails.
    pub call_timeout: Duration,
    /// How long an unused backend session is kept.
    pub idle_timeout: Duration,
    /// The protocol version that is taken for spoken where the server does not name a known one in its handshake: for
    /// servers that are known to be broken so (`translation` 6.3). `None`: such a handshake fails.
    pub assume_version: Option<&'static str>,
    /// How many sessions one sharer's calls may be spread over, 1 and more: on a channel that several client sessions
    /// share, one that can be asked runs alone, so that a question finds its client (design rule 4).
    pub parallel: usize,
    /// The names of the tools that `mcp:<backend>:read` may call.
    pub read_only_tools: Vec<String>,
}

impl BackendSpec {
    /// A backend with the defaults: its era found out, shared per session where it is a process, 60 s to start, 10 s to tell its era, 10 minutes of silence in a
    /// call, 10 minutes idle, 4 sessions for each sharer.
    pub fn new(id: BackendId, transport: TransportSpec) -> Self {
        Self {
            id,
            transport,
            era: EraChoice::Auto,
            version: None,
            share: Share::Session,
            on_loss: OnLoss::Reinit,
            start_timeout: Duration::from_mins(1),
            probe_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_mins(10),
            idle_timeout: Duration::from_mins(10),
            assume_version: None,
            parallel: 4,
            read_only_tools: Vec::new(),
        }
    }
}

// === impl BackendSpec ===

impl BackendSpec {
    /// Whether one channel carries all messages of a connection.
    pub const fn is_channel(&self) -> bool {
        matches!(self.transport.abilities().delivery, Delivery::Channel)
    }

    /// Whether the backend is the built-in one, which lives in this process.
    pub const fn is_built_in(&self) -> bool {
        matches!(self.transport, TransportSpec::Demo)
    }
}
