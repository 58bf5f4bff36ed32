//! Opening a database: a file of SQLite, or a PostgreSQL server.

use std::{
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, any::AnyPoolOptions};
use tokio::time::timeout;
use url::Url;

use super::{
    Storage,
    database::{Database, Engine, LOCK_TIMEOUT, StorageError},
    file, migrations,
};

/// Maximum time for an idle connection to a server to answer before its use.
const PING_TIMEOUT: Duration = Duration::from_millis(500);

/// An idle connection to a server is closed after this time, since a server has few, for all replicas together.
const IDLE_FOR: Duration = Duration::from_secs(30);

/// Settings of a new file: it returns free pages (`free_pages`), which must be set before it has content.
const NEW: &str = "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL";

/// Settings of each connection to a file. None of them takes the lock of the database. The log of a large change does
/// not stay large.
const DURABLE: &str = "PRAGMA journal_mode = WAL; PRAGMA journal_size_limit = 16777216; PRAGMA synchronous = FULL";
const RELAXED: &str = "PRAGMA journal_mode = WAL; PRAGMA journal_size_limit = 16777216; PRAGMA synchronous = NORMAL";
/// For the connection that deletes expired rows. It checkpoints the log into the file early, so that a commit that a
/// request waits for need not.
const PURGING: &str = "PRAGMA journal_mode = WAL; PRAGMA journal_size_limit = 16777216; PRAGMA synchronous = NORMAL; \
                       PRAGMA wal_autocheckpoint = 250";

/// Settings of the connection for migrations: no notices about existing objects.
const QUIET: &str = "SET client_min_messages = warning";

/// Settings of each connection to a server: no endless wait for a lock or for a stalled server.
const LIMITED: &str = "SET lock_timeout = '5s'; SET statement_timeout = '10s'; \
                       SET idle_in_transaction_session_timeout = '30s'";
const LIMITED_RELAXED: &str = "SET lock_timeout = '5s'; SET statement_timeout = '10s'; \
                               SET idle_in_transaction_session_timeout = '30s'; SET synchronous_commit = off";

// === impl Storage ===

impl Storage {
    /// Opens the SQLite database at `path`: creates a missing file with mode 0600, enables WAL mode and foreign keys,
    /// waits up to 5 s for a lock, and runs the migrations.
    ///
    /// A commit is on the disk when it returns, except for commits of MCP sessions and of purges: these survive any end
    /// of the process, but not of the machine. A client whose session is gone opens another.
    pub async fn open(path: &Path) -> Result<Self, StorageError> {
        let (_lock, is_new) = prepare(path.to_owned()).await?;
        let url = file_url(path)?;
        let connect = |connections, settings| {
            let pool = AnyPoolOptions::new().max_connections(connections);
            Database::connect(pool, Engine::Sqlite, &url, settings)
        };
        if is_new {
            connect(1, NEW).await?.pool.close().await;
        }
        let database = connect(4, DURABLE).await?;
        migrations::run(&database).await?;
        let mcp_sessions = connect(2, RELAXED).await?;
        let purges = connect(1, PURGING).await?;
        Ok(Self { rounds: database.clone(), mcp_sessions, database, purges })
    }

    /// Connects to the PostgreSQL database at `url`, with up to 20 connections, and runs the migrations. Waits up to
    /// 5 s for a connection or a lock, and 10 s for an answer. Commits are as durable as those of [`Storage::open`].
    pub async fn connect(url: &str) -> Result<Self, StorageError> {
        let limited = |connections| {
            let pool = AnyPoolOptions::new().max_connections(connections).acquire_timeout(LOCK_TIMEOUT);
            let pool = pool.idle_timeout(IDLE_FOR);
            pool.test_before_acquire(false).before_acquire(|connection, _| Box::pin(answers(connection)))
        };
        // separate, since a migration may take a while
        let migrating = Database::connect(limited(1), Engine::PostgreSql, url, QUIET).await?;
        migrations::run(&migrating).await?;
        migrating.pool.close().await;
        let database = Database::connect(limited(13), Engine::PostgreSql, url, LIMITED).await?;
        let rounds = Database::connect(limited(2), Engine::PostgreSql, url, LIMITED).await?;
        // always open, since requests wait for them
        let kept_open = limited(4).min_connections(2);
        let mcp_sessions = Database::connect(kept_open, Engine::PostgreSql, url, LIMITED_RELAXED).await?;
        let purges = Database::connect(limited(1), Engine::PostgreSql, url, LIMITED_RELAXED).await?;
        Ok(Self { database, mcp_sessions, rounds, purges })
    }

