//! The gateway as a client: of protected servers, of login providers, and for documents of clients.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::Context as _;
use url::Url;

use super::call_path::World;
use crate::{
    config::{Config, PublicUrl},
    doctor::CLIENTS,
    fetch::{Fetcher, OpenClient},
    model::NetworkSpec,
    oauth::OAuth,
    openid::{OpenIdDeps, Providers},
    storage::Storage,
    support::SealingKey,
    upstream::{SignAssertion, Upstream, UpstreamDeps},
    vault::Vault,
};

/// Builds the client for protected servers.
pub(super) fn upstream_client(
    config: &Config,
    oauth: &OAuth,
    storage: &Storage,
    master: &SealingKey,
    public_url: &PublicUrl,
    world: &World,
) -> anyhow::Result<Upstream> {
    let (clock, random) = (Arc::clone(&world.clock), Arc::clone(&world.random));
    let (signer, egress) = (oauth.clone(), &config.auth.egress);
    let deps = UpstreamDeps {
        storage: storage.clone(),
        vault: Vault::new(storage.clone(), master.clone(), Arc::clone(&clock), Arc::clone(&random)),
        ticket_key: master.for_purpose("connect tickets"),
        clock,
        random,
        issuer: public_url.as_str().to_owned(),
        sign: SignAssertion::new(move |claims| signer.signing_keys().sign("JWT", claims).ok()),
        fetcher: world.fetcher.clone().map_or_else(|| Fetcher::system(egress), Ok)?,
        open: OpenClient::new(&NetworkSpec::default(), &config.environment.to_strings())?,
        audit: oauth.audit().clone(),
    };
    Ok(Upstream::new(deps, &config.backends, world.tracker.clone(), world.cancel.child_token()))
}

/// Hosts of the metadata documents of well-known clients. The gateway uses them to check its own network.
pub(super) fn document_hosts() -> Vec<String> {
    let urls = CLIENTS.iter().filter_map(|client| Url::parse(client.document?.url).ok());
    let hosts: BTreeSet<String> = urls.filter_map(|url| url.host_str().map(str::to_owned)).collect();
    hosts.into_iter().collect()
}

/// The OpenID providers for logins.
pub(super) fn login_providers(
    config: &Config,
    state_key: &SealingKey,
    public_url: &PublicUrl,
    world: &World,
) -> anyhow::Result<Providers> {
    if config.login.is_empty() {
        return Ok(Providers::default());
    }
    let fetcher = world.fetcher.clone();
    let fetcher = fetcher.map_or_else(|| Fetcher::system(&config.auth.egress), Ok);
    let deps = OpenIdDeps {
        fetcher: fetcher.context("no TLS for the login providers")?,
        clock: Arc::clone(&world.clock),
        random: Arc::clone(&world.random),
        key: state_key.for_purpose("logins at providers"),
        root: public_url.as_str().to_owned(),
    };
    Ok(Providers::new(config.login.clone(), deps))
}
