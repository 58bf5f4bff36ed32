//! Browser sessions in the store (`OA-69`): 128 random bits in a cookie, a digest of them at rest, 30 minutes idle,
//! 8 hours at most. Knows nothing of what the pages remember, but for the key of the login.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use tower_sessions::{
    SessionManagerLayer, SessionStore,
    cookie::SameSite,
    session::{Id, Record},
    session_store,
};
use url::Url;

use super::{State, visit};
use crate::{
    storage::{self, BrowserSession, Storage},
    support::{Clock, Digest, Random},
};

/// How long a session may lie unused.
const IDLE: Duration = Duration::from_mins(30);

/// How long a session lives, however much it is used.
const ABSOLUTE: Duration = Duration::from_hours(8);

/// How exactly the last use is known; it spares a write per page.
const TOUCH: Duration = Duration::from_mins(1);

/// How many sessions without a login there may be.
const ANONYMOUS: u32 = 10_000;

/// The session store on the gateway's own database.
#[derive(Clone)]
pub(super) struct Store {
    storage: Storage,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

/// The layer that reads and writes the session cookie. Toward https the name has the prefix `__Host-`, by which
/// browsers bind it to this very host; a loopback gateway without TLS cannot have that.
pub(super) fn layer(store: Store, public_url: &Url) -> SessionManagerLayer<Store> {
    let https = public_url.scheme() == "https";
    // without an expiry of its own the cookie ends with the browser; the server's limits are stricter anyway
    SessionManagerLayer::new(store)
        .with_name(if https { "__Host-lockkeeper" } else { "lockkeeper" })
        .with_secure(https)
        .with_http_only(true)
        .with_same_site(SameSite::Lax)
        .with_path("/")
}

// === impl Store ===

impl Store {
    pub(super) fn new(state: &State) -> Self {
        let (clock, random) = (Arc::clone(&state.clock), Arc::clone(&state.random));
        Self { storage: state.storage.clone(), clock, random }
    }

    fn row(&self, record: &Record) -> session_store::Result<BrowserSession> {
        let now = self.clock.now();
        let data = serde_json::to_string(&record.data).map_err(|error| encode(&error))?;
        let key = visit::key_in(&record.data);
        Ok(BrowserSession { id: digest(&record.id), key, data, created: now, used: now })
    }
}

#[async_trait]
impl SessionStore for Store {
    async fn create(&self, record: &mut Record) -> session_store::Result<()> {
        let random: &dyn Random = &*self.random;
        record.id = Id(i128::from_le_bytes(random.bytes()));
        let now = self.clock.now();
        // a session begins: the time to sweep out what ended
        self.storage.delete_stale_browser_sessions(now - IDLE, now - ABSOLUTE).await.map_err(backend)?;
        self.storage.trim_anonymous_browser_sessions(ANONYMOUS).await.map_err(backend)?;
        self.storage.add_browser_session(&self.row(record)?).await.map_err(backend)
    }

    async fn save(&self, record: &Record) -> session_store::Result<()> {
        self.storage.update_browser_session(&self.row(record)?).await.map_err(backend)
    }

    async fn load(&self, id: &Id) -> session_store::Result<Option<Record>> {
        let digest = digest(id);
        let Some(row) = self.storage.lookup_browser_session(&digest).await.map_err(backend)? else { return Ok(None) };
        let now = self.clock.now();
        if now >= row.used + IDLE || now >= row.created + ABSOLUTE {
            self.storage.delete_browser_session(&digest).await.map_err(backend)?;
            return Ok(None);
        }
        if now >= row.used + TOUCH {
            self.storage.touch_browser_session(&digest, now).await.map_err(backend)?;
        }
        let data = serde_json::from_str(&row.data).map_err(|error| session_store::Error::Decode(error.to_string()))?;
        // the limits are those above; this date is never looked at
        let expiry_date = time::OffsetDateTime::UNIX_EPOCH;
        Ok(Some(Record { id: *id, data, expiry_date }))
    }

    async fn delete(&self, id: &Id) -> session_store::Result<()> {
        self.storage.delete_browser_session(&digest(id)).await.map_err(backend)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

fn digest(id: &Id) -> Digest {
    Digest::sha256(id.to_string())
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` gives the error away")]
fn backend(error: storage::Error) -> session_store::Error {
    session_store::Error::Backend(error.to_string())
}

fn encode(error: &serde_json::Error) -> session_store::Error {
    session_store::Error::Encode(error.to_string())
}
