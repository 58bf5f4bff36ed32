//! The table of OAuth clients. Knows nothing of the rules of registration.

use super::{Error, Storage, grants, moment};
use crate::{
    model::{Client, ClientAuth, ClientId},
    support::{Digest, Timestamp},
};

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    name: String,
    redirect_uris: String,
    auth: String,
    secret: Option<Vec<u8>>,
    grant_types: String,
    scope: Option<String>,
    metadata: String,
    created: i64,
}

impl Storage {
    /// Adds a client. A public one that registered with the same fingerprint before keeps its id: the client that is
    /// in the store then is returned.
    pub async fn add_client(&self, client: Client, fingerprint: Option<&Digest>) -> Result<Client, Error> {
        let secret = match &client.auth {
            ClientAuth::None => None,
            ClientAuth::Basic(secret) | ClientAuth::Post(secret) => Some(secret.as_bytes().to_vec()),
        };
        let row: (String, i64) = sqlx::query_as(
            "INSERT INTO clients (id, name, redirect_uris, auth, secret, grant_types, scope, metadata, fingerprint, created)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (fingerprint) DO UPDATE SET revoked = NULL
             RETURNING id, created",
        )
        .bind(client.id.as_str())
        .bind(&client.name)
        .bind(serde_json::to_string(&client.redirect_uris).map_err(|_| inconsistent("redirect_uris"))?)
        .bind(client.auth.name())
        .bind(secret)
        .bind(serde_json::to_string(&client.grant_types).map_err(|_| inconsistent("grant_types"))?)
        .bind(&client.scope)
        .bind(&client.metadata)
        .bind(fingerprint.map(|digest| digest.as_bytes().to_vec()))
        .bind(client.created.as_millis())
        .fetch_one(&self.pool)
        .await?;
        Ok(Client { id: ClientId::new(row.0), created: moment(row.1), ..client })
    }
}

impl Storage {
    /// The client of this id, unless it was revoked.
    pub async fn lookup_client(&self, id: &ClientId) -> Result<Option<Client>, Error> {
        let row: Option<Row> = sqlx::query_as("SELECT * FROM clients WHERE id = ? AND revoked IS NULL")
            .bind(id.as_str())
            .fetch_optional(&self.pool)
            .await?;
        row.map(Row::read).transpose()
    }

    /// Every client that was not revoked, newest first.
    pub async fn list_clients(&self) -> Result<Vec<Client>, Error> {
        let rows: Vec<Row> =
            sqlx::query_as("SELECT * FROM clients WHERE revoked IS NULL ORDER BY created DESC, rowid DESC")
                .fetch_all(&self.pool)
                .await?;
        rows.into_iter().map(Row::read).collect()
    }

    /// How many clients registered after `since` to which nobody has consented yet.
    pub async fn count_unused_clients(&self, since: Timestamp) -> Result<i64, Error> {
        Ok(sqlx::query_scalar("SELECT COUNT(*) FROM clients WHERE consented IS NULL AND created > ?")
            .bind(since.as_millis())
            .fetch_one(&self.pool)
            .await?)
    }

    /// Revokes a client and every grant to it, and announces each. False where there is no such client.
    pub async fn revoke_client(&self, id: &ClientId, now: Timestamp) -> Result<bool, Error> {
        let mut change = self.change().await?;
        let done = sqlx::query("UPDATE clients SET revoked = ? WHERE id = ? AND revoked IS NULL")
            .bind(now.as_millis())
            .bind(id.as_str())
            .execute(&mut *change)
            .await?;
        let revoked: Vec<String> =
            sqlx::query_scalar("UPDATE grants SET revoked = ? WHERE client = ? AND revoked IS NULL RETURNING id")
                .bind(now.as_millis())
                .bind(id.as_str())
                .fetch_all(&mut *change)
                .await?;
        for grant in revoked {
            grants::announce(&mut change, "grant", &grant, now).await?;
        }
        change.commit().await?;
        Ok(done.rows_affected() > 0)
    }
}

impl Row {
    fn read(self) -> Result<Client, Error> {
        let secret = self.secret.as_deref().and_then(Digest::from_slice);
        let auth = match (self.auth.as_str(), secret) {
            ("none", None) => ClientAuth::None,
            ("client_secret_basic", Some(secret)) => ClientAuth::Basic(secret),
            ("client_secret_post", Some(secret)) => ClientAuth::Post(secret),
            _ => return Err(inconsistent("auth")),
        };
        Ok(Client {
            id: ClientId::new(self.id),
            name: self.name,
            redirect_uris: serde_json::from_str(&self.redirect_uris).map_err(|_| inconsistent("redirect_uris"))?,
            auth,
            grant_types: serde_json::from_str(&self.grant_types).map_err(|_| inconsistent("grant_types"))?,
            scope: self.scope,
            metadata: self.metadata,
            created: moment(self.created),
        })
    }
}

const fn inconsistent(column: &'static str) -> Error {
    Error::Inconsistent { table: "clients", column }
}
