//! The table of OAuth clients. It counts clients without consent and evicts them; the registration rules are elsewhere.

use std::time::Duration;

use sqlx::AnyConnection;

use super::{
    columns::columns,
    database::{Database, StorageError, moment},
    grants,
    steps::Steps,
};
use crate::{
    model::{Client, ClientAuth, ClientId, ClientKeys, ConsentRule, Registrant},
    support::{Digest, Timestamp, printable},
};

/// Maximum evictions in one transaction, so that no writer blocks the database for long.
const MAX_EVICTIONS: usize = 64;
/// Precision of the time of the last registration, so that repeated registrations do not write each time.
const RENEWED_EVERY: Duration = Duration::from_mins(1);

/// Origin of a client that registered itself, as opposed to one registered by the operator.
const REGISTERED: &str = "registered";
const OPERATOR: &str = "operator";

/// A registration to add.
#[derive(Debug, Clone)]
pub struct NewClient {
    pub client: Client,
    /// Digest of its normalised metadata, which identifies an identical registration.
    pub registration: Digest,
    /// Network of the registration, as a MAC; kept until a consent to the client.
    pub network: Digest,
}

/// Bounds on all clients without consent.
#[derive(Debug, Clone, Copy)]
pub struct UnusedLimits {
    /// Maximum number.
    pub clients: i64,
    /// Maximum bytes ([`Client::stored_bytes`]).
    pub bytes: i64,
    /// After a registration, a client is never evicted for this long.
    pub protected: Duration,
}

/// Outcome of a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistrationOutcome {
    Added,
    /// A public client with the same registration exists: its id and time of creation.
    Known(ClientId, Timestamp),
    /// The operator revoked a client with the same registration.
    Revoked,
    /// Too many clients without consent, and none can be evicted before this time.
    Full(Timestamp),
}

/// Room for one more client without consent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Capacity {
    Fits,
    /// Not yet; the next transaction evicts more.
    Evicting,
    /// None: every client without consent is protected.
    Full,
}

/// The origin of a row.
struct RowOrigin<'a> {
    name: &'static str,
    fingerprint: Option<&'a Digest>,
    registration: Option<&'a Digest>,
    network: Option<&'a Digest>,
    consented: Option<Timestamp>,
}

columns! {
    struct ClientRow {
        id: String,
        name: String,
        redirect_uris: String,
        auth: String,
        secret: Option<Vec<u8>>,
        grant_types: String,
        scope: Option<String>,
        metadata: String,
        created: i64,
        document: Option<Vec<u8>>,
        jwks: Option<String>,
        jwks_uri: Option<String>,
        origin: String,
        consent_skipped: i64,
        any_secret: i64,
    }
}

columns! {
    struct ExistingClient {
        id: String,
        created: i64,
        registered: i64,
        revoked: Option<i64>,
        expired: Option<i64>,
    }
}

/// OAuth clients.
#[derive(Debug, Clone, Copy)]
pub struct ClientTable<'a>(pub(super) &'a Database);

