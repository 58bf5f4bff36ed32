//! Configuration of one backend. Knows nothing of files and of running processes.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    BackendId, Caller, CallerIdentity, Delivery, Disclosure, NameGlobs, Requester, SecretName, SecretValues,
    ServerAuth, ToolRules, TransportSpec, UserId,
};

/// Sharing of backend sessions between users (`design`: isolation between people).
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

/// Reaction of a client session to the loss of its backend session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLoss {
    /// Continues with a new backend session.
    Reinit,
    /// Ends with 404.
    End,
}

/// The replicas at which a backend runs, where several gateways share a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerHome {
    /// Each has one of its own.
    Each,
    /// One, to which the others carry what is for it: the server keeps state for several clients.
    One,
}

/// Protocol era of a backend (`translation` 2.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EraChoice {
    /// Detected at start.
    Auto,
    /// Stateless requests (2026-07-28).
    Modern,
    /// Sessions with an `initialize` handshake (2024-11-05 to 2025-11-25).
    Legacy,
}

/// One configured backend, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendSpec {
    /// Its name on this gateway.
    pub id: BackendId,
    /// Transport and address, with the texts for the gateway itself.
    pub transport: TransportSpec,
    /// What the server is told of its callers; `None`: nothing.
    pub disclosure: Option<Disclosure>,
    /// Authorization of the gateway at it.
    pub auth: ServerAuth,
    /// Protocol era.
    pub era: EraChoice,
    /// Protocol version to request, of this era; `None`: the newest that both sides support.
    pub version: Option<&'static str>,
    /// Sharing of its sessions.
    pub share: Share,
    /// The replicas at which it runs.
    pub home: ServerHome,
    /// Reaction to the loss of a session.
    pub on_loss: OnLoss,
    /// Time for a start, from the first byte sent to the end of the handshake.
    pub start_timeout: Duration,
    /// Time for a process to answer the era probe that goes before or after a handshake without a result.
    pub probe_timeout: Duration,
    /// Time of silence after which a call fails.
    pub call_timeout: Duration,
    /// Time for which an unused session is kept.
    pub idle_timeout: Duration,
    /// Protocol version to assume if the handshake names no known one, for servers that are known to be broken
    /// (`translation` 6.3). `None`: such a handshake fails.
    pub assume_version: Option<&'static str>,
    /// Number of sessions for the calls of one sharer, at least 1. Several client sessions share a channel, so a call
    /// that may ask its client runs alone on one, and the question finds its client (design rule 4).
    pub parallel: usize,
    /// Processes that are kept ready for connections of clients, once a client has had one.
    pub spares: usize,
    /// The names of the tools that `mcp:<backend>:read` may call.
    pub read_only_tools: Vec<String>,
    /// The methods that MCP does not define and that every caller may send it.
    pub allow_methods: NameGlobs,
    /// The rules for its tools; `None`: it offers them as they are.
    pub tools: Option<Arc<ToolRules>>,
    /// The most calls of clients that run at it at once; `None`: any number.
    pub calls: Option<usize>,
    /// The most text in a result of a tool, in bytes; `None`: any.
    pub result_size: Option<usize>,
    /// Time without progress in a call before the gateway reports progress for the server; `None`: it never does.
    pub heartbeat: Option<Duration>,
    /// The endpoints to which the server may move, with everything below their paths (`translation` 6.8).
    pub upgrade_to: Vec<Url>,
}

impl BackendSpec {
    /// A backend with the defaults: detected era, one session for each client session, 60 s to start, 10 s for the era
    /// probe, 10 minutes of silence in a call, 10 minutes idle, 4 sessions for each sharer, one
    /// spare process.
    pub fn new(id: BackendId, transport: TransportSpec) -> Self {
        let era = if transport.has_sessions_alone() { EraChoice::Legacy } else { EraChoice::Auto };
        Self {
            id,
            transport,
            disclosure: None,
            auth: ServerAuth::None,
            era,
            version: None,
            share: Share::Session,
            home: ServerHome::Each,
            on_loss: OnLoss::Reinit,
            start_timeout: Duration::from_mins(1),
            probe_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_mins(10),
            idle_timeout: Duration::from_mins(10),
            assume_version: None,
            parallel: 4,
            spares: 1,
            read_only_tools: Vec::new(),
            allow_methods: NameGlobs::default(),
            tools: None,
            calls: None,
            result_size: None,
            heartbeat: Some(Duration::from_secs(20)),
            upgrade_to: Vec::new(),
        }
    }
}

// === impl BackendSpec ===

impl BackendSpec {
    /// True if one channel carries all messages of a connection.
    pub const fn is_channel(&self) -> bool {
        matches!(self.transport.abilities().delivery, Delivery::Channel)
    }

    /// True if a server that was started for `other` serves this one too: they differ at most in what the gateway does
    /// with its tools, methods and calls.
    pub fn is_served_as(&self, other: &Self) -> bool {
        let Self { read_only_tools, allow_methods, tools, calls, result_size, heartbeat, .. } = self.clone();
        *self == Self { read_only_tools, allow_methods, tools, calls, result_size, heartbeat, ..other.clone() }
    }

    /// What the server is told of the caller of a call; `None` if that is nothing, or if the gateway itself calls.
    pub fn disclosed(&self, caller: &Caller, requester: &Requester) -> Option<CallerIdentity> {
        let tells_apart = |disclosure: &&Disclosure| !requester.is_gateway() && disclosure.tells_apart();
        let disclosure = self.disclosure.as_ref().filter(tells_apart)?;
        Some(disclosure.identity_of(caller))
    }

    /// True if each user reaches it in another way, and only after giving what it needs.
    pub fn is_per_user(&self) -> bool {
        matches!(self.auth, ServerAuth::User(_)) || !self.secret_names().is_empty()
    }

    /// The secrets that each user enters for it.
    pub fn secret_names(&self) -> BTreeSet<SecretName> {
        self.disclosure.as_ref().map(Disclosure::secret_names).unwrap_or_default()
    }

    /// The same as a server that this user alone reaches.
    #[must_use]
    pub fn of_user(&self, user: &UserId, secrets: &SecretValues) -> Self {
        let disclosure = self.disclosure.as_ref().map(|disclosure| disclosure.of_user(user, secrets));
        // all who call it are this user
        let share = if self.share == Share::User { Share::All } else { self.share };
        Self { disclosure, share, ..self.clone() }
    }

    /// True for the built-in backend, which runs in this process.
    pub const fn is_built_in(&self) -> bool {
        matches!(self.transport, TransportSpec::Demo)
    }
}
