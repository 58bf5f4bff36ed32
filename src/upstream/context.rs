//! Dependencies of the gateway as a client.

use std::{fmt, sync::Arc, time::Duration};

use url::Url;

use super::{recent_discoveries::RecentDiscoveries, sign_assertion::SignAssertion};
use crate::{
    audit::Audit,
    fetch::{Fetcher, OpenClient},
    model::{AccessChange, AccessChanges, AccessEffect, BackendId, DiscoveredNetwork, ServerAccess, UserId},
    oauth_client::OAuthHttp,
    storage::Storage,
    support::{Clock, Random, SealingKey, Timestamp, limits::Buckets},
    vault::Vault,
};

/// Repeated registrations at one issuer: the number allowed at once, and the time until one more is allowed.
const REGISTRATIONS: (u32, Duration) = (3, Duration::from_mins(20));

/// Dependencies of the gateway as a client.
pub struct UpstreamDeps {
    pub storage: Storage,
    /// Seals tokens.
    pub vault: Vault,
    /// Seals the tickets in the addresses of pages.
    pub ticket_key: SealingKey,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    /// Public URL of the gateway, without a trailing slash.
    pub issuer: String,
    /// Signs the gateway's assertions.
    pub sign: SignAssertion,
    /// Reaches URLs named by servers.
    pub fetcher: Fetcher,
    /// Reaches URLs named by servers that the operator trusts with the gateway's network.
    pub open: OpenClient,
    pub audit: Audit,
}

/// The dependencies, with the state that this module shares. Cheap to clone.
#[derive(Clone)]
pub(super) struct UpstreamContext {
    pub(super) storage: Storage,
    pub(super) vault: Vault,
    pub(super) ticket_key: SealingKey,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
    pub(super) issuer: Arc<str>,
    pub(super) sign: SignAssertion,
    pub(super) audit: Audit,
    pub(super) discoveries: Arc<RecentDiscoveries>,
    /// Limits repeated registrations, by issuer: the authorization server has forgotten the earlier one.
    pub(super) registrations: Arc<Buckets<String>>,
    fetcher: Fetcher,
    open_http: OAuthHttp,
    pub(super) changes: AccessChanges,
}

// === impl UpstreamContext ===

impl UpstreamContext {
    pub(super) fn new(deps: UpstreamDeps) -> Self {
        let UpstreamDeps { storage, vault, ticket_key, clock, random, issuer, sign, fetcher, open, audit } = deps;
        let (issuer, open_http, changes) = (issuer.into(), OAuthHttp::open(open), ServerAccess::announcer());
        Self {
            storage,
            vault,
            ticket_key,
            clock,
            random,
            issuer,
            sign,
            audit,
            discoveries: Arc::default(),
            registrations: Arc::new(Buckets::new(REGISTRATIONS.0, REGISTRATIONS.1)),
            fetcher,
            open_http,
            changes,
        }
    }

    /// The client for requests to a server and to URLs it names.
    pub(super) fn http(&self, server: &Url, network: DiscoveredNetwork) -> OAuthHttp {
        match network {
            DiscoveredNetwork::Public => OAuthHttp::guarded(self.fetcher.clone(), server),
            DiscoveredNetwork::Any => self.open_http.clone(),
        }
    }

    /// Announces that a user's access to a server has changed.
    pub(super) fn announce(&self, user: &UserId, backend: &BackendId, effect: AccessEffect) {
        // it fails only if nobody listens
        let _ = self.changes.send(AccessChange { user: user.clone(), backend: backend.clone(), effect });
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl fmt::Debug for UpstreamContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpstreamContext")
    }
}
