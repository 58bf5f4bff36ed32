//! The state of the world as it is shown to people and machines (`lockkeeper status`, `GET /api/status`, the start page).

use serde::{Deserialize, Serialize};

use super::Rights;

/// Everything that `/api/status` tells.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    /// The version of the gateway.
    pub version: String,
    /// When it started, RFC 3339.
    pub started: String,
    /// The URL to give to clients.
    pub url: String,
    /// The backends in configured order.
    pub backends: Vec<BackendStatus>,
    /// The clients: those whose sessions are open, and those without sessions that were here of late.
    pub sessions: Vec<SessionStatus>,
}

/// One backend.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BackendStatus {
    /// Its name.
    pub id: String,
    /// Its transport: `stdio`, `streamable-http`, `built-in`.
    pub transport: String,
    /// The negotiated protocol version, once there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub protocol_version: Option<String>,
    /// In which manner it is spoken to, and how that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub era: Option<EraStatus>,
    /// What its version lacks against the newest one, for people.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub lacks: Vec<String>,
    /// What the operator should know of its version: what is old, and what the specification may remove, with the dates.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notices: Vec<String>,
    /// What the server calls itself, `name version`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<String>,
    /// How it is.
    #[serde(flatten)]
    pub state: BackendState,
    /// How many tools, prompts and resources (templates included) it offers, as far as they were listed.
    pub counts: Counts,
    /// The entries of its lists that clients are not shown, because they break the schema; at most 100.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub left_out: Vec<LeftOut>,
    /// How many sessions the gateway holds at it.
    pub sessions: usize,
    /// How often it was started again.
    pub restarts: u64,
    /// The last lines that it wrote on standard error, oldest first; given where it failed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub stderr: Vec<String>,
}

/// In which manner a backend is spoken to, and how that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EraStatus {
    /// `modern`: every request stands alone; `legacy`: in sessions.
    pub era: String,
    /// How it is known.
    pub found: Found,
    /// When it was found out, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub since: Option<String>,
}

/// How the era of a backend is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// The configuration says so.
    Configured,
    /// The server was asked when it was started last.
    Probed,
    /// It was asked at an earlier start.
    Cached,
}

/// How a backend is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum BackendState {
    /// Its first handshake is under way.
    Starting,
    /// It answers.
    Ready,
    /// It failed and is started again by itself.
    Restarting {
        /// What happened.
        reason: String,
        /// Seconds until the next try.
        retry_in: u64,
    },
    /// It cannot be used until the configuration or the server changes.
    Failed {
        /// What happened and what to do.
        reason: String,
    },
}

/// An entry of a list that clients are not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The method of the list, such as `tools/list`.
    pub list: String,
    /// The entry's own name or URI; empty where it has none.
    pub name: String,
    /// The member that breaks the schema, and how.
    pub reason: String,
}

/// What a backend offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Tools.
    pub tools: usize,
    /// Prompts.
    pub prompts: usize,
    /// Resources and resource templates.
    pub resources: usize,
}

/// One client: a session, or one that needs none.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionStatus {
    /// The first characters of its id; `None` for a client of 2026-07-28, which has no session and is listed for as long
    /// as it was here of late.
    pub id: Option<String>,
    /// The id of the user it belongs to.
    pub user: String,
    /// What the client calls itself, `name version`.
    pub client: String,
    /// The path of its endpoint.
    pub endpoint: String,
    /// Its protocol version.
    pub protocol_version: String,
    /// Seconds since the last sign of activity.
    pub idle_seconds: u64,
    /// What it may do, as the gateway itself knows it; never part of the document.
    #[serde(skip)]
    pub rights: Option<Rights>,
}
