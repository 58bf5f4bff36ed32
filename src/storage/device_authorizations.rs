//! The table of devices waiting for a person (RFC 8628).

use super::{
    NewRefreshToken,
    columns::columns,
    database::{Database, StorageError, moment},
    grants, refresh_tokens,
};
use crate::{
    model::{ClientId, Endpoint, Grant, GrantId, Scopes},
    support::{Digest, Timestamp},
};

/// Maximum number of waiting devices, of all clients and of one.
const MAX_WAITING: i64 = 10_000;
const MAX_OF_CLIENT: i64 = 1_000;

/// A device to add.
#[derive(Debug, Clone)]
pub struct NewDeviceRow {
    /// Digest of the device code.
    pub device: Digest,
    /// MAC of the code that the person enters.
    pub user_code: Digest,
    pub client: ClientId,
    /// Digest of the client's document, if it has one.
    pub document: Option<String>,
    /// Endpoint named in the request.
    pub endpoint: Option<Endpoint>,
    /// Requested scopes.
    pub scopes: Scopes,
    /// Expiry.
    pub expires: Timestamp,
}

/// A waiting device, or one that a person has decided about.
#[derive(Debug, Clone)]
pub struct DeviceRow {
    pub client: ClientId,
    /// Digest of the client's document at the request, if it has one.
    pub document: Option<String>,
    /// Endpoint named in the request.
    pub endpoint: Option<Endpoint>,
    /// Requested scopes.
    pub scopes: Scopes,
    /// Expiry.
    pub expires: Timestamp,
    /// Time of the refusal.
    pub denied: Option<Timestamp>,
    /// The grant, if it was approved.
    pub grant: Option<GrantId>,
    /// When its tokens were issued.
    pub redeemed: Option<Timestamp>,
}

columns! {
    struct StoredDevice {
        client: String,
        endpoint: Option<String>,
        scopes: String,
        expires: i64,
        denied: Option<i64>,
        grant_id: Option<String>,
        redeemed: Option<i64>,
        document: Option<String>,
        decided: Option<i64>,
    }
}

/// A device that a form has decided about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedDevice {
    pub client: ClientId,
    /// True if it was approved.
    pub is_approved: bool,
    /// Time of the decision.
    pub at: Timestamp,
}

/// The outcome of an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceApproval {
    /// The device is not waiting (any more); nothing has changed.
    NotWaiting,
    /// It has its grant.
    Approved {
        /// The network of the client's registration, if this is the first consent to it.
        consented_first: Option<Digest>,
    },
}

/// Devices waiting for a person.
#[derive(Debug, Clone, Copy)]
pub struct DeviceAuthorizationTable<'a>(pub(super) &'a Database);

