//! Configuration of one backend.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    BackendId, Caller, CallerIdentity, Contain, Delivery, Disclosure, NameGlobs, ProgramRules, Requester, SecretName,
    SecretValues, ServerAuth, ServerUrl, ToolRules, TransportSpec, UserId, config_key::config_keys,
};

/// Sharing of backend sessions between users (design rule 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// A backend session for each client session.
    Session,
    /// A backend session for each user.
    User,
    /// One backend session for all users.
    All,
}

/// Reaction of a client session to the loss of its backend session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLoss {
    /// Continues with a new backend session.
    Reinit,
    End,
}

/// The replicas that run a backend, where several gateways share a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerHome {
    /// Each replica runs its own.
    Each,
    /// One runs it, and the others carry messages to it: the server keeps state for several clients.
    One,
}

/// Protocol era of a backend (`translation` 2.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EraChoice {
    Auto,
    /// Only stateless requests (2026-07-28).
    Modern,
    /// Sessions with an `initialize` handshake (2024-11-05 to 2025-11-25).
    Legacy,
}

config_keys! {
    /// One configured backend, checked.
    pub struct BackendSpec, taken at reload, made of (
        /// Its name on this gateway.
        id: BackendId,
        /// Transport and address, with the texts for the gateway itself.
        transport: TransportSpec,
        /// Facts that the server learns about its callers; `None`: none.
        disclosure: Option<Disclosure>,
        /// The gateway's authorization at the backend.
        auth: ServerAuth,
        /// The rules for its tools; `None`: its tools are offered unchanged.
        tools: Option<Arc<ToolRules>>,
        /// Rules for its programs, from `[programs]` and the places of data.
        programs: Arc<ProgramRules>,
    ) {
        /// How sessions (for a command: processes) are shared: each client session has its own, each user, or all.
        /// Clients without sessions count by user.
        ///
        /// With `"session"`, the process that delivered the lists in a client's name serves its first session, unless
        /// it has sent messages of its own in the meantime.
        share: Share = choice("session" => Share::Session, "user" => Share::User, "all" => Share::All);
        /// [Replicas](deployment.md#replicas) that run it: each its own, or one for all. If that one ends, another
        /// takes over.
        ///
        /// For a server that keeps state for several clients, or may run only once. That replica serves the endpoints
        /// with such a server. Without `[replica]` it has no effect.
        home: ServerHome = choice("each" => ServerHome::Each, "one" => ServerHome::One);
        /// If the server's session or process is lost: the client goes on with a fresh one and gets a notice, or its
        /// session ends.
        on_loss: OnLoss = choice("reinit" => OnLoss::Reinit, "end" => OnLoss::End);
        /// Servers of 2026-07-28 are modern, others legacy; `"auto"` detects it.
        ///
        /// A process, a WebSocket or a socket that speaks both eras counts as legacy unless this is `"modern"`
        /// ([translation 2.7](translation.md#27-detecting-the-era-of-a-server)).
        era: EraChoice = choice(
            "auto" => EraChoice::Auto,
            "modern" => EraChoice::Modern,
            "legacy" => EraChoice::Legacy,
        );
        /// The version to request, which also sets the era. Without it: the newest that both support.
        version: Option<&'static str> = optional_choice(
            "2025-06-18",
            "2024-11-05" => "2024-11-05",
            "2025-03-26" => "2025-03-26",
            "2025-06-18" => "2025-06-18",
            "2025-11-25" => "2025-11-25",
            "2026-07-28" => MODERN_VERSION,
        );
        /// The version to assume if a server's handshake names no known version. Without it such a handshake fails.
        assume_version: Option<&'static str> = optional_choice(
            "2024-11-05",
            "2024-11-05" => "2024-11-05",
            "2025-03-26" => "2025-03-26",
            "2025-06-18" => "2025-06-18",
            "2025-11-25" => "2025-11-25",
        );
        /// Time for a start, including the handshake.
        start_timeout: Duration = duration(60 s, 1 s to 1 h);
        /// How long a process may stay silent when its era is probed, before it is given up: after it refused the
        /// handshake, or at a start after one without an answer.
        probe_timeout: Duration = duration(10 s, 100 ms to 1 h);
        /// Silence in a call before it fails.
        call_timeout: Duration = duration(10 m, 1 s to 1 d);
        /// An unused session or process is ended after this. Not with `on_loss = "end"`.
        idle_timeout: Duration = duration(10 m, 10 s to 30 d);
        /// Processes kept ready for new clients, so that a first call does not wait for a start. `0`: none.
        ///
        /// They start when a client calls the server or its list is fetched for clients, and end a minute after the
        /// last client left.
        spares: usize = count(1, 0 to 16);
        /// Processes for each user (or for all) that shares, so that requests of the server find their client.
        ///
        /// While requests wait for a person, up to three times as many more serve other calls; one more, or an eighth,
        /// serves users who would wait for others.
        parallel: usize = count(4, 1 to 1_000);
        /// The tools that `mcp:<name>:read` may call.
        read_only_tools: Vec<String> = texts(any_text, "[\"read_file\"]");
        /// Methods that MCP does not define and that every caller of this server may send, as patterns: `"skills/*"`.
        ///
        /// Without it they require full rights, and a server without `tools` rules. It opens no method that MCP defines
        /// ([What `:read` allows](authorization.md#what-read-allows)).
        allow_methods: NameGlobs = patterns("[\"skills/*\"]");
        /// The most calls of tools, prompts, resources and completions that may run at the server at once. Without it:
        /// any number.
        ///
        /// Further calls are refused with `-32603`, which names the limit.
        calls: Option<usize> = optional_count(8, 1 to 1_000_000);
        /// The most text in a tool's result: text blocks and embedded text resources together. Without it: any.
        ///
        /// The rest is cut, and a note at the end says so. `structuredContent`, images and links stay whole.
        result_size: Option<usize> = optional_size(100 KiB, 1 KiB to 1 GiB);
        /// After this time without progress in a call, the gateway reports progress for the server, to clients that
        /// gave a token and so keep waiting. At least a second; `0s`: never.
        ///
        /// It ends once the server reports progress itself.
        heartbeat: Option<Duration> = interval(20 s, 0 s to 1 h);
        /// URLs that a program or a socket may redirect the gateway to in its answer to `initialize`, with everything
        /// below their paths.
        ///
        /// Loopback addresses need no entry if the server is a program, a Unix domain socket or connected to at a
        /// loopback address. Only data meant for the server is sent there.
        upgrade_to: Vec<Url> = texts(ServerUrl::parse_http, "[\"https://mcp.example.com/sse\"]");
        /// How far its programs are kept from the data, as in [`[programs]`](#programs). Without it: the setting there.
        /// Only with `command`.
        contain: Option<Contain> = optional_choice("off", "keys" => Contain::Keys, "off" => Contain::Off);
        /// The container image that its programs run in, by `podman` or `docker`. `command` is then a program of the
        /// image.
        ///
        /// The container gets `env`, and nothing else of this machine: no folders, and no variables of the gateway.
        /// Only with `command`.
        container: Option<String> = optional_text("docker.io/library/node:24", image);
        /// The user of this machine that its programs run as, where the gateway may change users. Only with `command`.
        ///
        /// The strongest way to keep them from the data. They get that user's `HOME`, and none of the gateway's rights.
        run_as: Option<String> = optional_text("mcp", user_name);
        /// The most files and connections that one of its processes may open. Without it: the gateway's own limit. Only
        /// with `command`.
        open_files: Option<usize> = optional_count(1024, 16 to 1_048_576);
        /// The largest memory dump of a crashing process. Without it there is none, since it may hold secrets. Only
        /// with `command`.
        core: Option<usize> = optional_size(100 MiB, 1 MiB to 1024 GiB);
        /// The most memory of one program with all its processes; more ends it. Only with `command`.
        ///
        /// `memory`, `processes` and `cpu` need a cgroup that the gateway may divide
        /// ([programs](isolation.md#limits-of-programs)), or a `container`. Without one, the program is not started.
        memory: Option<usize> = optional_size(512 MiB, 8 MiB to 1024 GiB);
        /// The most processes and threads of one program. Only with `command`.
        processes: Option<usize> = optional_count(256, 1 to 1_000_000);
        /// Processor time of one program, in percent of one core. Only with `command`.
        cpu: Option<usize> = optional_count(100, 1 to 100_000);
    }
}

