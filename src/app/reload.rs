//! Reload: applies a new configuration to a running gateway. It adds, replaces and removes servers, applies settings
//! that take effect at once, and names those that need a restart.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::{
    call_path::{self, CallPath},
    log_switch::LogSwitch,
    module_settings::{LiveSettings, log_settings},
    replica,
    stack::Stacks,
};
use crate::{
    audit::AuditEvent,
    backend::{BackendChanges, Supervisor},
    config::{Config, HttpConfig, LogConfig, stdio::StdioConfig},
    crossing::Crossing,
    frontend::Frontend,
    gateway::Gateway,
    model::{
        AuthPolicy, BackendId, BackendSpec, Groups, LimitsConfig,
        config_key::{ConfigKey, TakesEffect},
    },
    oauth::OAuth,
    replicas::Replicas,
    support::Clock,
    telemetry,
    upstream::Upstream,
};

/// Applies new configurations to a running gateway.
pub struct Reloader {
    supervisor: Arc<Supervisor>,
    stacks: Arc<Stacks>,
    gateway: Arc<Gateway>,
    crossing: Crossing,
    frontend: Frontend,
    deps: ReloaderDeps,
    /// The lock also makes reloads run one at a time.
    state: Mutex<ReloadState>,
}

/// The parts of the gateway that it needs outside of the call path.
pub(super) struct ReloaderDeps {
    pub(super) oauth: OAuth,
    pub(super) upstream: Upstream,
    pub(super) replicas: Option<Replicas>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) live: LiveSettings,
    pub(super) log: LogSwitch,
}

struct ReloadState {
    /// The configuration in effect: the one at the start, with the servers and settings applied since.
    running: Config,
    /// Changed settings that need a restart.
    pending: Vec<String>,
    /// Time and reason of the last refused configuration; `None` once one is accepted.
    refused: Option<String>,
}

/// The effect of a new configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReloadReport {
    /// Servers that were added, removed and replaced.
    pub changes: BackendChanges,
    /// Changed settings that take effect now, by their names in the file.
    pub applied: Vec<String>,
    /// Changed settings that take effect at the next start, by their names in the file.
    pub pending: Vec<String>,
}

// === impl Reloader ===

impl Reloader {
    /// For a gateway that runs with the configuration `running`.
    pub(super) fn new(running: Config, path: &CallPath, deps: ReloaderDeps) -> Self {
        let CallPath { supervisor, stacks, gateway, crossing, frontend } = path;
        count_from_zero(&running.backends);
        Self {
            supervisor: Arc::clone(supervisor),
            stacks: Arc::clone(stacks),
            gateway: Arc::clone(gateway),
            crossing: crossing.clone(),
            frontend: frontend.clone(),
            deps,
            state: Mutex::new(ReloadState { running, pending: Vec::new(), refused: None }),
        }
    }

    /// Applies the backends and groups of `config`, and the settings that take effect on reload. Sessions of clients
    /// stay, and so do backends whose server would run the same way. Calls at a removed backend get the shutdown time
    /// to finish. Must be called on a tokio runtime.
    pub fn apply(&self, config: &Config) -> ReloadReport {
        let mut state = self.state.lock();
        let mut settings = take_over(&mut state.running, config);
        self.deps.live.replace(&state.running);
        if let Err(error) = self.deps.log.configure(log_settings(&state.running.log)) {
            tracing::error!(%error, "the log goes on as before");
        }
        let changes = self.replace(&config.backends, &config.groups);
        let before = &state.running;
        let stayed = config.backends.iter().filter(|spec| !changes.replaced.contains(&spec.id));
        let other_rules = stayed.filter(|spec| before.backends.iter().any(|old| old.id == spec.id && old != *spec));
        settings.applied.extend(other_rules.map(|spec| format!("servers.{}", spec.id)));
        settings.applied.extend((before.groups != config.groups).then(|| "groups".to_owned()));
        state.running.backends.clone_from(&config.backends);
        state.running.groups.clone_from(&config.groups);
        state.pending.clone_from(&settings.pending);
        state.refused = None;
        let report = ReloadReport { changes, applied: settings.applied, pending: settings.pending };
        if !report.is_empty() {
            self.deps.oauth.audit().record(AuditEvent::ConfigurationChanged { summary: report.summary() });
        }
        report
    }

    /// Records that a configuration was refused; the running one stays.
    pub fn refuse(&self, reason: &str) {
        let at = self.deps.clock.now();
        let reason = reason.lines().map(str::trim).collect::<Vec<_>>().join("; ");
        self.state.lock().refused =
            Some(format!("has had errors since {at}, so the gateway keeps using the previous one: {reason}"));
    }

