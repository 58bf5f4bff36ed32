//! JSON documents of strangers, read once and kept for as long as their hosts say (`OA-51`). The caller supplies the
//! parser.
//!
//! Strangers name the documents, so the cache is bounded, and each request is charged to its cause. Failures and
//! invalid documents are never kept. Concurrent readers of one document share one request.

use std::{any::Any, collections::HashMap, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{
    FutureExt as _,
    future::{Shared, WeakShared},
};
use http::{HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use url::Url;

use super::{
    budget::{FetchBudget, FetchLimit},
    error::FetchError,
    fetcher::{FetchRules, Fetcher},
    freshness::lifetime,
    request::FetchRequest,
};
use crate::{
    model::ClientIp,
    support::{Clock, Timestamp},
};

/// Maximum number of kept documents; the least requested go first.
const MAX_DOCUMENTS: u64 = 1000;
/// For this long after a failure, a stale copy is used without another request.
const RETRY_AFTER: Duration = Duration::from_mins(1);

/// Documents of one kind. Cheap to clone.
pub struct Documents<T>(Arc<Shelf<T>>);

struct Shelf<T> {
    fetcher: Fetcher,
    rules: FetchRules,
    budget: Arc<FetchBudget>,
    clock: Arc<dyn Clock>,
    reader: DocumentReader<T>,
    /// Values of type `Kept<T>`. Without a `T` here, the program contains the cache's code only once.
    kept: moka::sync::Cache<Url, Arc<dyn Any + Send + Sync>>,
    under_way: Mutex<HashMap<Url, WeakShared<Reading<T>>>>,
}

/// Reads a document from its URL; the error is the reason why it is invalid.
pub type DocumentReader<T> = Box<dyn Fn(&Url, &[u8]) -> Result<T, String> + Send + Sync>;

type Reading<T> = Pin<Box<dyn Future<Output = Result<FetchedDocument<T>, DocumentError>> + Send>>;

#[derive(Debug)]
pub struct FetchedDocument<T> {
    /// Its content.
    pub content: Arc<T>,
    /// Time of its host's last confirmation.
    pub confirmed: Timestamp,
}

struct Kept<T> {
    document: FetchedDocument<T>,
    etag: Option<HeaderValue>,
    fresh_until: Timestamp,
    /// After a failure: when it is requested again although a stale copy would do.
    retry: Timestamp,
}

/// Why there is no document. As [`FetchError`], for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// Too many documents were requested.
    #[error("too many documents were asked for; the next request is possible in {:?}", .0.wait)]
    Limited(FetchLimit),
    /// There is no response.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The response is not 200.
    #[error("the host answered {0}")]
    Status(StatusCode),
    /// The document is invalid.
    #[error("{0}")]
    Invalid(String),
}

// === impl Documents ===

impl<T: Send + Sync + 'static> Documents<T> {
    /// No documents yet; requests follow `rules` and are charged to `budget`.
    pub fn new(
        fetcher: Fetcher,
        rules: FetchRules,
        budget: Arc<FetchBudget>,
        clock: Arc<dyn Clock>,
        reader: DocumentReader<T>,
    ) -> Self {
        let kept = moka::sync::Cache::new(MAX_DOCUMENTS);
        Self(Arc::new(Shelf { fetcher, rules, budget, clock, reader, kept, under_way: Mutex::default() }))
    }

    /// The document at `url`, not older than its host allows.
    ///
    /// # Errors
    ///
    /// See [`DocumentError`]. A request is charged to `source`, if a stranger caused it and the document was not valid
    /// before.
    pub async fn read(&self, url: &Url, source: Option<ClientIp>) -> Result<FetchedDocument<T>, DocumentError> {
        let now = self.0.clock.now();
        if let Some(kept) = self.0.kept(url).filter(|kept| now < kept.fresh_until) {
            return Ok(kept.document.clone());
        }
        self.reading(url, source, now)?.await
    }

    /// As [`Self::read`], but on failure, a copy confirmed at most `tolerance` ago.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub async fn read_or_stale(
        &self,
        url: &Url,
        source: Option<ClientIp>,
        tolerance: Duration,
    ) -> Result<FetchedDocument<T>, DocumentError> {
        let now = self.0.clock.now();
        let stale = self.0.kept(url).filter(|kept| now.since(kept.document.confirmed) <= tolerance);
        if let Some(kept) = stale.as_ref().filter(|kept| now < kept.retry) {
            return Ok(kept.document.clone());
        }
        match (self.read(url, source).await, stale) {
            (Err(error), Some(kept)) => {
                tracing::warn!(%url, %error, "a document cannot be read; an earlier copy is used");
                let document = kept.document.clone();
                self.0.keep(url, Kept { retry: now + RETRY_AFTER, ..Kept::clone(&kept) });
                Ok(document)
            }
            (outcome, _) => outcome,
        }
    }

    /// Reads the document again, unless it was confirmed within `pause`.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub async fn read_again(
        &self,
        url: &Url,
        source: Option<ClientIp>,
        pause: Duration,
    ) -> Result<FetchedDocument<T>, DocumentError> {
        let now = self.0.clock.now();
        match self.0.kept(url) {
            Some(kept) if now.since(kept.document.confirmed) < pause || now < kept.retry => Ok(kept.document.clone()),
            _ => self.reading(url, source, now)?.await,
        }
    }

    /// Adds a copy kept elsewhere, unless there already is one. It counts as stale.
    pub fn remember(&self, url: &Url, content: T, confirmed: Timestamp) {
        if !self.0.kept.contains_key(url) {
            let document = FetchedDocument { content: Arc::new(content), confirmed };
            self.0.keep(url, Kept { document, etag: None, fresh_until: confirmed, retry: confirmed });
        }
    }

    /// The request for the document: a running one, or a new one, which is charged.
    fn reading(
        &self,
        url: &Url,
        source: Option<ClientIp>,
        now: Timestamp,
    ) -> Result<Shared<Reading<T>>, DocumentError> {
        let mut under_way = self.0.under_way.lock();
        if let Some(reading) = under_way.get(url).and_then(WeakShared::upgrade) {
            return Ok(reading);
        }
        let charged = match source.filter(|_| !self.0.kept.contains_key(url)) {
            Some(source) => self.0.budget.take_unknown(source, url, now),
            None => self.0.budget.take_known(url, now),
        };
        charged.map_err(DocumentError::Limited)?;
        // readers that gave up leave an entry
        under_way.retain(|_, reading| reading.upgrade().is_some());
        let (documents, wanted) = (Arc::clone(&self.0), url.clone());
        let reading: Reading<T> = Box::pin(async move {
            let outcome = documents.request(&wanted).await;
            documents.under_way.lock().remove(&wanted);
            outcome
        });
        let reading = reading.shared();
        under_way.extend(reading.downgrade().map(|weak| (url.clone(), weak)));
        Ok(reading)
    }
}

