//! The state of one backend, and its words.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{empty_list::EmptyList, output::OutputLine};
use crate::model::{Access, ContainmentStatus};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BackendStatus {
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
    /// Name and version reported by the server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<String>,
    #[serde(flatten)]
    pub state: BackendState,
    /// The time since which it is not ready, RFC 3339; `None` if it is, and before its first start has ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failing_since: Option<String>,
    /// Numbers of listed tools, prompts and resources (templates included).
    pub counts: OfferCounts,
    /// Why it offers no tools although it is ready.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub no_tools: Option<EmptyList>,
    /// List entries hidden from clients because they violate the schema; at most 100.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub left_out: Vec<OmittedEntry>,
    /// Open sessions of the gateway at it.
    pub sessions: usize,
    pub restarts: u64,
    /// The processes of its programs, with all that they have started; `None` where that is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub processes: Option<usize>,
    /// The resident memory of these processes, in bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_bytes: Option<u64>,
    /// Its last output outside of messages, oldest first: of the running start, or of the last failure.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub output: Vec<OutputLine>,
    /// Advice for a failed server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub advice: Option<String>,
    /// The containment of its programs; `None` for a server without programs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub containment: Option<ContainmentStatus>,
    /// Faults of the server that do not affect its clients.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
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
    /// True for a server with sessions that is known to be modern too.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub also_modern: bool,
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
    /// The first start has not ended yet.
    Starting {
        /// Seconds since it began.
        seconds: u64,
    },
    Ready,
    /// It runs at another replica (`home = "one"`).
    Elsewhere,
    /// The connection was lost and is being reopened.
    Restarting {
        /// Reason for the loss.
        reason: String,
    },
    /// The last start failed.
    Failed {
        reason: String,
        /// Seconds until the next try; 0 while it runs, `None` without one.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        retry_in: Option<u64>,
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

/// Numbers of a backend's offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferCounts {
    /// Tools.
    pub tools: usize,
    /// Prompts.
    pub prompts: usize,
    /// Resources and resource templates.
    pub resources: usize,
}

/// The tools of a server that a person may give to an app.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolCounts {
    /// All of them.
    pub tools: usize,
    /// Those that may change data: neither the server nor the operator says that they only read.
    pub changing: usize,
    /// Those that an app with the right to read may call.
    pub read_only: usize,
}

// === impl ToolCounts ===

impl ToolCounts {
    /// The number of tools that a caller with this access may call.
    pub const fn callable(self, access: Access) -> usize {
        match access {
            Access::Full => self.tools,
            Access::ReadOnly => self.read_only,
        }
    }
}

// === impl BackendStatus ===

impl BackendStatus {
    /// A backend with no further facts yet.
    pub fn new(id: String, transport: &str, state: BackendState) -> Self {
        Self {
            id,
            transport: transport.to_owned(),
            protocol_version: None,
            era: None,
            lacks: Vec::new(),
            notices: Vec::new(),
            server: None,
            state,
            failing_since: None,
            counts: OfferCounts::default(),
            no_tools: None,
            left_out: Vec::new(),
            sessions: 0,
            restarts: 0,
            processes: None,
            memory_bytes: None,
            output: Vec::new(),
            advice: None,
            containment: None,
            warnings: Vec::new(),
        }
    }

    /// Notes its offers, and why it offers no tools.
    pub fn offers(&mut self, counts: OfferCounts, no_tools: Option<EmptyList>) {
        self.counts = counts;
        self.no_tools = no_tools.filter(|_| self.state == BackendState::Ready);
    }

    /// A sentence about the other era that it could use, and how.
    pub fn other_era(&self) -> Option<&'static str> {
        let also_modern = self.era.as_ref().is_some_and(|era| era.also_modern);
        also_modern.then_some(
            "it speaks MCP 2026-07-28 too, and is used with sessions: `era = \"modern\"` in its section changes that",
        )
    }

    /// A sentence about why it offers no tools although it is ready.
    pub fn lacks_tools(&self) -> Option<String> {
        self.no_tools.as_ref().map(|why| format!("no tools: {why}"))
    }
}

/// The reason shown for a server that asks each user for a login.
pub const ASKS_FOR_LOGIN: &str =
    "the server asks for a login of its own (OAuth): set `auth = \"oauth\"`, and each user connects it";

// === impl BackendState ===

impl BackendState {
    /// True if the server turned the gateway away because each user has to log in there.
    pub fn asks_for_login(&self) -> bool {
        self.reason().is_some_and(|reason| reason.contains(ASKS_FOR_LOGIN))
    }

    /// The reason why it does not answer, if there is one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Restarting { reason } | Self::Failed { reason, .. } => Some(reason),
            Self::Starting { .. } | Self::Ready | Self::Elsewhere => None,
        }
    }

    /// The state in a word, as in the document.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Starting { .. } => "starting",
            Self::Ready => "ready",
            Self::Elsewhere => "elsewhere",
            Self::Restarting { .. } => "restarting",
            Self::Failed { .. } => "failed",
        }
    }

    /// The place in a list that starts with what needs attention.
    pub(super) const fn urgency(&self) -> u8 {
        match self {
            Self::Failed { .. } => 0,
            Self::Restarting { .. } => 1,
            Self::Starting { .. } => 2,
            Self::Ready | Self::Elsewhere => 3,
        }
    }
}

impl fmt::Display for BackendState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        match self {
            Self::Starting { seconds } => write!(f, " ({seconds} s)"),
            Self::Failed { retry_in: Some(0), .. } => f.write_str(", trying again"),
            Self::Failed { retry_in: Some(seconds), .. } => write!(f, ", next try in {seconds} s"),
            Self::Ready | Self::Elsewhere | Self::Restarting { .. } | Self::Failed { retry_in: None, .. } => Ok(()),
        }
    }
}
