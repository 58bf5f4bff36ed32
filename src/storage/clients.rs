//! The table of OAuth clients. Knows nothing of the rules of registration; clients that nobody has consented to are
//! counted and make room here.

use std::time::Duration;

use sqlx::SqliteConnection;

use super::{
    database::{Database, Error, moment},
    grants,
};
use crate::{
    model::{Client, ClientAuth, ClientId},
    support::{Digest, Timestamp, printable},
};

/// How many clients one change evicts at most, so that no writer holds the database for long.
const MAX_EVICTIONS: usize = 64;
/// How many expired clients one change deletes.
const PURGE_BATCH: i64 = 500;
/// How exact the time of the last registration is: a client that registers again and again is not written each time.
const RENEWED_EVERY: Duration = Duration::from_mins(1);

/// A registration to be added.
#[derive(Debug, Clone)]
pub struct NewClient {
    /// The client.
    pub client: Client,
    /// The digest of its normalised metadata: what an identical registration is known by.
    pub registration: Digest,
    /// The network that registers it, as a MAC; kept until somebody consents to the client.
    pub network: Digest,
}

/// Bounds on the clients that nobody has consented to, all together.
#[derive(Debug, Clone, Copy)]
pub struct UnusedLimits {
    /// How many there may be.
    pub clients: i64,
    /// What they may take, in bytes ([`Client::stored_bytes`]).
    pub bytes: i64,
    /// A client that registered within this time is never evicted.
    pub protected: Duration,
}

/// What became of a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registered {
    /// It was added.
    Added,
    /// A public client with the same registration is there already: its id, and when it was created.
    Known(ClientId, Timestamp),
    /// The operator revoked a client with the same registration.
    Revoked,
    /// Too many unused clients are there, and none may be evicted before this time.
    Full(Timestamp),
}

/// Whether one more unused client fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Fits,
    /// Not yet; the next change evicts more.
    Evicting,
    /// Not as long as every unused client is protected.
    Full,
}

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

#[derive(sqlx::FromRow)]
struct Found {
    id: String,
    created: i64,
    registered: i64,
    consented: Option<i64>,
    revoked: Option<i64>,
}

/// OAuth clients.
#[derive(Debug, Clone, Copy)]
pub struct ClientTable<'a>(pub(super) &'a Database);

impl ClientTable<'_> {
    /// Adds a client. A public one that is registered already keeps its id, and its unused registration is renewed.
    /// Where too many unused clients are there, the oldest of the network with the most of them make room.
    pub async fn add(&self, new: &NewClient, limits: &UnusedLimits, now: Timestamp) -> Result<Registered, Error> {
        let found = find(&mut *self.0.pool.acquire().await?, new).await?;
        if let Some(found) = found {
            return self.found(found, now).await;
        }
        let mut change = self.0.change().await?;
        // again, now that no other writer can come between
        if let Some(found) = find(&mut change, new).await? {
            drop(change);
            return self.found(found, now).await;
        }
        let bytes = new.client.stored_bytes();
        if evict(&mut change, limits, bytes, now).await? == Room::Fits {
            insert(&mut change, new, bytes, now).await?;
            change.commit().await?;
            return Ok(Registered::Added);
        }
        let oldest: Option<i64> =
            sqlx::query_scalar("SELECT MIN(registered) FROM clients WHERE consented IS NULL AND revoked IS NULL")
                .fetch_one(&mut *change)
                .await?;
        change.commit().await?;
        Ok(Registered::Full(oldest.map_or(now, moment) + limits.protected))
    }

    async fn found(&self, found: Found, now: Timestamp) -> Result<Registered, Error> {
        if found.revoked.is_some() {
            return Ok(Registered::Revoked);
        }
        if found.consented.is_none() && now.since(moment(found.registered)) > RENEWED_EVERY {
            sqlx::query("UPDATE clients SET registered = ? WHERE id = ?")
                .bind(now.as_millis())
                .bind(&found.id)
                .execute(&self.0.pool)
                .await?;
        }
        Ok(Registered::Known(ClientId::new(found.id), moment(found.created)))
    }

    /// Deletes the unused clients that registered last before `before`, and then as many as are beyond the limits.
    pub async fn purge(&self, before: Timestamp, limits: &UnusedLimits, now: Timestamp) -> Result<(), Error> {
        loop {
            let done = sqlx::query(
                "DELETE FROM clients WHERE id IN (
                     SELECT id FROM clients WHERE consented IS NULL AND revoked IS NULL AND registered < ? LIMIT ?
                 )",
            )
            .bind(before.as_millis())
            .bind(PURGE_BATCH)
            .execute(&self.0.pool)
            .await?;
            if done.rows_affected() == 0 {
                break;
            }
        }
        loop {
            let mut change = self.0.change().await?;
            let room = evict(&mut change, limits, 0, now).await?;
            change.commit().await?;
            if room != Room::Evicting {
                return Ok(());
            }
        }
    }
}

