//! The claim of a gateway on its database.

use sqlx::AnyConnection;

use super::{
    Storage,
    database::{Engine, StorageError},
};

/// Other gateways that may use a claimed database. Commands always may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimKind {
    Alone,
    WithReplicas,
}

/// Use of a database by a single gateway, or by replicas. Ends on drop.
#[derive(Debug)]
pub struct DatabaseClaim {
    /// The connection that holds the lock; none for a file, which is protected by the lock of its folder.
    _connection: Option<AnyConnection>,
}

impl Storage {
    /// Claims the database. Waits up to 5 s for the end of a gateway that excludes this claim; `None` if it stays.
    pub async fn claim(&self, kind: ClaimKind) -> Result<Option<DatabaseClaim>, StorageError> {
        if self.database.engine == Engine::Sqlite {
            return Ok(Some(DatabaseClaim { _connection: None }));
        }
        let mut connection = self.database.pool.acquire().await?.detach();
        let lock = match kind {
            ClaimKind::Alone => "SELECT 1 FROM pg_advisory_lock(7211, hashtext(current_schema()))",
            ClaimKind::WithReplicas => "SELECT 1 FROM pg_advisory_lock_shared(7211, hashtext(current_schema()))",
        };
        match sqlx::query(lock).execute(&mut connection).await.map_err(StorageError::from) {
            Ok(_) => Ok(Some(DatabaseClaim { _connection: Some(connection) })),
            Err(error) if error.is_busy() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
