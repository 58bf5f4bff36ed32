//! The state of the gateway for people and machines (`lockkeeper status`, `GET /api/status`, the pages).

mod backend;
mod empty_list;
mod output;

use serde::{Deserialize, Serialize};

pub use self::backend::{
    ASKS_FOR_LOGIN, BackendState, BackendStatus, EraSource, EraStatus, OfferCounts, OmittedEntry, ToolCounts,
};
pub use self::{
    empty_list::EmptyList,
    output::{KeptLine, OutputLine, OutputStream, last_output, last_output_text},
};
use super::{GrantId, Rights, UserId};
use crate::support::memory::MemoryUse;

/// The clients that a status lists.
#[derive(Debug, Clone, Copy)]
pub enum ListedClients<'a> {
    /// The clients of all users.
    All,
    /// The clients of one user.
    Of(&'a UserId),
    Nobodys,
}

/// The document of `/api/status`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    /// The version of the gateway.
    pub version: String,
    /// Time of start, RFC 3339.
    pub started: String,
    /// The URL to give to clients.
    pub url: String,
    /// All backends in a few words: `31 ready, 8 failing`.
    #[serde(default)]
    pub summary: String,
    /// Differences between the running gateway and its configuration file, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configuration: Vec<String>,
    /// The servers: first failing ones, then starting ones, each in configured order.
    #[serde(rename = "servers", alias = "backends")]
    pub backends: Vec<BackendStatus>,
    /// The groups of backends, in configured order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupStatus>,
    /// Clients: open sessions, and clients without sessions that were active recently.
    pub sessions: Vec<SessionStatus>,
    /// The certificate toward clients; `None` without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateStatus>,
    /// The process; `None` from a gateway of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessStatus>,
    /// Hosts that could not be reached at the start, and what does not work without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    /// The memory in use, by holder; `None` from a gateway of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStatus>,
}

/// The process of the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// Its number.
    pub pid: u32,
    /// Time since its start, in seconds.
    pub uptime_seconds: u64,
    /// The configuration file, even if it does not exist yet; `None` if the gateway reads no file.
    pub configuration: Option<String>,
    /// The data folder.
    pub data_dir: String,
}

/// The certificate toward clients.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CertificateStatus {
    /// The names it is valid for; before it exists, the ordered names.
    pub names: Vec<String>,
    /// Its file, or the directory of its authority.
    pub source: String,
    /// The authority that issued it; `None` before it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Time of its end, RFC 3339; `None` before it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<String>,
    /// The time of the next order, RFC 3339; `None` for files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_order: Option<String>,
    /// The fault, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// The memory in use for waiting data: bodies, messages, cached lists.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// Bytes at most.
    pub budget: usize,
    /// Bytes at the moment.
    pub held: usize,
    /// The largest holders, the first [`MemoryStatus::SHOWN`] of them.
    pub holders: Vec<MemoryHolder>,
}

/// A user, a server or the process, and the memory held for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MemoryHolder {
    /// `user` and its id, `server` and its name, or `the process`.
    pub holder: String,
    /// Bytes.
    pub held: usize,
}

/// One group of backends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GroupStatus {
    pub id: String,
    /// The URL to give to clients.
    pub url: String,
    /// Its backends.
    pub servers: Vec<String>,
}

/// One client, with or without a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionStatus {
    /// First characters of the session id; `None` for a client of 2026-07-28, which has no session and is listed while
    /// it is active.
    pub id: Option<String>,
    /// User id.
    pub user: String,
    /// Name of the key, of a user that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_name: Option<String>,
    /// Name and version that the client reports.
    pub client: String,
    /// Path of the endpoint.
    pub endpoint: String,
    /// Its protocol version.
    pub protocol_version: String,
    /// Seconds since the last sign of activity.
    pub idle_seconds: u64,
    /// Rights, for the gateway's own use; not part of the document.
    #[serde(skip)]
    pub rights: Option<Rights>,
    /// The grant of its token, for the gateway's own use; `None` for an API key sent directly.
    #[serde(skip)]
    pub grant: Option<GrantId>,
}

// === impl MemoryStatus ===

impl MemoryStatus {
    /// The number of holders to show.
    pub const SHOWN: usize = 5;
}

impl From<MemoryUse> for MemoryStatus {
    fn from(MemoryUse { budget, held, holders }: MemoryUse) -> Self {
        let holders = holders.into_iter().take(Self::SHOWN);
        let holders = holders.map(|(holder, held)| MemoryHolder { holder: holder.to_string(), held }).collect();
        Self { budget, held, holders }
    }
}

// === impl Status ===

impl Status {
    /// Moves the backends that need attention to the front, and sums them up.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.backends.sort_by_key(|backend| backend.state.urgency());
        self.summary = summary(self.backends.iter().map(|backend| &backend.state));
        self
    }
}

/// The number of backends in each condition, in words: `31 ready, 8 failing`.
pub fn summary<'a>(states: impl Iterator<Item = &'a BackendState>) -> String {
    let (mut ready, mut elsewhere, mut starting, mut failing) = (0, 0, 0, 0);
    for state in states {
        match state {
            BackendState::Ready => ready += 1,
            BackendState::Elsewhere => elsewhere += 1,
            BackendState::Starting { .. } | BackendState::Restarting { .. } => starting += 1,
            BackendState::Failed { .. } => failing += 1,
        }
    }
    if ready + elsewhere + starting + failing == 0 {
        return "no servers: `lockkeeper add` adds one".to_owned();
    }
    let others = [(elsewhere, "at another replica"), (starting, "starting"), (failing, "failing")]
        .into_iter()
        .filter(|(number, _)| *number > 0);
    others.fold(format!("{ready} ready"), |told, (number, word)| format!("{told}, {number} {word}"))
}