impl DeviceAuthorizationTable<'_> {
    /// Adds a device. Returns false if too many are waiting, of this client or of all, or if the code for the person is
    /// taken.
    pub async fn add(&self, row: &NewDeviceRow, now: Timestamp) -> Result<bool, StorageError> {
        let done = sqlx::query(
            "INSERT INTO device_authorizations (device, user_code, client, endpoint, scopes, expires, document)
             SELECT $1, $2, $3, $4, $5, $6, $10
             WHERE (SELECT COUNT(*) FROM device_authorizations WHERE expires > $7) < $8
                 AND (SELECT COUNT(*) FROM device_authorizations WHERE client = $3 AND expires > $7) < $9
             ON CONFLICT DO NOTHING",
        )
        .bind(row.device.as_bytes().as_slice())
        .bind(row.user_code.as_bytes().as_slice())
        .bind(row.client.as_str())
        .bind(row.endpoint.as_ref().map(ToString::to_string))
        .bind(row.scopes.to_string())
        .bind(row.expires.as_millis())
        .bind(now.as_millis())
        .bind(MAX_WAITING)
        .bind(MAX_OF_CLIENT)
        .bind(row.document.as_deref())
        .execute(&self.0.pool)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// The device with this device code, in any state.
    pub async fn lookup(&self, device: &Digest) -> Result<Option<DeviceRow>, StorageError> {
        let row: Option<StoredDevice> = sqlx::query_as("SELECT * FROM device_authorizations WHERE device = $1")
            .bind(device.as_bytes().as_slice())
            .fetch_optional(&self.0.pool)
            .await?;
        row.map(StoredDevice::read).transpose()
    }

    /// The waiting device that shows this code.
    pub async fn find_by_user_code(&self, code: &Digest, now: Timestamp) -> Result<Option<DeviceRow>, StorageError> {
        let row: Option<StoredDevice> = sqlx::query_as(
            "SELECT * FROM device_authorizations
             WHERE user_code = $1 AND denied IS NULL AND grant_id IS NULL AND expires > $2",
        )
        .bind(code.as_bytes().as_slice())
        .bind(now.as_millis())
        .fetch_optional(&self.0.pool)
        .await?;
        row.map(StoredDevice::read).transpose()
    }

    /// The decision of the form with this digest about the device that shows this code.
    pub async fn decided_by(
        &self,
        code: &Digest,
        form: &Digest,
        now: Timestamp,
    ) -> Result<Option<DecidedDevice>, StorageError> {
        let row: Option<StoredDevice> =
            sqlx::query_as("SELECT * FROM device_authorizations WHERE user_code = $1 AND form = $2 AND expires > $3")
                .bind(code.as_bytes().as_slice())
                .bind(form.as_bytes().as_slice())
                .bind(now.as_millis())
                .fetch_optional(&self.0.pool)
                .await?;
        Ok(row.and_then(|row| {
            let at = moment(row.decided?);
            Some(DecidedDevice { client: ClientId::new(row.client), is_approved: row.grant_id.is_some(), at })
        }))
    }

    /// Approves a waiting device, with the form of this digest: adds the grant.
    pub async fn approve(
        &self,
        code: &Digest,
        form: &Digest,
        grant: &Grant,
        now: Timestamp,
    ) -> Result<DeviceApproval, StorageError> {
        let mut change = self.0.change().await?;
        let network = grants::insert(&mut change, grant).await?;
        let done = sqlx::query(
            "UPDATE device_authorizations SET grant_id = $1, decided = $3, form = $4
             WHERE user_code = $2 AND denied IS NULL AND grant_id IS NULL AND expires > $3",
        )
        .bind(grant.id.as_str())
        .bind(code.as_bytes().as_slice())
        .bind(now.as_millis())
        .bind(form.as_bytes().as_slice())
        .execute(&mut *change)
        .await?;
        if done.rows_affected() == 0 {
            return Ok(DeviceApproval::NotWaiting);
        }
        change.commit().await?;
        Ok(DeviceApproval::Approved { consented_first: network })
    }

    /// Denies a waiting device, with the form of this digest. Returns false if it is not waiting.
    pub async fn deny(&self, code: &Digest, form: &Digest, now: Timestamp) -> Result<bool, StorageError> {
        let done = sqlx::query(
            "UPDATE device_authorizations SET denied = $1, decided = $1, form = $3
             WHERE user_code = $2 AND denied IS NULL AND grant_id IS NULL AND expires > $1",
        )
        .bind(now.as_millis())
        .bind(code.as_bytes().as_slice())
        .bind(form.as_bytes().as_slice())
        .execute(&self.0.pool)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Marks a device as having its tokens, and adds its refresh token, if any. Returns false, without changes, if it
    /// already has them or the grant is revoked: only one of two concurrent calls succeeds.
    pub async fn redeem(
        &self,
        device: &Digest,
        grant: &GrantId,
        refresh: Option<&NewRefreshToken>,
        now: Timestamp,
    ) -> Result<bool, StorageError> {
        let mut change = self.0.change().await?;
        let redeemed = sqlx::query(
            "UPDATE device_authorizations SET redeemed = $1 WHERE device = $2 AND grant_id = $3 AND redeemed IS NULL",
        )
        .bind(now.as_millis())
        .bind(device.as_bytes().as_slice())
        .bind(grant.as_str())
        .execute(&mut *change)
        .await?;
        if redeemed.rows_affected() == 0 || !refresh_tokens::touch(&mut change, grant, now).await? {
            return Ok(false);
        }
        if let Some(refresh) = refresh {
            refresh_tokens::insert(&mut change, grant, refresh).await?;
        }
        change.commit().await?;
        Ok(true)
    }
}

impl StoredDevice {
    fn read(self) -> Result<DeviceRow, StorageError> {
        let endpoint = match self.endpoint {
            Some(path) => Some(Endpoint::from_path(&path).ok_or_else(|| inconsistent("endpoint"))?),
            None => None,
        };
        Ok(DeviceRow {
            client: ClientId::new(self.client),
            document: self.document,
            endpoint,
            scopes: Scopes::parse(&self.scopes).map_err(|_| inconsistent("scopes"))?,
            expires: moment(self.expires),
            denied: self.denied.map(moment),
            grant: self.grant_id.map(GrantId::new),
            redeemed: self.redeemed.map(moment),
        })
    }
}

const fn inconsistent(column: &'static str) -> StorageError {
    StorageError::Inconsistent { table: "device_authorizations", column }
}