    /// Opens the SQLite database at `path` for inspection: a missing one is not created, and no migration runs.
    pub async fn open_as_is(path: &Path) -> Result<Self, StorageError> {
        let url = file_url(path)?;
        let pool = AnyPoolOptions::new().max_connections(1);
        Ok(Self::of_one(Database::connect(pool, Engine::Sqlite, &url, "").await?))
    }

    /// Opens the SQLite database at `path` for a look. Nothing is written, and no file is made beside it; without a
    /// gateway, what a killed one wrote last is not seen.
    pub async fn open_to_look(path: &Path) -> Result<Self, StorageError> {
        let beside = |suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            Path::new(&name).exists()
        };
        // whoever opens the file in its ordinary way makes both, unless they are there
        let form = if beside("-wal") && beside("-shm") { "mode=ro" } else { "mode=ro&immutable=true" };
        let url = format!("{}?{form}", file_url(path)?);
        let pool = AnyPoolOptions::new().max_connections(1);
        Ok(Self::of_one(Database::connect(pool, Engine::Sqlite, &url, "").await?))
    }

    /// Connects to the PostgreSQL database at `url` for inspection: no migration runs.
    pub async fn connect_as_is(url: &str) -> Result<Self, StorageError> {
        let pool = AnyPoolOptions::new().max_connections(1).acquire_timeout(LOCK_TIMEOUT);
        Ok(Self::of_one(Database::connect(pool, Engine::PostgreSql, url, LIMITED).await?))
    }

    /// True if the migrations of any version have run, or if the database does not answer now.
    pub async fn has_tables(&self) -> bool {
        self.gateway_values().lookup("any").await.map_or_else(|error| error.is_busy(), |_| true)
    }

    /// Copies the database, as of one moment, into a new file that only this user can read. Only for a database in a
    /// file.
    pub async fn copy_into_file(&self, path: &Path) -> Result<(), StorageError> {
        let name = path.display().to_string();
        let failed = |source: io::Error| StorageError::File { path: name.clone(), source };
        let Some(text) = path.to_str() else { return Err(failed(io::ErrorKind::InvalidFilename.into())) };
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        // SQLite fills an empty file
        let file = options.open(path).map_err(failed)?;
        let copied = sqlx::query("VACUUM INTO $1").bind(text).execute(&self.database.pool).await;
        let copied = copied.map_err(StorageError::from).and_then(|_| file.sync_all().map_err(failed));
        if copied.is_err() {
            let _ = std::fs::remove_file(path);
        }
        copied
    }

    /// An empty database in memory, which ends with the process.
    pub async fn in_memory() -> Result<Self, StorageError> {
        let database = Database::in_memory().await?;
        migrations::run(&database).await?;
        Ok(Self::of_one(database))
    }

    /// An empty database for tests: in memory, or a new schema of the PostgreSQL database at `server`, which stays
    /// there.
    pub async fn for_tests(server: Option<&str>) -> Result<Self, StorageError> {
        static SCHEMAS: AtomicU32 = AtomicU32::new(0);
        let Some(server) = server else { return Self::in_memory().await };
        let schema = format!("test_{}_{}", std::process::id(), SCHEMAS.fetch_add(1, Ordering::Relaxed));
        let pool = AnyPoolOptions::new().max_connections(1);
        let database = Database::connect(pool, Engine::PostgreSql, server, "").await?;
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).execute(&database.pool).await?;
        database.pool.close().await;
        Self::connect(&format!("{server}?options[search_path]={schema}")).await
    }

    /// Uses the same connections for everything.
    fn of_one(database: Database) -> Self {
        Self { mcp_sessions: database.clone(), rounds: database.clone(), purges: database.clone(), database }
    }
}

