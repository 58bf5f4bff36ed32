//! Clients whose id is the URL of their metadata document (Client ID Metadata Documents; `OA-45` to `OA-54`).

mod client_url;
mod egress_health;
mod metadata_document;

use std::{sync::Arc, time::Duration};

use hashlink::LruCache;
use parking_lot::Mutex;

pub(in crate::oauth) use self::client_url::ClientUrl;
use self::egress_health::EgressHealth;
pub(crate) use self::metadata_document::ClientDocument;
use crate::{
    fetch::{DocumentError, Documents, EgressFault, FetchBudget, FetchRules, FetchedDocument},
    model::{Client, ClientDocumentPolicy, ClientId, ClientIp},
    oauth::oauth_settings::OAuthSettings,
    support::{Clock, Digest, Timestamp},
};

/// Maximum size of a document, in bytes (`OA-46`).
const MAX_DOCUMENT: usize = 5 * 1024;
/// Maximum time to read one, to the last byte of its body (`OA-46`).
const DEADLINE: Duration = Duration::from_secs(5);
/// Maximum number of clients whose last outcome is remembered.
const MAX_OUTCOMES: usize = 1000;
/// Maximum age of a copy that is used while its host does not answer (`OA-51`).
const TOLERANCE: Duration = Duration::from_hours(24);

/// The documents of trusted clients.
pub(in crate::oauth) struct ClientDocuments {
    documents: Documents<ClientDocument>,
    /// Digests of the last outcomes, by client, so that a repeated outcome is not recorded again.
    outcomes: Mutex<LruCache<ClientId, Digest>>,
    policy: ClientDocumentPolicy,
    schemes: Vec<String>,
    health: EgressHealth,
}

/// Support for documents as the metadata announces it (`OA-11`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::oauth) enum ClientDocumentSupport {
    Announced,
    /// No documents are read, or this gateway reaches no host.
    Unannounced,
}

/// Why there is no such client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum DocumentProblem {
    /// The operator does not trust the host.
    #[error("the configuration does not trust its host")]
    Untrusted,
    /// The document cannot be read, or is invalid.
    #[error(transparent)]
    Unreadable(#[from] DocumentError),
    /// The document cannot be read, because of this gateway's own network.
    #[error("{error}; this gateway cannot read documents: {fault}")]
    NoEgress {
        /// The failure of this document.
        error: DocumentError,
        fault: EgressFault,
    },
}

// === impl ClientDocumentSupport ===

impl ClientDocumentSupport {
    /// The announcement of these documents.
    pub(in crate::oauth) fn of(documents: Option<&ClientDocuments>) -> Self {
        let is_announced = documents.is_some_and(|documents| documents.health.fault().is_none());
        if is_announced { Self::Announced } else { Self::Unannounced }
    }
}

// === impl ClientDocuments ===

impl ClientDocuments {
    /// `None` if the configuration turns them off, or nothing can be requested.
    pub(in crate::oauth) fn new(settings: &OAuthSettings, clock: Arc<dyn Clock>) -> Option<Self> {
        let fetcher = settings.fetcher.as_ref().filter(|_| settings.reads_client_documents())?;
        let policy = settings.policy.get().client_documents.clone();
        let rules = FetchRules { reach: settings.reach(), max_body: MAX_DOCUMENT, deadline: DEADLINE };
        let schemes = settings.policy.get().redirect_schemes.clone();
        let allowed = schemes.clone();
        let reader = Box::new(move |url: &url::Url, body: &[u8]| ClientDocument::parse(url, body, &allowed));
        let health = EgressHealth::new(fetcher.clone(), settings.document_hosts.clone(), Arc::clone(&clock));
        let documents = Documents::new(fetcher.clone(), rules, Arc::new(FetchBudget::default()), clock, reader);
        Some(Self { documents, outcomes: Mutex::new(LruCache::new(MAX_OUTCOMES)), policy, schemes, health })
    }

    /// Reads the client as its document describes it now. The request is charged to `source`, unless the client has a
    /// consent.
    pub(super) async fn read(&self, url: &ClientUrl, source: Option<ClientIp>) -> Result<Client, DocumentProblem> {
        self.check_trust(url)?;
        let read = self.documents.read(url.url(), source).await;
        self.judged(url, read).await
    }

    /// Reads the client as its document describes it now. If the host does not answer, a description from the last 24
    /// hours is used.
    pub(super) async fn read_or_stale(&self, url: &ClientUrl) -> Result<Client, DocumentProblem> {
        self.check_trust(url)?;
        let read = self.documents.read_or_stale(url.url(), None, TOLERANCE).await;
        self.judged(url, read).await
    }

    /// The client of an outcome. The outcome also shows whether this gateway's own network works.
    async fn judged(
        &self,
        url: &ClientUrl,
        read: Result<FetchedDocument<ClientDocument>, DocumentError>,
    ) -> Result<Client, DocumentProblem> {
        match read {
            Ok(document) => {
                self.health.confirmed(document.confirmed);
                Ok(client(&document))
            }
            Err(DocumentError::Fetch(failure)) => {
                let fault = self.health.failed(url.url(), &failure).await;
                let error = DocumentError::Fetch(failure);
                Err(match fault {
                    Some(fault) => DocumentProblem::NoEgress { error, fault },
                    None => error.into(),
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Adds a copy from the database, for when the host does not answer.
    pub(super) fn remember(&self, url: &ClientUrl, text: &str, read: Timestamp) {
        if let Ok(copy) = ClientDocument::parse(url.url(), text.as_bytes(), &self.schemes) {
            self.documents.remember(url.url(), copy, read);
        }
    }

    /// True if the last reading of this client's document ended differently. The audit trail has one row for each such
    /// change, no matter how often strangers name the client.
    pub(super) fn is_news(&self, client: &ClientId, outcome: &str) -> bool {
        let outcome = Digest::sha256(outcome);
        self.outcomes.lock().insert(client.clone(), outcome) != Some(outcome)
    }

    fn check_trust(&self, url: &ClientUrl) -> Result<(), DocumentProblem> {
        if self.policy.allows(url.host()) { Ok(()) } else { Err(DocumentProblem::Untrusted) }
    }
}

/// The client of a document. Its creation time is when its host last confirmed the document.
fn client(document: &FetchedDocument<ClientDocument>) -> Client {
    document.content.client(document.confirmed)
}
