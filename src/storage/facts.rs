//! Facts about the gateway itself that are written once. Knows nothing of what they are for.

use super::database::{Database, Error};

/// Single values of this gateway.
#[derive(Debug, Clone, Copy)]
pub struct FactTable<'a>(pub(super) &'a Database);

impl FactTable<'_> {
    /// The fact of this name; written as `value` where there is none yet. Of two processes that write, one wins and
    /// both get its value.
    pub async fn get_or_add(&self, name: &'static str, value: &[u8]) -> Result<Vec<u8>, Error> {
        sqlx::query("INSERT INTO gateway (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING")
            .bind(name)
            .bind(value)
            .execute(&self.0.pool)
            .await?;
        Ok(sqlx::query_scalar("SELECT value FROM gateway WHERE name = ?").bind(name).fetch_one(&self.0.pool).await?)
    }

    /// Takes a notice that a migration left for the next start. Of two processes that take it, one gets true.
    pub async fn take_notice(&self, name: &'static str) -> Result<bool, Error> {
        let done = sqlx::query("DELETE FROM gateway WHERE name = ?").bind(name).execute(&self.0.pool).await?;
        Ok(done.rows_affected() > 0)
    }
}