// === impl Database ===

impl Database {
    /// A database in memory without tables. Its only connection keeps it alive.
    pub(super) async fn in_memory() -> Result<Self, StorageError> {
        let pool = AnyPoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
        Self::connect(pool, Engine::Sqlite, "sqlite::memory:", "").await
    }
}

/// Tests an idle connection before its use. After a network outage some never answer: each is given up soon.
async fn answers(connection: &mut AnyConnection) -> Result<bool, sqlx::Error> {
    let answer = timeout(PING_TIMEOUT, connection.ping()).await;
    answer.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into())).map(|()| true)
}

/// Creates the file and waits for its lock, on a blocking thread. True if the file is empty.
async fn prepare(path: PathBuf) -> Result<(file::Lock, bool), StorageError> {
    let name = path.display().to_string();
    let prepared = tokio::task::spawn_blocking(move || {
        // the file is closed again before SQLite opens it: closing it later would drop SQLite's own locks (POSIX fcntl)
        file::private(&path)?;
        let lock = file::Lock::wait(&path)?;
        let is_new = std::fs::metadata(&path)?.len() == 0;
        Ok((lock, is_new))
    });
    let prepared = prepared.await.unwrap_or_else(|stopped| Err(io::Error::other(stopped)));
    prepared.map_err(|source| StorageError::File { path: name, source })
}

/// The URL of a file, as the driver reads it.
fn file_url(path: &Path) -> Result<String, StorageError> {
    let unusable = |source| StorageError::File { path: path.display().to_string(), source };
    let url = Url::from_file_path(std::path::absolute(path).map_err(unusable)?);
    let url = url.map_err(|()| unusable(io::ErrorKind::InvalidFilename.into()))?;
    Ok(format!("sqlite://{}", url.path()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Environment;

    impl Storage {
        /// An empty database: in memory, or on the PostgreSQL server that `LOCKKEEPER_TEST_POSTGRES` names.
        pub(crate) async fn empty() -> Self {
            Self::for_tests(Environment::system().get("LOCKKEEPER_TEST_POSTGRES")).await.unwrap()
        }

        /// Writes what the gateway never writes.
        pub(crate) async fn poison(&self, statement: &'static str) {
            sqlx::raw_sql(statement).execute(&self.database.pool).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_not_there_is_reported_with_the_reason() {
        let refused = Storage::connect("postgres://lockkeeper@127.0.0.1:1/lockkeeper").await.unwrap_err();
        assert!(refused.to_string().contains("Connection refused"), "{refused}");
    }

    #[tokio::test]
    async fn a_disk_without_space_is_named() {
        let storage = Storage::in_memory().await.unwrap();
        storage.poison("PRAGMA max_page_count = 1").await;
        let statement = "CREATE TABLE large AS SELECT zeroblob(1048576) AS content";
        let refused = sqlx::raw_sql(statement).execute(&storage.database.pool).await.map_err(StorageError::from);
        let refused = refused.unwrap_err();
        assert!(matches!(refused, StorageError::DiskFull), "{refused}");
        assert!(!refused.is_busy() && !refused.is_constraint());
    }

    #[tokio::test]
    async fn every_commit_but_that_of_a_session_waits_for_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::open(&folder.path().join("lock keeper%20?.sqlite3")).await.unwrap();
        for (database, level) in [(&storage.database, 2), (&storage.mcp_sessions, 1), (&storage.purges, 1)] {
            let row: (i64,) = sqlx::query_as("PRAGMA synchronous").fetch_one(&database.pool).await.unwrap();
            assert_eq!(row.0, level);
            let row: (String,) = sqlx::query_as("PRAGMA journal_mode").fetch_one(&database.pool).await.unwrap();
            assert_eq!(row.0, "wal");
        }
        storage.close().await;
    }
}