// === impl Shelf ===

impl<T: Send + Sync + 'static> Shelf<T> {
    fn kept(&self, url: &Url) -> Option<Arc<Kept<T>>> {
        self.kept.get(url)?.downcast().ok()
    }

    fn keep(&self, url: &Url, kept: Kept<T>) {
        self.kept.insert(url.clone(), Arc::new(kept));
    }

    /// Requests the document, or the confirmation that the copy is still valid (RFC 9110 13.1.2).
    async fn request(&self, url: &Url) -> Result<FetchedDocument<T>, DocumentError> {
        let kept = self.kept(url);
        let mut request = FetchRequest::get(url.clone());
        if let Some(etag) = kept.as_ref().and_then(|kept| kept.etag.clone()) {
            request = request.header(header::IF_NONE_MATCH, etag);
        }
        let response = self.fetcher.send(request, &self.rules).await?;
        let content = match (response.status(), &kept) {
            (StatusCode::NOT_MODIFIED, Some(kept)) => Arc::clone(&kept.document.content),
            (StatusCode::OK, _) => Arc::new(self.parse(url, response.body())?),
            (status, _) => return Err(DocumentError::Status(status)),
        };
        let confirmed = self.clock.now();
        let etag = response.headers().get(header::ETAG).cloned();
        let document = FetchedDocument { content, confirmed };
        let fresh_until = confirmed + lifetime(response.headers());
        let etag = etag.or_else(|| kept.filter(|_| response.status() == StatusCode::NOT_MODIFIED)?.etag.clone());
        self.keep(url, Kept { document: document.clone(), etag, fresh_until, retry: confirmed });
        Ok(document)
    }

    fn parse(&self, url: &Url, body: &Bytes) -> Result<T, DocumentError> {
        (self.reader)(url, body).map_err(DocumentError::Invalid)
    }
}

// === clones, also of what cannot be cloned itself ===

impl<T> Clone for Documents<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Clone for FetchedDocument<T> {
    fn clone(&self) -> Self {
        Self { content: Arc::clone(&self.content), confirmed: self.confirmed }
    }
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        let Self { document, etag, fresh_until, retry } = self;
        Self { document: document.clone(), etag: etag.clone(), fresh_until: *fresh_until, retry: *retry }
    }
}
