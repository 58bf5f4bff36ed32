//! What each backend last said of itself. Knows nothing of what it means.

use super::database::{Database, Error};
use crate::{model::BackendId, support::Digest};

/// What one backend last said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntroductionRow {
    /// Which backend.
    pub backend: BackendId,
    /// Which server it was: [`crate::model::TransportSpec::server`].
    pub server: Digest,
    /// The protocol version that the result is written in.
    pub revision: String,
    /// The JSON text of the result.
    pub result: Vec<u8>,
}

/// What backends said of themselves.
#[derive(Debug, Clone, Copy)]
pub struct IntroductionTable<'a>(pub(super) &'a Database);

impl IntroductionTable<'_> {
    /// What is known, in no order.
    pub async fn list(&self) -> Result<Vec<IntroductionRow>, Error> {
        let rows: Vec<(String, Vec<u8>, String, Vec<u8>)> =
            sqlx::query_as("SELECT backend, server, revision, result FROM backend_introductions")
                .fetch_all(&self.0.pool)
                .await?;
        let inconsistent = |column| Error::Inconsistent { table: "backend_introductions", column };
        rows.into_iter()
            .map(|(backend, server, revision, result)| {
                Ok(IntroductionRow {
                    backend: BackendId::parse(&backend).map_err(|_| inconsistent("backend"))?,
                    server: Digest::from_slice(&server).ok_or_else(|| inconsistent("server"))?,
                    revision,
                    result,
                })
            })
            .collect()
    }

    /// Keeps what a backend says of itself, in the place of what it said before.
    pub async fn set(&self, row: &IntroductionRow) -> Result<(), Error> {
        sqlx::query(
            "INSERT INTO backend_introductions (backend, server, revision, result) VALUES (?, ?, ?, ?)
             ON CONFLICT DO UPDATE SET server = excluded.server, revision = excluded.revision, result = excluded.result",
        )
        .bind(row.backend.as_str())
        .bind(row.server.as_bytes().as_slice())
        .bind(&row.revision)
        .bind(&row.result)
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// Forgets what a backend said of itself.
    pub async fn delete(&self, backend: &BackendId) -> Result<(), Error> {
        sqlx::query("DELETE FROM backend_introductions WHERE backend = ?")
            .bind(backend.as_str())
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }
}