/// The stateless protocol version, as configured.
const MODERN_VERSION: &str = "2026-07-28";

#[expect(clippy::unnecessary_wraps, reason = "the parser of a key")]
fn any_text(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

/// Checks the name of an image, which must not look like an option.
fn image(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && !text.starts_with('-') && !text.contains(char::is_whitespace);
    if is_name { Ok(text.to_owned()) } else { Err("this must be the name of an image".to_owned()) }
}

fn user_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(['\0', '/', ':']) {
        return Err("this must be the name of a user of this machine".to_owned());
    }
    Ok(text.to_owned())
}

// === impl BackendSpec ===

impl BackendSpec {
    /// A backend with the defaults. Its era is detected, unless the transport implies it.
    pub fn new(id: BackendId, transport: TransportSpec) -> Self {
        let is_legacy = transport.has_sessions_alone();
        let spec = Self::with_defaults(id, transport, None, ServerAuth::None, None, Arc::default());
        if is_legacy { Self { era: EraChoice::Legacy, ..spec } } else { spec }
    }

    /// The era of the configured version; `None` without one.
    pub fn era_of_version(&self) -> Option<EraChoice> {
        Some(if self.version? == MODERN_VERSION { EraChoice::Modern } else { EraChoice::Legacy })
    }

    /// True if one channel carries all messages of a connection.
    pub const fn is_channel(&self) -> bool {
        matches!(self.transport.abilities().delivery, Delivery::Channel)
    }

