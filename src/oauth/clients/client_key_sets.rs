//! The keys of clients that sign their assertions, from their registration or from a URL that they name (`jwks_uri`;
//! `OA-38`).
//!
//! The client chooses the URL when it registers, and anyone who knows the client's id can make the gateway read it. So
//! each request is charged to the address that caused it, and an unknown key makes the gateway read again only once in
//! a while.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use url::Url;

use super::client_keys::ClientKeySet;
use crate::{
    fetch::{DocumentError, Documents, FetchBudget, FetchRules, FetchedDocument},
    model::{ClientIp, ClientKeys},
    oauth::oauth_settings::OAuthSettings,
    support::Clock,
};

/// Maximum size of a set at a URL, in bytes.
const MAX_SET: usize = 32 * 1024;
/// Maximum time to read one, to the last byte of its body.
const DEADLINE: Duration = Duration::from_secs(5);
/// Maximum age of a copy that is used while its host does not answer (`OA-51`).
const TOLERANCE: Duration = Duration::from_hours(24);
/// Time after a reading in which unknown keys do not cause another.
const PAUSE: Duration = Duration::from_secs(30);
/// Maximum length of a URL.
const MAX_URL: usize = 2048;

/// The keys of clients.
pub(super) struct ClientKeySets {
    /// Sets at URLs; `None` if the gateway makes no requests.
    documents: Option<Documents<ClientKeySet>>,
}

/// Why there are no keys, for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoKeys {
    /// The registration has no readable ones.
    #[error("its keys cannot be read")]
    Unreadable,
    /// They are at a URL, and requests are off.
    #[error("its keys are at a URL, and the gateway makes no requests")]
    NoRequests,
    /// Reading them from the URL failed.
    #[error("its keys cannot be read at its jwks_uri: {0}")]
    Document(#[from] DocumentError),
}

impl ClientKeySets {
    pub(super) fn new(settings: &OAuthSettings, clock: Arc<dyn Clock>) -> Self {
        let documents = settings.fetcher.as_ref().map(|fetcher| {
            let rules = FetchRules { reach: settings.reach(), max_body: MAX_SET, deadline: DEADLINE };
            let reader = Box::new(|_: &Url, body: &[u8]| read(body));
            Documents::new(fetcher.clone(), rules, Arc::new(FetchBudget::default()), clock, reader)
        });
        Self { documents }
    }

    /// The keys of a client. A request for them is charged to `from`.
    pub(super) async fn of(&self, keys: &ClientKeys, from: ClientIp) -> Result<Arc<ClientKeySet>, NoKeys> {
        match keys {
            ClientKeys::Inline(set) => read(set.as_bytes()).map(Arc::new).map_err(|_| NoKeys::Unreadable),
            ClientKeys::Url(url) => {
                let documents = self.documents.as_ref().ok_or(NoKeys::NoRequests)?;
                let FetchedDocument { content, .. } = documents.read_or_stale(url, Some(from), TOLERANCE).await?;
                Ok(content)
            }
        }
    }

    /// The same after an assertion that may be signed with a newer key; `None` if the keys cannot have changed.
    pub(super) async fn again(&self, keys: &ClientKeys, from: ClientIp) -> Option<Arc<ClientKeySet>> {
        let ClientKeys::Url(url) = keys else { return None };
        let read = self.documents.as_ref()?.read_again(url, Some(from), PAUSE).await;
        read.ok().map(|FetchedDocument { content, .. }| content)
    }
}

fn read(set: &[u8]) -> Result<ClientKeySet, String> {
    let set: Value = serde_json::from_slice(set).map_err(|_| "it is not JSON".to_owned())?;
    ClientKeySet::parse(&set).map_err(|problem| problem.to_string())
}

/// The URL of a client's keys: https, and nothing that does not belong in an address.
///
/// # Errors
///
/// The reason, for the client's developers.
pub(super) fn jwks_url(text: &str) -> Result<Url, &'static str> {
    const REASON: &str = "jwks_uri is not an https URL of at most 2048 characters, without user and fragment";
    let url = Url::parse(text).map_err(|_| REASON)?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    let is_address = url.scheme() == "https" && !has_user && url.fragment().is_none();
    if is_address && text.len() <= MAX_URL { Ok(url) } else { Err(REASON) }
}