impl ClientTable<'_> {
    /// Adds a client. A registered public client keeps its id, and its registration is renewed, even if it had expired.
    /// If there are too many clients without consent, the oldest of the network with the most of them are evicted.
    pub async fn add(
        &self,
        new: &NewClient,
        limits: &UnusedLimits,
        now: Timestamp,
    ) -> Result<RegistrationOutcome, StorageError> {
        let found = find(&mut *self.0.pool.acquire().await?, new).await?;
        if let Some(found) = found {
            return self.found(found, now).await;
        }
        let mut change = self.0.change().await?;
        // again, inside the transaction
        if let Some(found) = find(&mut change, new).await? {
            drop(change);
            return self.found(found, now).await;
        }
        let bytes = new.client.stored_bytes();
        if evict(&mut change, limits, bytes, now).await? == Capacity::Fits {
            insert(&mut change, new, bytes, now).await?;
            change.commit().await?;
            return Ok(RegistrationOutcome::Added);
        }
        let oldest: Option<i64> =
            sqlx::query_scalar("SELECT MIN(registered) FROM clients WHERE consented IS NULL AND revoked IS NULL")
                .fetch_one(&mut *change)
                .await?;
        change.commit().await?;
        Ok(RegistrationOutcome::Full(oldest.map_or(now, moment) + limits.protected))
    }

    /// Adds a client of the operator. It counts as having a consent, so that it stays.
    pub async fn add_by_operator(&self, client: &Client) -> Result<(), StorageError> {
        let mut change = self.0.change().await?;
        let origin = RowOrigin {
            name: OPERATOR,
            fingerprint: None,
            registration: None,
            network: None,
            consented: Some(client.created),
        };
        insert_row(&mut change, client, origin, client.stored_bytes(), client.created).await?;
        Ok(change.commit().await?)
    }

    async fn found(&self, found: ExistingClient, now: Timestamp) -> Result<RegistrationOutcome, StorageError> {
        if found.revoked.is_some() {
            return Ok(RegistrationOutcome::Revoked);
        }
        if found.expired.is_some() || now.since(moment(found.registered)) > RENEWED_EVERY {
            sqlx::query("UPDATE clients SET registered = $1, expired = NULL WHERE id = $2")
                .bind(now.as_millis())
                .bind(&found.id)
                .execute(&self.0.pool)
                .await?;
        }
        Ok(RegistrationOutcome::Known(ClientId::new(found.id), moment(found.created)))
    }

    /// Deletes clients without consent beyond the limits.
    pub async fn purge(&self, limits: &UnusedLimits, now: Timestamp) -> Result<(), StorageError> {
        let mut steps = Steps::begin(self.0.engine);
        loop {
            let mut change = self.0.change().await?;
            let room = evict(&mut change, limits, 0, now).await?;
            change.commit().await?;
            if room != Capacity::Evicting {
                return Ok(());
            }
            steps.pause().await;
        }
    }
}

impl ClientTable<'_> {
    /// The client with this id, unless it is revoked or has expired.
    pub async fn lookup(&self, id: &ClientId) -> Result<Option<Client>, StorageError> {
        let row: Option<ClientRow> =
            sqlx::query_as("SELECT * FROM clients WHERE id = $1 AND revoked IS NULL AND expired IS NULL")
                .bind(id.as_str())
                .fetch_optional(&self.0.pool)
                .await?;
        row.map(ClientRow::read).transpose()
    }

    /// Every client that is neither revoked nor expired, newest first.
    pub async fn list(&self) -> Result<Vec<Client>, StorageError> {
        let rows: Vec<ClientRow> = sqlx::query_as(
            "SELECT * FROM clients WHERE revoked IS NULL AND expired IS NULL ORDER BY created DESC, rowid DESC",
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter().map(ClientRow::read).collect()
    }

    /// Revoked clients, last revoked first.
    pub async fn list_revoked(&self) -> Result<Vec<Client>, StorageError> {
        let rows: Vec<ClientRow> =
            sqlx::query_as("SELECT * FROM clients WHERE revoked IS NOT NULL ORDER BY revoked DESC, rowid DESC")
                .fetch_all(&self.0.pool)
                .await?;
        rows.into_iter().map(ClientRow::read).collect()
    }

    /// Revokes a client with its grants, and announces each revocation. The row stays, so that an identical
    /// registration is recognised. Returns false if there is no such client.
    pub async fn revoke(&self, id: &ClientId, now: Timestamp) -> Result<bool, StorageError> {
        let mut change = self.0.change().await?;
        let done = sqlx::query(
            "UPDATE clients SET revoked = $1, network = CASE WHEN consented IS NULL THEN $2 END
             WHERE id = $3 AND revoked IS NULL",
        )
        .bind(now.as_millis())
        .bind(b"".as_slice())
        .bind(id.as_str())
        .execute(&mut *change)
        .await?;
        grants::revoke_of_client(&mut change, id, now).await?;
        change.commit().await?;
        Ok(done.rows_affected() > 0)
    }

    /// Restores a revoked client; its grants stay revoked. Returns false if no revoked client has this id.
    pub async fn restore(&self, id: &ClientId, now: Timestamp) -> Result<bool, StorageError> {
        let done = sqlx::query(
            "UPDATE clients SET revoked = NULL, expired = NULL, registered = $1 WHERE id = $2 AND revoked IS NOT NULL",
        )
        .bind(now.as_millis())
        .bind(id.as_str())
        .execute(&self.0.pool)
        .await?;
        Ok(done.rows_affected() > 0)
    }
}

