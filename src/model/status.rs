//! The state of the gateway for people and machines (`lockkeeper status`, `GET /api/status`, the start page).

use serde::{Deserialize, Serialize};

use super::Rights;

/// The document of `/api/status`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    /// The version of the gateway.
    pub version: String,
    /// Time of start, RFC 3339.
    pub started: String,
    /// The URL to give to clients.
    pub url: String,
    /// The backends in configured order.
    pub backends: Vec<BackendStatus>,
    /// Clients: open sessions, and clients without sessions that were active recently.
    pub sessions: Vec<SessionStatus>,
}

/// One backend.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BackendStatus {
    /// Its name.
    pub id: String,
    /// Its transport: `stdio`, `streamable-http`, `http+sse`, `websocket`, `unix`, `tcp`, `built-in`.
    pub transport: String,
    /// The negotiated protocol version, if known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub protocol_version: Option<String>,
    /// Protocol era and its source.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub era: Option<EraStatus>,
    /// Features that its version lacks against the newest one, for people.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub lacks: Vec<String>,
    /// Notices about its version: age, features that the specification may remove, with the dates.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notices: Vec<String>,
    /// Name and version that the server reports.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<String>,
    /// State.
    #[serde(flatten)]
    pub state: BackendState,
    /// Numbers of listed tools, prompts and resources (templates included).
    pub counts: OfferCounts,
    /// List entries hidden from clients because they violate the schema; at most 100.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub left_out: Vec<OmittedEntry>,
    /// Open sessions of the gateway at it.
    pub sessions: usize,
    /// Number of restarts.
    pub restarts: u64,
    /// Last lines of its standard error, oldest first, if it failed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub stderr: Vec<String>,
}

/// Protocol era of a backend and its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EraStatus {
    /// `modern`: stateless requests; `legacy`: sessions.
    pub era: String,
    /// Source of the era.
    pub found: EraSource,
    /// Time of detection, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub since: Option<String>,
}

/// Source of a backend's era.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EraSource {
    /// Set in the configuration.
    Configured,
    /// Probed at the last start.
    Probed,
    /// Probed at an earlier start.
    Cached,
}

/// State of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum BackendState {
    /// The first handshake is running.
    Starting,
    /// It answers.
    Ready,
    /// It failed; a restart is scheduled.
    Restarting {
        /// Reason.
        reason: String,
        /// Seconds until the next try.
        retry_in: u64,
    },
    /// Unusable until the configuration or the server changes.
    Failed {
        /// Reason and advice.
        reason: String,
    },
}

/// A list entry that is hidden from clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OmittedEntry {
    /// The method of the list, such as `tools/list`.
    pub list: String,
    /// Name or URI of the entry; empty if it has none.
    pub name: String,
    /// The member that violates the schema, and how.
    pub reason: String,
}

/// Numbers of what a backend offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferCounts {
    /// Tools.
    pub tools: usize,
    /// Prompts.
    pub prompts: usize,
    /// Resources and resource templates.
    pub resources: usize,
}

/// One client, with or without a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionStatus {
    /// First characters of the session id; `None` for a client of 2026-07-28, which has no session and is listed while
    /// it is active.
    pub id: Option<String>,
    /// User id.
    pub user: String,
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
}
