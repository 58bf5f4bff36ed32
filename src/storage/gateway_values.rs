//! Single values of the gateway: written once, and replaced when the master key is rotated.

use super::database::{Database, StorageError};

/// Single values of the gateway.
#[derive(Debug, Clone, Copy)]
pub struct GatewayValueTable<'a>(pub(super) &'a Database);

impl GatewayValueTable<'_> {
    /// The value of this name; writes `value` if it is new. If two processes write, both get the first value.
    pub async fn get_or_add(&self, name: &'static str, value: &[u8]) -> Result<Vec<u8>, StorageError> {
        sqlx::query("INSERT INTO gateway (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(name)
            .bind(value)
            .execute(&self.0.pool)
            .await?;
        Ok(sqlx::query_scalar("SELECT value FROM gateway WHERE name = $1").bind(name).fetch_one(&self.0.pool).await?)
    }

    /// The value of this name.
    pub async fn lookup(&self, name: &'static str) -> Result<Option<Vec<u8>>, StorageError> {
        let value = sqlx::query_scalar("SELECT value FROM gateway WHERE name = $1").bind(name);
        Ok(value.fetch_optional(&self.0.pool).await?)
    }

    /// Consumes a notice that a migration left for the next start. Only one of two processes gets true.
    pub async fn take_notice(&self, name: &'static str) -> Result<bool, StorageError> {
        let done = sqlx::query("DELETE FROM gateway WHERE name = $1").bind(name).execute(&self.0.pool).await?;
        Ok(done.rows_affected() > 0)
    }
}
