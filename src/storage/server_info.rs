//! The last server information of each backend (`initialize` or `server/discover` result).

use super::database::{Database, StorageError};
use crate::{model::BackendId, support::Digest};

/// Last server information of one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfoRow {
    pub backend: BackendId,
    /// Identity of the server: [`crate::model::TransportSpec::server`].
    pub server: Digest,
    /// Protocol version of the result.
    pub revision: String,
    /// JSON text of the result.
    pub result: Vec<u8>,
}

/// Server information of backends.
#[derive(Debug, Clone, Copy)]
pub struct ServerInfoTable<'a>(pub(super) &'a Database);

impl ServerInfoTable<'_> {
    /// Every row, in no order.
    pub async fn list(&self) -> Result<Vec<ServerInfoRow>, StorageError> {
        let rows: Vec<(String, Vec<u8>, String, Vec<u8>)> =
            sqlx::query_as("SELECT backend, server, revision, result FROM backend_introductions")
                .fetch_all(&self.0.pool)
                .await?;
        let inconsistent = |column| StorageError::Inconsistent { table: "backend_introductions", column };
        rows.into_iter()
            .map(|(backend, server, revision, result)| {
                Ok(ServerInfoRow {
                    backend: BackendId::parse(&backend).map_err(|_| inconsistent("backend"))?,
                    server: Digest::from_slice(&server).ok_or_else(|| inconsistent("server"))?,
                    revision,
                    result,
                })
            })
            .collect()
    }

    /// Replaces the server information of a backend.
    pub async fn set(&self, row: &ServerInfoRow) -> Result<(), StorageError> {
        sqlx::query(
            "INSERT INTO backend_introductions (backend, server, revision, result) VALUES ($1, $2, $3, $4)
             ON CONFLICT (backend) DO UPDATE SET server = excluded.server, revision = excluded.revision, result = excluded.result",
        )
        .bind(row.backend.as_str())
        .bind(row.server.as_bytes().as_slice())
        .bind(&row.revision)
        .bind(&row.result)
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// Deletes the server information of a backend.
    pub async fn delete(&self, backend: &BackendId) -> Result<(), StorageError> {
        sqlx::query("DELETE FROM backend_introductions WHERE backend = $1")
            .bind(backend.as_str())
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }
}
