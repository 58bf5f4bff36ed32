//! Settings of each module, made from the configuration.

use std::{net::SocketAddr, num::NonZero, sync::Arc, thread};

use url::Url;

use super::machine_memory;
use crate::{
    config::{Config, LogConfig, LogFormat, MasterKeyPlace, PublicUrl, stdio::UpgradeTransport},
    frontend, gateway, http,
    listener::{self, descriptors},
    model::{AllowedSites, AuthPolicy, Descriptors, LimitsConfig},
    oauth, resource,
    support::{Live, MemoryBudget, Random},
    telemetry,
};

/// Maximum number of connections to the port without TLS; each ends after one answer.
pub(super) const PLAIN_CONNECTIONS: usize = 128;
/// Maximum number of connections of commands on this machine.
pub(super) const LOCAL_CONNECTIONS: usize = 32;

/// Minimum of the memory budget if none is configured, in bytes.
const LEAST_BUDGET: usize = 64 << 20;
/// Maximum of the memory budget if none is configured, in bytes.
const MOST_BUDGET: usize = 2 << 30;

/// Settings that change while the gateway runs. Modules hold clones, and read them at each use.
#[derive(Debug, Clone)]
pub(super) struct LiveSettings {
    pub(super) limits: Live<LimitsConfig>,
    pub(super) auth: Live<AuthPolicy>,
    pub(super) sites: Live<AllowedSites>,
    pub(super) budget: MemoryBudget,
}

impl LiveSettings {
    /// The settings of `config`.
    pub(super) fn of(config: &Config) -> Self {
        Self {
            limits: Live::new(config.limits.clone()),
            auth: Live::new(config.auth.clone()),
            sites: Live::new(sites(config)),
            budget: MemoryBudget::new(budget(&config.limits)),
        }
    }

    /// Replaces all settings with those of `config`.
    pub(super) fn replace(&self, config: &Config) {
        self.limits.replace(config.limits.clone());
        self.auth.replace(config.auth.clone());
        self.sites.replace(sites(config));
        self.budget.set(budget(&config.limits));
    }
}

/// The memory budget: as configured, or half of the memory that this process may use, but at most 2 GiB.
fn budget(limits: &LimitsConfig) -> usize {
    limits.memory.unwrap_or_else(|| (machine_memory::usable() / 2).clamp(LEAST_BUDGET, MOST_BUDGET))
}

pub fn log_settings(log: &LogConfig) -> telemetry::LogSettings {
    let format = match log.format {
        LogFormat::Text => telemetry::LineFormat::Text,
        LogFormat::Json => telemetry::LineFormat::Json,
    };
    telemetry::LogSettings { filter: log.filter.clone(), format }
}

/// Additional hosts and origins for requests, including the names in the certificate.
fn sites(config: &Config) -> AllowedSites {
    let names = config.tls.iter().flat_map(|tls| tls.names.iter().cloned());
    let hosts = config.http.allowed_hosts.iter().cloned().chain(names).collect();
    AllowedSites { hosts, origins: config.http.allowed_origins.clone() }
}

pub(super) fn oauth(config: &Config, live: &LiveSettings, public_url: &PublicUrl) -> oauth::OAuthSettings {
    let mut settings = oauth::OAuthSettings::new(public_url.as_str());
    settings.policy = live.auth.clone();
    settings.backends.replace(config.backends.iter().map(|spec| spec.id.clone()).collect(), config.groups.clone());
    settings.master_key = master_key(&config.master_key);
    settings.private_proxies = config.http.trusted_proxies.trusts_private();
    settings
}

/// The source of a master key at `place`.
pub fn master_key(place: &MasterKeyPlace) -> oauth::MasterKeySource {
    match place {
        MasterKeyPlace::InFolder(path) => oauth::MasterKeySource::File(path.clone()),
        MasterKeyPlace::Named(path) => oauth::MasterKeySource::Named(path.clone()),
    }
}