    /// The difference between the running gateway and its configuration file, for the status.
    pub fn differences(&self) -> Vec<String> {
        let state = self.state.lock();
        let pending = (!state.pending.is_empty())
            .then(|| format!("has changed, which takes effect at the next start: {}", state.pending.join(", ")));
        state.refused.iter().cloned().chain(pending).collect()
    }

    fn replace(&self, specs: &[BackendSpec], groups: &Groups) -> BackendChanges {
        let before = self.frontend.routes();
        // before clients connect to them
        self.deps.upstream.replace_servers(specs);
        if let Some(replicas) = &self.deps.replicas {
            replicas.serve_at_home(replica::home_targets(specs, groups));
        }
        count_from_zero(specs);
        let (changes, retired) = self.supervisor.replace(specs);
        // from the inside out, so that no request reaches a server that does not exist yet
        self.gateway
            .replace(call_path::configured_backends(specs, &self.supervisor, &self.stacks, &HashMap::new()), groups);
        self.frontend.replace_routes(call_path::routes(&self.stacks, &self.gateway, &self.crossing, Some(&before)));
        self.deps.oauth.replace_backends(self.gateway.ids(), groups.clone());
        retired.end();
        changes
    }
}

/// Starts the counters of these servers at zero. The built-in server has none.
fn count_from_zero(specs: &[BackendSpec]) {
    let counted: Vec<&str> = specs.iter().filter(|spec| !spec.is_built_in()).map(|spec| spec.id.as_str()).collect();
    telemetry::begin_at_zero(&counted);
}

/// Settings that differ between two configurations, by their names in a file.
#[derive(Default)]
struct ChangedSettings {
    applied: Vec<String>,
    pending: Vec<String>,
}

/// Copies the settings that take effect on reload to `running`, and lists all changed ones.
fn take_over(running: &mut Config, other: &Config) -> ChangedSettings {
    let mut changed = ChangedSettings::default();
    let settings = [
        ("listen", running.listen == other.listen),
        ("public_url", running.public_url == other.public_url),
        ("data_dir", running.data_dir == other.data_dir),
        ("database", running.database == other.database),
        ("[tls]", running.tls == other.tls),
        ("master_key_file", running.master_key == other.master_key),
        ("[replica]", running.replica == other.replica),
        ("[login]", running.login == other.login),
        ("[clients]", running.clients == other.clients),
    ];
    changed.pending.extend(settings.into_iter().filter(|(_, is_same)| !is_same).map(|(name, _)| name.to_owned()));
    changed.compare("limits", LimitsConfig::KEYS, &mut running.limits, &other.limits);
    changed.compare("auth", AuthPolicy::KEYS, &mut running.auth, &other.auth);
    changed.compare("http", HttpConfig::KEYS, &mut running.http, &other.http);
    changed.compare("stdio", StdioConfig::KEYS, &mut running.stdio, &other.stdio);
    changed.compare("log", LogConfig::KEYS, &mut running.log, &other.log);
    changed
}

// === impl ChangedSettings ===

impl ChangedSettings {
    fn compare<S>(&mut self, section: &str, keys: &[ConfigKey<S>], running: &mut S, other: &S) {
        for key in keys.iter().filter(|key| !(key.is_same)(running, other)) {
            let name = format!("{section}.{}", key.name);
            match key.takes_effect {
                TakesEffect::OnReload => self.applied.push(name),
                TakesEffect::AtRestart => self.pending.push(name),
            }
        }
        for key in keys.iter().filter(|key| key.takes_effect == TakesEffect::OnReload) {
            (key.copy)(running, other);
        }
    }
}

// === impl ReloadReport ===

impl ReloadReport {
    /// One line with the servers that changed, the settings that were applied, and those that wait for the next start.
    fn summary(&self) -> String {
        let BackendChanges { added, removed, replaced } = &self.changes;
        let servers = |what: &str, ids: &[BackendId]| {
            let ids: Vec<&str> = ids.iter().map(BackendId::as_str).collect();
            (!ids.is_empty()).then(|| format!("{what} {}", ids.join(", ")))
        };
        let settings =
            |what: &str, names: &[String]| (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")));
        let (applied, pending) = (settings("changed", &self.applied), settings("at the next start", &self.pending));
        let servers = [servers("added", added), servers("removed", removed), servers("replaced", replaced)];
        servers.into_iter().chain([applied, pending]).flatten().collect::<Vec<_>>().join("; ")
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