impl ClientTable<'_> {
    /// The client of this id, unless it was revoked.
    pub async fn lookup(&self, id: &ClientId) -> Result<Option<Client>, Error> {
        let row: Option<Row> = sqlx::query_as("SELECT * FROM clients WHERE id = ? AND revoked IS NULL")
            .bind(id.as_str())
            .fetch_optional(&self.0.pool)
            .await?;
        row.map(Row::read).transpose()
    }

    /// Every client that was not revoked, newest first.
    pub async fn list(&self) -> Result<Vec<Client>, Error> {
        let rows: Vec<Row> =
            sqlx::query_as("SELECT * FROM clients WHERE revoked IS NULL ORDER BY created DESC, rowid DESC")
                .fetch_all(&self.0.pool)
                .await?;
        rows.into_iter().map(Row::read).collect()
    }

    /// Every client that was revoked, the last revoked first.
    pub async fn list_revoked(&self) -> Result<Vec<Client>, Error> {
        let rows: Vec<Row> =
            sqlx::query_as("SELECT * FROM clients WHERE revoked IS NOT NULL ORDER BY revoked DESC, rowid DESC")
                .fetch_all(&self.0.pool)
                .await?;
        rows.into_iter().map(Row::read).collect()
    }

    /// Revokes a client and every grant to it, and announces each. The row stays, so that an identical registration is
    /// known. False where there is no such client.
    pub async fn revoke(&self, id: &ClientId, now: Timestamp) -> Result<bool, Error> {
        let mut change = self.0.change().await?;
        let done = sqlx::query(
            "UPDATE clients SET revoked = ?, network = CASE WHEN consented IS NULL THEN x'' END
             WHERE id = ? AND revoked IS NULL",
        )
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

    /// Takes the revocation of a client back; its grants stay revoked. False where no revoked client has this id.
    pub async fn restore(&self, id: &ClientId, now: Timestamp) -> Result<bool, Error> {
        let done =
            sqlx::query("UPDATE clients SET revoked = NULL, registered = ? WHERE id = ? AND revoked IS NOT NULL")
                .bind(now.as_millis())
                .bind(id.as_str())
                .execute(&self.0.pool)
                .await?;
        Ok(done.rows_affected() > 0)
    }
}

/// The client that an identical registration made; a revoked one first.
async fn find(connection: &mut SqliteConnection, new: &NewClient) -> Result<Option<Found>, Error> {
    Ok(sqlx::query_as(
        "SELECT id, created, registered, consented, revoked FROM clients
         WHERE fingerprint = ?1 OR (registration = ?1 AND revoked IS NOT NULL) ORDER BY revoked IS NULL LIMIT 1",
    )
    .bind(new.registration.as_bytes().as_slice())
    .fetch_optional(connection)
    .await?)
}

async fn insert(change: &mut SqliteConnection, new: &NewClient, bytes: i64, now: Timestamp) -> Result<(), Error> {
    let client = &new.client;
    let registration = new.registration.as_bytes().as_slice();
    let (secret, fingerprint) = match &client.auth {
        ClientAuth::None => (None, Some(registration)),
        ClientAuth::Basic(secret) | ClientAuth::Post(secret) => (Some(secret.as_bytes().as_slice()), None),
    };
    sqlx::query(
        "INSERT INTO clients (id, name, redirect_uris, auth, secret, grant_types, scope, metadata, fingerprint,
                              registration, network, bytes, created, registered)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(client.id.as_str())
    .bind(&client.name)
    .bind(serde_json::to_string(&client.redirect_uris).map_err(|_| inconsistent("redirect_uris"))?)
    .bind(client.auth.name())
    .bind(secret)
    .bind(serde_json::to_string(&client.grant_types).map_err(|_| inconsistent("grant_types"))?)
    .bind(&client.scope)
    .bind(&client.metadata)
    .bind(fingerprint)
    .bind(registration)
    .bind(new.network.as_bytes().as_slice())
    .bind(bytes)
    .bind(client.created.as_millis())
    .bind(now.as_millis())
    .execute(change)
    .await?;
    Ok(())
}

/// Deletes unused clients until one more of `bytes` fits: the oldest of the network that has the most, none that
/// registered within the protected time (`OA-42`).
async fn evict(
    change: &mut SqliteConnection,
    limits: &UnusedLimits,
    bytes: i64,
    now: Timestamp,
) -> Result<Room, Error> {
    let before = now - limits.protected;
    for _ in 0..MAX_EVICTIONS {
        let total: (i64, i64) =
            sqlx::query_as("SELECT clients, bytes FROM unused_clients_total").fetch_one(&mut *change).await?;
        if total.0 < limits.clients && total.1.saturating_add(bytes) <= limits.bytes {
            return Ok(Room::Fits);
        }
        // CROSS JOIN keeps the order of the loops: the fullest network first, no sort
        let done = sqlx::query(
            "DELETE FROM clients WHERE id = (
                 SELECT clients.id FROM unused_clients CROSS JOIN clients
                 WHERE clients.network = unused_clients.network AND clients.consented IS NULL
                     AND clients.revoked IS NULL AND clients.registered <= ?
                 ORDER BY unused_clients.clients DESC, unused_clients.network, clients.registered LIMIT 1
             )",
        )
        .bind(before.as_millis())
        .execute(&mut *change)
        .await?;
        if done.rows_affected() == 0 {
            return Ok(Room::Full);
        }
    }
    Ok(Room::Evicting)
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
            // one that registered before names were checked
            name: printable(&self.name),
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
