//! Detected eras of backends.

use super::database::{Database, StorageError, moment};
use crate::{
    model::{Era, KnownEra},
    support::Digest,
};

/// Eras of backends.
#[derive(Debug, Clone, Copy)]
pub struct BackendEraTable<'a>(pub(super) &'a Database);

impl BackendEraTable<'_> {
    /// Every known era, in no order.
    pub async fn list(&self) -> Result<Vec<KnownEra>, StorageError> {
        let rows: Vec<(Vec<u8>, String, i64)> =
            sqlx::query_as("SELECT server, era, found FROM backend_eras").fetch_all(&self.0.pool).await?;
        let inconsistent = |column| StorageError::Inconsistent { table: "backend_eras", column };
        rows.into_iter()
            .map(|(server, era, found)| {
                Ok(KnownEra {
                    server: Digest::from_slice(&server).ok_or_else(|| inconsistent("server"))?,
                    era: read(&era).ok_or_else(|| inconsistent("era"))?,
                    found: moment(found),
                })
            })
            .collect()
    }

    /// Replaces all known eras; each server occurs once.
    pub async fn set(&self, known: &[KnownEra]) -> Result<(), StorageError> {
        let mut change = self.0.change().await?;
        sqlx::query("DELETE FROM backend_eras").execute(&mut *change).await?;
        for KnownEra { server, era, found } in known {
            sqlx::query("INSERT INTO backend_eras (server, era, found) VALUES ($1, $2, $3)")
                .bind(server.as_bytes().as_slice())
                .bind(written(*era))
                .bind(found.as_millis())
                .execute(&mut *change)
                .await?;
        }
        Ok(change.commit().await?)
    }
}

const fn written(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

fn read(era: &str) -> Option<Era> {
    [Era::Legacy, Era::Modern].into_iter().find(|known| written(*known) == era)
}