    /// True if a server that was started for `other` serves this one too: they differ at most in the gateway's
    /// treatment of tools, methods and calls.
    pub fn is_served_as(&self, other: &Self) -> bool {
        let Self { tools, read_only_tools, allow_methods, calls, result_size, heartbeat, .. } = self.clone();
        *self == Self { tools, read_only_tools, allow_methods, calls, result_size, heartbeat, ..other.clone() }
    }

    /// The facts about the caller that the server gets; `None` if it gets none, or if the gateway itself calls.
    pub fn disclosed(&self, caller: &Caller, requester: &Requester) -> Option<CallerIdentity> {
        let tells_apart = |disclosure: &&Disclosure| !requester.is_gateway() && disclosure.tells_apart();
        let disclosure = self.disclosure.as_ref().filter(tells_apart)?;
        Some(disclosure.identity_of(caller))
    }

    /// True if each user reaches it differently, and only after supplying what it needs.
    pub fn is_per_user(&self) -> bool {
        matches!(self.auth, ServerAuth::User(_)) || !self.secret_names().is_empty()
    }

    /// True if it may list something else for each user: it knows who calls, or is reached with what the user gave.
    pub fn lists_for_each_user(&self) -> bool {
        self.is_per_user() || self.disclosure.as_ref().is_some_and(Disclosure::tells_apart)
    }

    /// The secrets that each user enters for it.
    pub fn secret_names(&self) -> BTreeSet<SecretName> {
        self.disclosure.as_ref().map(Disclosure::secret_names).unwrap_or_default()
    }

    /// The same, as a server that only this user reaches.
    #[must_use]
    pub fn of_user(&self, user: &UserId, secrets: &SecretValues) -> Self {
        let disclosure = self.disclosure.as_ref().map(|disclosure| disclosure.of_user(user, secrets));
        // all its callers are this user
        let share = if self.share == Share::User { Share::All } else { self.share };
        Self { disclosure, share, ..self.clone() }
    }

    /// The level of its programs.
    pub fn containment(&self) -> Contain {
        self.contain.unwrap_or(self.programs.contain)
    }

    /// True for the built-in backend, which runs in this process.
    pub const fn is_built_in(&self) -> bool {
        matches!(self.transport, TransportSpec::Demo)
    }
}