/// The client of an identical registration; a revoked one first.
async fn find(connection: &mut AnyConnection, new: &NewClient) -> Result<Option<ExistingClient>, StorageError> {
    Ok(sqlx::query_as(
        "SELECT id, created, registered, revoked, expired FROM clients
         WHERE fingerprint = $1 OR (registration = $1 AND revoked IS NOT NULL) ORDER BY revoked IS NULL LIMIT 1",
    )
    .bind(new.registration.as_bytes().as_slice())
    .fetch_optional(connection)
    .await?)
}

async fn insert(change: &mut AnyConnection, new: &NewClient, bytes: i64, now: Timestamp) -> Result<(), StorageError> {
    // a public client keeps its id, as does a client with its own keys
    let fingerprint = match &new.client.auth {
        ClientAuth::None | ClientAuth::PrivateKeyJwt(_) | ClientAuth::NoneOrPrivateKeyJwt(_) => Some(&new.registration),
        ClientAuth::Basic(_) | ClientAuth::Post(_) | ClientAuth::AnySecret(_) => None,
    };
    let origin = RowOrigin {
        name: REGISTERED,
        fingerprint,
        registration: Some(&new.registration),
        network: Some(&new.network),
        consented: None,
    };
    insert_row(change, &new.client, origin, bytes, now).await
}

async fn insert_row(
    change: &mut AnyConnection,
    client: &Client,
    origin: RowOrigin<'_>,
    bytes: i64,
    now: Timestamp,
) -> Result<(), StorageError> {
    let digest = |digest: Option<&Digest>| digest.map(|digest| digest.as_bytes().to_vec());
    let (auth, secret, keys) = match &client.auth {
        // keys of a client that can do without them come from its document, and are never stored here
        ClientAuth::None | ClientAuth::NoneOrPrivateKeyJwt(_) => (client.auth.name(), None, None),
        ClientAuth::Basic(secret) | ClientAuth::Post(secret) | ClientAuth::AnySecret(secret) => {
            (client.auth.name(), Some(secret.as_bytes()), None)
        }
        ClientAuth::PrivateKeyJwt(keys) => (ClientAuth::None.name(), None, Some(keys)),
    };
    let (set, url) = match keys {
        Some(ClientKeys::Inline(set)) => (Some(set.as_str()), None),
        Some(ClientKeys::Url(url)) => (None, Some(url.as_str())),
        None => (None, None),
    };
    sqlx::query(
        "INSERT INTO clients (id, name, redirect_uris, auth, secret, grant_types, scope, metadata, bytes, created,
                              registered, jwks, jwks_uri, origin, fingerprint, registration, network, consented,
                              consent_skipped, any_secret)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)",
    )
    .bind(client.id.as_str())
    .bind(&client.name)
    .bind(serde_json::to_string(&client.redirect_uris).map_err(|_| inconsistent("redirect_uris"))?)
    .bind(auth)
    .bind(secret.map(<[u8; 32]>::as_slice))
    .bind(serde_json::to_string(&client.grant_types).map_err(|_| inconsistent("grant_types"))?)
    .bind(&client.scope)
    .bind(&client.metadata)
    .bind(bytes)
    .bind(client.created.as_millis())
    .bind(now.as_millis())
    .bind(set)
    .bind(url)
    .bind(origin.name)
    .bind(digest(origin.fingerprint))
    .bind(digest(origin.registration))
    .bind(digest(origin.network))
    .bind(origin.consented.map(Timestamp::as_millis))
    .bind(i64::from(client.registrant == Registrant::Operator(ConsentRule::Skipped)))
    .bind(i64::from(matches!(client.auth, ClientAuth::AnySecret(_))))
    .execute(change)
    .await?;
    Ok(())
}

