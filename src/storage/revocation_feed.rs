//! The feed of revocations, on connections of its own: a read waits for no other query, and a connection that does not
//! answer is replaced.

use std::time::Duration;

use sqlx::{AnyConnection, ConnectOptions as _, postgres::PgListener};
use tokio::time::timeout;

use super::{
    database::{Database, Engine, LOCK_TIMEOUT, StorageError},
    revocations::{self, CHANNEL, Revocation, RevocationTable},
};

/// Maximum time for one read from a server.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads new revocations, continuing after the last one read.
#[derive(Debug)]
pub struct RevocationFeed {
    database: Database,
    /// Connection to a database server. Absent during a read, so that an interrupted connection is not used again.
    connection: Option<AnyConnection>,
    seen: i64,
}

/// Notices of new revocations. A file has none: its readers poll.
pub struct RevocationNotices {
    database: Database,
    listener: Option<PgListener>,
}

// === impl RevocationFeed ===

impl RevocationFeed {
    /// Maximum number of revocations in one read.
    pub const PAGE: usize = 1000;

    /// The revocations from here on.
    pub(super) async fn open(database: Database) -> Result<Self, StorageError> {
        let seen = RevocationTable(&database).newest().await?;
        Ok(Self { database, connection: None, seen })
    }

    /// The revocations since the last read, in order; at most [`Self::PAGE`]. A database server gets 1 s to answer.
    pub async fn read(&mut self) -> Result<Vec<Revocation>, StorageError> {
        let news = match self.database.engine {
            Engine::Sqlite => RevocationTable(&self.database).after(self.seen).await?,
            Engine::PostgreSql => {
                timeout(READ_TIMEOUT, self.read_from_server()).await.map_err(|_| StorageError::Silent)??
            }
        };
        self.seen = news.last().map_or(self.seen, |(sequence, _)| *sequence);
        Ok(news.into_iter().map(|(_, revocation)| revocation).collect())
    }

    async fn read_from_server(&mut self) -> Result<Vec<(i64, Revocation)>, StorageError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.database.pool.connect_options().connect().await?,
        };
        let news = revocations::after(&mut connection, self.seen).await?;
        self.connection = Some(connection);
        Ok(news)
    }
}

// === impl RevocationNotices ===

impl RevocationNotices {
    pub(super) const fn new(database: Database) -> Self {
        Self { database, listener: None }
    }

    /// Waits for a notice. Also returns if some may have been missed: at the start, and after an error.
    pub async fn next(&mut self) -> Result<(), StorageError> {
        let Some(listener) = &mut self.listener else {
            if self.database.engine == Engine::Sqlite {
                return std::future::pending().await;
            }
            let listener = timeout(LOCK_TIMEOUT, listen(&self.database)).await.map_err(|_| StorageError::Silent)??;
            self.listener = Some(listener);
            return Ok(());
        };
        // `None` if the connection was lost
        let notice = listener.try_recv().await;
        if !matches!(notice, Ok(Some(_))) {
            self.close();
        }
        notice.map(drop).map_err(StorageError::from)
    }

    /// Gives up the connection; the next call makes another.
    pub fn close(&mut self) {
        self.listener = None;
    }
}

async fn listen(database: &Database) -> Result<PgListener, StorageError> {
    let options = database.pool.connect_options();
    let mut listener = PgListener::connect(options.database_url.as_str()).await?;
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    Ok(listener)
}
