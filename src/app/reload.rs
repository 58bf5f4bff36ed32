//! Another configuration for a running gateway: its servers are added, replaced and removed, settings that take effect at
//! once are replaced, and what needs a restart is named. Knows nothing of files and of signals.

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

/// Gives a running gateway other servers and settings.
pub struct Reloader {
    supervisor: Arc<Supervisor>,
    stacks: Arc<Stacks>,
    gateway: Arc<Gateway>,
    crossing: Crossing,
    frontend: Frontend,
    oauth: OAuth,
    upstream: Upstream,
    replicas: Option<Replicas>,
    clock: Arc<dyn Clock>,
    live: LiveSettings,
    log: LogSwitch,
    /// Also makes one reload wait for another.
    state: Mutex<ReloadState>,
}

struct ReloadState {
    /// The configuration at the start, with the servers and settings that took effect since.
    running: Config,
    /// The settings of the file that differ from those that run.
    pending: Vec<String>,
    /// The time and the reason of the last refusal, if none was accepted since.
    refused: Option<String>,
}

/// The effect of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReloadReport {
    /// The servers that were started and ended.
    pub changes: BackendChanges,
    /// Settings that have changed and take effect now, as a configuration file names them.
    pub applied: Vec<String>,
    /// Settings that have changed and take effect at the next start.
    pub pending: Vec<String>,
}

// === impl Reloader ===

impl Reloader {
    /// For the parts of a gateway that runs with this configuration.
    pub(super) fn new(
        running: Config,
        path: &CallPath,
        (oauth, upstream): (OAuth, Upstream),
        replicas: Option<Replicas>,
        clock: Arc<dyn Clock>,
        live: LiveSettings,
        log: LogSwitch,
    ) -> Self {
        let CallPath { supervisor, stacks, gateway, crossing, frontend } = path;
        count_from_zero(&running.backends);
        Self {
            supervisor: Arc::clone(supervisor),
            stacks: Arc::clone(stacks),
            gateway: Arc::clone(gateway),
            crossing: crossing.clone(),
            frontend: frontend.clone(),
            oauth,
            upstream,
            replicas,
            clock,
            live,
            log,
            state: Mutex::new(ReloadState { running, pending: Vec::new(), refused: None }),
        }
    }

    /// Serves the backends and groups of `config` from now on. Sessions of clients stay, and so do backends whose section asks
    /// nothing else of their server. Calls that run at a backend that is gone have the shutdown time to finish. Also replaces
    /// the settings that take effect on reload. Must be called on a tokio runtime.
    pub fn apply(&self, config: &Config) -> ReloadReport {
        let mut state = self.state.lock();
        let settings = take_over(&mut state.running, config);
        self.live.replace(&state.running);
        if let Err(error) = self.log.configure(log_settings(&state.running.log)) {
            tracing::error!(%error, "the log goes on as before");
        }
        let changes = self.replace(&config.backends, &config.groups);
        state.running.backends.clone_from(&config.backends);
        state.running.groups.clone_from(&config.groups);
        state.pending.clone_from(&settings.pending);
        state.refused = None;
        let report = ReloadReport { changes, applied: settings.applied, pending: settings.pending };
        if !report.is_empty() {
            self.oauth.audit().record(AuditEvent::ConfigurationChanged { summary: report.summary() });
        }
        report
    }

    /// Notes that another configuration was refused: the running one stays.
    pub fn refuse(&self, reason: &str) {
        let at = self.clock.now();
        let reason = reason.lines().map(str::trim).collect::<Vec<_>>().join("; ");
        self.state.lock().refused = Some(format!("not taken at {at}, the gateway runs on as before: {reason}"));
    }

    /// Differences between the running gateway and its configuration, for the status.
    pub fn differences(&self) -> Vec<String> {
        let state = self.state.lock();
        let pending = (!state.pending.is_empty())
            .then(|| format!("changed, and taken at the next start: {}", state.pending.join(", ")));
        state.refused.iter().cloned().chain(pending).collect()
    }

    fn replace(&self, specs: &[BackendSpec], groups: &Groups) -> BackendChanges {
        let before = self.frontend.routes();
        // before anybody connects to them
        self.upstream.replace_servers(specs);
        if let Some(replicas) = &self.replicas {
            replicas.serve_at_home(replica::home_targets(specs, groups));
        }
        count_from_zero(specs);
        let (changes, retired) = self.supervisor.replace(specs);
        // from the inside out, so that nobody is sent to what is not there yet
        self.gateway
            .replace(call_path::configured_backends(specs, (&self.supervisor, &self.stacks), &HashMap::new()), groups);
        self.frontend.replace_routes(call_path::routes((&self.stacks, &self.gateway, &self.crossing), Some(&before)));
        self.oauth.replace_backends(self.gateway.ids(), groups.clone());
        retired.end();
        changes
    }
}

/// Lets the counters of these servers begin at zero. At the built-in one, nothing is counted.
fn count_from_zero(specs: &[BackendSpec]) {
    let counted: Vec<&str> = specs.iter().filter(|spec| !spec.is_built_in()).map(|spec| spec.id.as_str()).collect();
    telemetry::begin_at_zero(&counted);
}

/// The settings in which two configurations differ, by their names in a file.
#[derive(Default)]
struct ChangedSettings {
    applied: Vec<String>,
    pending: Vec<String>,
}

/// Copies the settings that take effect on reload to `running`; the others wait for the next start.
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
    /// The servers that were started and ended, the settings that changed, and those that wait for the next start.
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

    /// True if nothing has changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
