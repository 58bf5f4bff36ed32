//! The claim of a gateway on its database. Knows no table.

use sqlx::AnyConnection;

use super::{
    Storage,
    database::{Engine, StorageError},
};

/// Use of a database by one gateway alone; commands may use it meanwhile. Ends on drop.
#[derive(Debug)]
pub struct DatabaseClaim {
    /// The connection that holds the lock; none for a file, which the lock of its folder protects.
    _connection: Option<AnyConnection>,
}

impl Storage {
    /// Claims the database. Waits up to 5 s for another gateway that ends; `None` if it does not.
    pub async fn claim(&self) -> Result<Option<DatabaseClaim>, StorageError> {
        if self.database.engine == Engine::Sqlite {
            return Ok(Some(DatabaseClaim { _connection: None }));
        }
        let mut connection = self.database.pool.acquire().await?.detach();
        let lock = "SELECT 1 FROM pg_advisory_lock(7211, hashtext(current_schema()))";
        match sqlx::query(lock).execute(&mut connection).await.map_err(StorageError::from) {
            Ok(_) => Ok(Some(DatabaseClaim { _connection: Some(connection) })),
            Err(error) if error.is_busy() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
