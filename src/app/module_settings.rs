//! Settings of each module, from the configuration. Knows nothing of running parts.

use std::{net::SocketAddr, num::NonZero, sync::Arc, thread};

use url::Url;

use crate::{
    backend,
    config::{self, Config, PublicUrl, stdio::UpgradeTransport},
    crossing, frontend, gateway, http,
    listener::{self, descriptors},
    model::{Descriptors, LimitsConfig},
    oauth, resource,
    support::Random,
};

/// Those of the authorization server.
pub(super) fn oauth(config: &Config, public_url: &PublicUrl) -> oauth::OAuthSettings {
    let mut settings = oauth::OAuthSettings::new(public_url.as_str());
    settings.policy = config.auth.clone();
    settings.backends.replace(config.backends.iter().map(|spec| spec.id.clone()).collect(), config.groups.clone());
    settings.master_key = oauth::MasterKeySource::File(config::files::master_key(&config.data_dir));
    settings
}

/// Those of the gate.
pub(super) fn gate(config: &Config) -> resource::GateSettings {
    resource::GateSettings { query_key: config.http.query_api_key }
}

/// Those of the gateway.
pub(super) fn gateway(config: &Config) -> gateway::GatewaySettings {
    gateway::GatewaySettings {
        naming: config.naming,
        longest_name: config.limits.tool_name_length,
        ..gateway::GatewaySettings::default()
    }
}

/// The limits of question slots.
pub(super) fn slots(config: &Config) -> backend::SlotLimits {
    let LimitsConfig { server_request_slot_time, slot_wait, .. } = config.limits;
    backend::SlotLimits { server_request_slot_time, slot_wait }
}

/// The limits of suspended calls.
pub(super) fn crossing(config: &Config) -> crossing::SuspensionLimits {
    let LimitsConfig { suspended_calls_per_user, suspended_calls, server_request_timeout, .. } = config.limits;
    crossing::SuspensionLimits { suspended_calls_per_user, suspended_calls, server_request_timeout }
}

/// Those of the frontend, for this maximum number of client connections.
pub(super) fn frontend(config: &Config, connections: usize) -> frontend::FrontendSettings {
    let limits = &config.limits;
    frontend::FrontendSettings {
        session_idle: limits.session_idle,
        sessions: limits.sessions,
        sessions_per_caller: limits.sessions_per_caller,
        calls_per_session: limits.calls_per_session,
        calls_per_user: limits.calls_per_user,
        listens_per_user: limits.listens_per_user,
        // each holds a connection that is never evicted: a quarter is left for calls
        listens: limits.listens.unwrap_or(connections / 4 * 3),
        server_request_timeout: limits.server_request_timeout,
        stream_lifetime: limits.stream_lifetime,
        batch: limits.batch,
        body: limits.request_body,
        body_timeout: limits.body_timeout,
        strict_clients: config.clients.strict.clone(),
        serves: config.http.legacy_clients,
        ..frontend::FrontendSettings::default()
    }
}

/// Those of the listener for other replicas, with this maximum number of connections. Each carries one request of a client
/// at a time.
pub(super) fn replica_door(connections: usize) -> listener::ListenerSettings {
    listener::ListenerSettings {
        connections,
        connections_per_address: usize::MAX,
        proxies: Vec::new(),
        timeouts: listener::Timeouts::default(),
    }
}

/// The endpoint where clients of stdio have to log in, if they have to.
pub(super) fn upgrade(config: &Config) -> Option<frontend::UpgradeOffer> {
    let public_url = config.public_url(config.listen);
    let (path, transport) = match config.stdio.required_login()? {
        UpgradeTransport::HttpSse => ("sse", "http+sse"),
        UpgradeTransport::StreamableHttp => ("mcp", "streamable-http"),
    };
    let endpoint = format!("{public_url}/{path}");
    Some(frontend::UpgradeOffer { endpoint, transport, max_message: config.limits.request_body })
}

/// Those of the HTTP layers.
pub(super) fn http(
    config: &Config,
    public_url: Url,
    bound: SocketAddr,
    random: Arc<dyn Random>,
) -> http::GuardSettings {
    http::GuardSettings {
        public_url,
        bound: if bound.ip().is_loopback() { http::Bound::Loopback } else { http::Bound::Network },
        hosts: config.http.allowed_hosts.clone(),
        origins: config.http.allowed_origins.clone(),
        trusted_proxies: config.http.trusted_proxies.clone(),
        body_limit: config.limits.request_body,
        requests_per_address: config.limits.connections_per_address,
        random,
    }
}

/// Those of the connections. Raises the limit of open descriptors, since the maximum number of connections derives from
/// it.
pub(super) fn listener(config: &Config) -> listener::ListenerSettings {
    let limits = &config.limits;
    let possible = descriptors::connections(descriptors::raise(), reserved(config));
    let connections = match limits.connections {
        Some(wanted) if wanted > possible => {
            tracing::warn!(wanted, possible, "the limit on open files does not allow the configured connections");
            possible
        }
        Some(wanted) => wanted,
        None => possible.min(descriptors::MAX_CONNECTIONS),
    };
    tracing::info!(connections, "the bound of connections");
    listener::ListenerSettings {
        connections,
        connections_per_address: limits.connections_per_address,
        proxies: config.http.trusted_proxies.clone(),
        timeouts: listener::Timeouts { head: limits.head_timeout, body: limits.body_timeout, idle: limits.keep_alive },
    }
}

/// The threads that serve connections: one for each core that this process may use.
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
