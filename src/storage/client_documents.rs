//! The clients described by a metadata document, in the table of clients: the copy that got a consent.

use sqlx::AnyConnection;

use super::{
    clients::inconsistent,
    columns::columns,
    database::{Database, StorageError, moment},
    grants,
};
use crate::{
    model::{Client, ClientId},
    support::{Digest, Timestamp},
};

/// Row of such a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredDocument {
    /// It has no consent.
    Unknown,
    /// The operator revoked it.
    Revoked,
    /// It has a consent.
    Consented {
        text: String,
        /// Time of its host's last confirmation.
        read: Timestamp,
        /// Digest of the description that got the consent.
        consented: Digest,
    },
}

columns! {
    struct DocumentRow {
        metadata: String,
        document_read: Option<i64>,
        document: Option<Vec<u8>>,
        revoked: Option<i64>,
    }
}

/// Clients described by a metadata document.
#[derive(Debug, Clone, Copy)]
pub struct ClientDocumentTable<'a>(pub(super) &'a Database);

impl ClientDocumentTable<'_> {
    /// The row of the client with this id.
    pub async fn lookup(&self, id: &ClientId) -> Result<StoredDocument, StorageError> {
        let row: Option<DocumentRow> = sqlx::query_as(
            "SELECT metadata, document_read, document, revoked FROM clients
                 WHERE id = $1 AND (revoked IS NOT NULL OR expired IS NULL)",
        )
        .bind(id.as_str())
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(match row {
            None => StoredDocument::Unknown,
            Some(row) if row.revoked.is_some() => StoredDocument::Revoked,
            Some(DocumentRow { metadata, document_read, document, revoked: _ }) => StoredDocument::Consented {
                text: metadata,
                read: moment(document_read.unwrap_or(0)),
                consented: document.as_deref().and_then(Digest::from_slice).ok_or_else(|| inconsistent("document"))?,
            },
        })
    }

    /// Stores the host's description from the client's time of creation, and that it got a consent. If it differs from
    /// the one that others consented to, their grants are revoked and announced (`OA-52`); returns their number.
    pub async fn keep(&self, client: &Client, consented: &Digest) -> Result<usize, StorageError> {
        let read = client.created;
        let mut change = self.0.change().await?;
        let earlier: Option<Vec<u8>> =
            sqlx::query_scalar("SELECT document FROM clients WHERE id = $1 AND document IS NOT NULL")
                .bind(client.id.as_str())
                .fetch_optional(&mut *change)
                .await?;
        let is_same = earlier.is_none_or(|earlier| earlier == consented.as_bytes());
        upsert(&mut change, client, consented, read).await?;
        let revoked = if is_same { 0 } else { grants::revoke_of_client(&mut change, &client.id, read).await? };
        change.commit().await?;
        Ok(revoked)
    }
}

async fn upsert(
    change: &mut AnyConnection,
    client: &Client,
    consented: &Digest,
    read: Timestamp,
) -> Result<(), StorageError> {
    // `auth` is the document's, which is read again whenever the client authenticates
    sqlx::query(
        "INSERT INTO clients (id, name, redirect_uris, auth, grant_types, scope, metadata, document, document_read,
                              bytes, created, registered, consented)
         VALUES ($1, $2, $3, 'none', $4, $5, $6, $7, $8, $9, $8, $8, $8)
         ON CONFLICT (id) DO UPDATE SET name = $2, redirect_uris = $3, grant_types = $4, scope = $5, metadata = $6,
             document = $7, document_read = $8, bytes = $9, expired = NULL,
             registered = CASE WHEN clients.registered > $8 THEN clients.registered ELSE $8 END",
    )
    .bind(client.id.as_str())
    .bind(&client.name)
    .bind(serde_json::to_string(&client.redirect_uris).map_err(|_| inconsistent("redirect_uris"))?)
    .bind(serde_json::to_string(&client.grant_types).map_err(|_| inconsistent("grant_types"))?)
    .bind(&client.scope)
    .bind(&client.metadata)
    .bind(consented.as_bytes().as_slice())
    .bind(read.as_millis())
    .bind(client.stored_bytes())
    .execute(change)
    .await?;
    Ok(())
}