/// Evicts clients without consent until one more of `bytes` fits: the oldest of the network with the most, none within
/// the protected time (`OA-42`).
async fn evict(
    change: &mut AnyConnection,
    limits: &UnusedLimits,
    bytes: i64,
    now: Timestamp,
) -> Result<Capacity, StorageError> {
    let before = now - limits.protected;
    for _ in 0..MAX_EVICTIONS {
        let total: (i64, i64) =
            sqlx::query_as("SELECT clients, bytes FROM unused_clients_total").fetch_one(&mut *change).await?;
        if total.0 < limits.clients && total.1.saturating_add(bytes) <= limits.bytes {
            return Ok(Capacity::Fits);
        }
        // CROSS JOIN fixes the order of the loops: the network with the most first, no sort
        let done = sqlx::query(
            "DELETE FROM clients WHERE id = (
                 SELECT clients.id FROM unused_clients CROSS JOIN clients
                 WHERE clients.network = unused_clients.network AND clients.consented IS NULL
                     AND clients.revoked IS NULL AND clients.registered <= $1
                 ORDER BY unused_clients.clients DESC, unused_clients.network, clients.registered LIMIT 1
             )",
        )
        .bind(before.as_millis())
        .execute(&mut *change)
        .await?;
        if done.rows_affected() == 0 {
            return Ok(Capacity::Full);
        }
    }
    Ok(Capacity::Evicting)
}

impl ClientRow {
    fn read(self) -> Result<Client, StorageError> {
        let secret = self.secret.as_deref().and_then(Digest::from_slice);
        let auth = match (self.auth.as_str(), secret) {
            ("none", None) => match (self.jwks, self.jwks_uri) {
                (Some(set), _) => ClientAuth::PrivateKeyJwt(ClientKeys::Inline(set)),
                (None, Some(url)) => {
                    let url = url.parse().map_err(|_| inconsistent("jwks_uri"))?;
                    ClientAuth::PrivateKeyJwt(ClientKeys::Url(url))
                }
                (None, None) => ClientAuth::None,
            },
            ("client_secret_basic", Some(secret)) if self.any_secret != 0 => ClientAuth::AnySecret(secret),
            ("client_secret_basic", Some(secret)) => ClientAuth::Basic(secret),
            ("client_secret_post", Some(secret)) => ClientAuth::Post(secret),
            _ => return Err(inconsistent("auth")),
        };
        Ok(Client {
            id: ClientId::new(self.id),
            // for clients registered before names were checked
            name: printable(&self.name),
            redirect_uris: serde_json::from_str(&self.redirect_uris).map_err(|_| inconsistent("redirect_uris"))?,
            auth,
            registrant: match self.document.as_deref() {
                Some(digest) => {
                    Registrant::Document(Digest::from_slice(digest).ok_or_else(|| inconsistent("document"))?)
                }
                None => match self.origin.as_str() {
                    REGISTERED => Registrant::Client,
                    OPERATOR if self.consent_skipped != 0 => Registrant::Operator(ConsentRule::Skipped),
                    OPERATOR => Registrant::Operator(ConsentRule::Asked),
                    _ => return Err(inconsistent("origin")),
                },
            },
            grant_types: serde_json::from_str(&self.grant_types).map_err(|_| inconsistent("grant_types"))?,
            scope: self.scope,
            metadata: self.metadata,
            created: moment(self.created),
        })
    }
}

pub(super) const fn inconsistent(column: &'static str) -> StorageError {
    StorageError::Inconsistent { table: "clients", column }
}
