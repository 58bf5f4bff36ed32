//! Browser sessions (`OA-69`): 128 random bits in a cookie. A login stores a row with their digest, which is valid for
//! 30 minutes idle and 8 hours at most. Before a login nothing is stored, and any id is accepted. Of the session data,
//! this file reads only the key of the login.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tower_sessions::{
    SessionManagerLayer, SessionStore,
    cookie::SameSite,
    session::{self, Id, Record},
    session_store,
};

use super::state::{WebSettings, WebState};
use crate::{
    model::KeyId,
    storage::{self, BrowserSession, Storage},
    support::{Clock, Digest, Random},
};

/// Name of the login in the session data.
pub(super) const LOGIN: &str = "visit";

/// Maximum idle time of a session.
const IDLE: Duration = Duration::from_mins(30);

/// Maximum life of a session.
const ABSOLUTE: Duration = Duration::from_hours(8);

/// Precision of the time of last use: not every page writes it.
const TOUCH: Duration = Duration::from_mins(1);

/// Interval between deletions of expired sessions.
const SWEEP: Duration = Duration::from_mins(10);

/// Marks a busy database in errors of `tower_sessions`, which carry only text.
const BUSY: &str = "the database is busy";

/// Session store in the gateway's database.
#[derive(Clone)]
pub(super) struct BrowserSessionStore {
    storage: Storage,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

/// Middleware for the session cookie.
pub(super) fn layer(store: BrowserSessionStore, settings: &WebSettings) -> SessionManagerLayer<BrowserSessionStore> {
    // without an expiry of its own the cookie ends with the browser; the server's limits are stricter anyway
    SessionManagerLayer::new(store)
        .with_name(settings.cookie_name())
        .with_secure(settings.is_https())
        .with_http_only(true)
        .with_same_site(SameSite::Lax)
        .with_path("/")
}

// === impl BrowserSessionStore ===

impl BrowserSessionStore {
    pub(super) fn new(state: &WebState) -> Self {
        let (clock, random) = (Arc::clone(&state.clock), Arc::clone(&state.random));
        Self { storage: state.storage.clone(), clock, random }
    }

    /// The row of a session; none without a login.
    fn row(&self, record: &Record) -> session_store::Result<Option<BrowserSession>> {
        let Some(key) = key_in(&record.data) else { return Ok(None) };
        let now = self.clock.now();
        let data = serde_json::to_string(&record.data).map_err(|error| encode(&error))?;
        Ok(Some(BrowserSession { id: digest(&record.id), key, data, created: now, used: now }))
    }

    /// Deletes expired sessions; returns their number.
    async fn sweep(&self) -> Result<u64, storage::StorageError> {
        let now = self.clock.now();
        self.storage.for_purges().browser_sessions().delete_stale(now - IDLE, now - ABSOLUTE).await
    }

    /// Deletes expired sessions every 10 minutes, until `cancel`.
    pub(super) async fn keep_swept(self, cancel: CancellationToken) {
        let mut timer = tokio::time::interval(SWEEP);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while cancel.run_until_cancelled(timer.tick()).await.is_some() {
            if let Some(Err(error)) = cancel.run_until_cancelled(self.sweep()).await {
                tracing::warn!(%error, "expired browser sessions could not be deleted; tried again in 10 min");
            }
        }
    }
}

#[async_trait]
impl SessionStore for BrowserSessionStore {
    async fn create(&self, record: &mut Record) -> session_store::Result<()> {
        let random: &dyn Random = &*self.random;
        record.id = Id(i128::from_le_bytes(random.bytes()));
        match self.row(record)? {
            Some(row) => self.storage.browser_sessions().add(&row).await.map_err(backend),
            None => Ok(()),
        }
    }

    /// Writes changes. The middleware saves again after a page has saved; that second save writes nothing.
    async fn save(&self, record: &Record) -> session_store::Result<()> {
        let Some(row) = self.row(record)? else { return Ok(()) };
        let known = self.storage.browser_sessions().lookup(&row.id).await.map_err(backend)?;
        if known.is_some_and(|known| known.data == row.data) {
            return Ok(());
        }
        self.storage.browser_sessions().update(&row).await.map_err(backend)
    }

    async fn load(&self, id: &Id) -> session_store::Result<Option<Record>> {
        let digest = digest(id);
        let now = self.clock.now();
        let row = self.storage.browser_sessions().lookup(&digest).await.map_err(backend)?;
        let row = row.filter(|row| now < row.used + IDLE && now < row.created + ABSOLUTE);
        let data = match row {
            Some(row) => {
                if now >= row.used + TOUCH {
                    self.storage.browser_sessions().touch(&digest, now).await.map_err(backend)?;
                }
                serde_json::from_str(&row.data).map_err(|error| session_store::Error::Decode(error.to_string()))?
            }
            None => HashMap::new(),
        };
        // the limits above apply; this date is not used
        let expiry_date = time::OffsetDateTime::UNIX_EPOCH;
        Ok(Some(Record { id: *id, data, expiry_date }))
    }

    async fn delete(&self, id: &Id) -> session_store::Result<()> {
        self.storage.browser_sessions().delete(&digest(id)).await.map_err(backend)
    }
}

impl fmt::Debug for BrowserSessionStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrowserSessionStore").finish_non_exhaustive()
    }
}

/// True if the database was busy: a retry may succeed.
pub(super) fn is_busy(error: &session::Error) -> bool {
    matches!(error, session::Error::Store(session_store::Error::Backend(text)) if text == BUSY)
}

/// API key of the login; `None` without a login.
fn key_in(data: &HashMap<String, Value>) -> Option<KeyId> {
    data.get(LOGIN)?.get("key")?.as_str().map(KeyId::new)
}

fn digest(id: &Id) -> Digest {
    Digest::sha256(id.to_string())
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` gives the error away")]
fn backend(error: storage::StorageError) -> session_store::Error {
    session_store::Error::Backend(if error.is_busy() { BUSY.to_owned() } else { error.to_string() })
}

fn encode(error: &serde_json::Error) -> session_store::Error {
    session_store::Error::Encode(error.to_string())
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use http::{StatusCode, header};
    use serde_json::json;

    use super::*;
    use crate::{
        support::{ManualClock, SeededRandom},
        web::problem::Problem,
    };

    #[test]
    fn a_busy_database_is_answered_with_503() {
        let answer =
            |error| Problem::from(session::Error::from(backend(storage::StorageError::Query(error)))).into_response();
        let busy = answer(sqlx::Error::PoolTimedOut);
        assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(busy.headers().contains_key(header::RETRY_AFTER));
        assert_eq!(answer(sqlx::Error::PoolClosed).status(), StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[tokio::test]
    async fn an_expired_session_is_invalid_and_gets_deleted() {
        let clock = Arc::new(ManualClock::default());
        let storage = Storage::empty().await;
        let given: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let store = BrowserSessionStore { storage, clock: given, random: Arc::new(SeededRandom::new(1)) };
        let expiry_date = time::OffsetDateTime::UNIX_EPOCH;
        let data = HashMap::from([("visit".to_owned(), json!({ "key": "k1" }))]);
        let mut record = Record { id: Id(0), data, expiry_date };
        store.create(&mut record).await.unwrap();
        assert_ne!(record.id, Id(0), "an id is never chosen by the browser");
        assert_eq!(store.load(&record.id).await.unwrap().unwrap().data, record.data);
        assert_eq!(store.sweep().await.unwrap(), 0);
        clock.advance(IDLE);
        assert!(store.load(&record.id).await.unwrap().unwrap().data.is_empty());
        assert_eq!(store.sweep().await.unwrap(), 1);
    }
}