pub(super) fn gate(config: &Config) -> resource::GateSettings {
    resource::GateSettings { query_key: config.http.query_api_key }
}

pub(super) fn gateway(config: &Config) -> gateway::GatewaySettings {
    gateway::GatewaySettings::new(config.naming, config.limits.tool_name_length)
}

/// Settings of the frontend; `connections` is the maximum number of client connections.
pub(super) fn frontend(config: &Config, live: &LiveSettings, connections: usize) -> frontend::FrontendSettings {
    let (strict, serves) = (config.clients.strict.clone(), config.http.legacy_clients);
    frontend::FrontendSettings::new(live.limits.clone(), connections, strict, serves)
}

/// Settings of the listener for other replicas. Each connection carries one client request at a time.
pub(super) fn replica_door(connections: usize) -> listener::ListenerSettings {
    let limits = LimitsConfig { connections_per_address: usize::MAX, ..LimitsConfig::default() };
    listener::ListenerSettings { connections, limits: Live::new(limits), proxies: Vec::new() }
}

/// The endpoint for clients over stdio that have to log in; `None` if they do not.
pub(super) fn upgrade(config: &Config) -> Option<frontend::UpgradeOffer> {
    let public_url = config.public_url(config.listen);
    let (path, transport) = match config.stdio.required_login()? {
        UpgradeTransport::HttpSse => ("sse", "http+sse"),
        UpgradeTransport::StreamableHttp => ("mcp", "streamable-http"),
    };
    let endpoint = format!("{public_url}/{path}");
    Some(frontend::UpgradeOffer { endpoint, transport, max_message: config.limits.request_body })
}

/// Settings of the guard.
pub(super) fn http(
    config: &Config,
    live: &LiveSettings,
    public_url: Url,
    bound: SocketAddr,
    random: Arc<dyn Random>,
) -> http::GuardSettings {
    http::GuardSettings {
        public_url,
        bound: if bound.ip().is_loopback() { http::Bound::Loopback } else { http::Bound::Network },
        sites: live.sites.clone(),
        trusted_proxies: config.http.trusted_proxies.networks().to_vec(),
        limits: live.limits.clone(),
        random,
    }
}

/// Settings of the listener for clients. Raises the limit of open descriptors first, since the maximum number of
/// connections depends on it.
pub(super) fn listener(config: &Config, live: &LiveSettings) -> listener::ListenerSettings {
    let beside = config.tls.as_ref().map_or(0, |_| PLAIN_CONNECTIONS + LOCAL_CONNECTIONS);
    let descriptors = descriptors::raise().saturating_sub(u64::try_from(beside).unwrap_or(0));
    let possible = descriptors::connections(descriptors, reserved(config));
    let connections = match config.limits.connections {
        Some(wanted) if wanted > possible => {
            tracing::warn!(wanted, possible, "the limit on open files does not allow the configured connections");
            possible
        }
        Some(wanted) => wanted,
        None => possible.min(descriptors::MAX_CONNECTIONS),
    };
    tracing::info!(connections, "the most client connections at once");
    listener::ListenerSettings {
        connections,
        limits: live.limits.clone(),
        proxies: config.http.trusted_proxies.networks().to_vec(),
    }
}

/// Number of threads that serve connections: one for each core that this process may use.
pub(super) fn workers() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

fn reserved(config: &Config) -> descriptors::Reserved {
    let with = |descriptors| {
        config.backends.iter().filter(move |spec| spec.transport.abilities().descriptors == descriptors).count()
    };
    descriptors::Reserved {
        workers: workers(),
        processes: with(Descriptors::PerConnection).saturating_mul(config.limits.server_sessions),
        outbound: if with(Descriptors::PerRequest) > 0 || config.replica.is_some() {
            descriptors::Outbound::PerRequest
        } else {
            descriptors::Outbound::None
        },
    }
}
