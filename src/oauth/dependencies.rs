//! Dependencies shared by all services of the authorization server.

use std::sync::Arc;

use super::{clients::client_documents::ClientDocuments, oauth_settings::OAuthSettings, rate_limits::RateLimits};
use crate::{
    audit::Audit,
    storage::Storage,
    support::{Clock, Random, Timestamp},
};

/// The store, time, randomness, settings and rate limits. Cheap to clone.
#[derive(Clone)]
pub(super) struct OAuthDeps {
    pub(super) storage: Storage,
    pub(super) audit: Audit,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
    pub(super) settings: Arc<OAuthSettings>,
    pub(super) limits: Arc<RateLimits>,
    /// Clients described by a metadata document, if these are accepted.
    pub(super) client_documents: Option<Arc<ClientDocuments>>,
}

impl OAuthDeps {
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The operator, with the name of the operating system's user if this is a command.
    pub(super) fn operator(&self) -> String {
        self.settings.operator.as_ref().map_or_else(|| "operator".to_owned(), |name| format!("operator {name}"))
    }
}
