//! Users' secrets for servers behind the gateway, sealed under a key of each user (`UP-2`). The callers store the
//! sealed form.
//!
//! A user's key (data key) is stored under the master key, so rotating the master key reseals only the data keys. Each
//! secret opens only in its place: the same user, backend, issuer and field.

use std::{fmt, sync::Arc};

use zeroize::Zeroizing;

use crate::{
    model::{BackendId, UserId},
    storage::{Storage, StorageError},
    support::{Clock, NotSealedHere, Random, SealingKey},
};

/// Seals and opens secrets. Cheap to clone.
#[derive(Clone)]
pub struct Vault {
    storage: Storage,
    master: SealingKey,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

/// Owner of a secret, sealed with the owner's data key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VaultOwner<'a> {
    User(&'a UserId),
    Gateway,
}

/// Place of a secret.
#[derive(Debug, Clone, Copy)]
pub struct VaultPlace<'a> {
    pub owner: VaultOwner<'a>,
    /// The backend that may use it; `None`: any.
    pub backend: Option<&'a BackendId>,
    /// The authorization server that it belongs to; empty: none.
    pub issuer: &'a str,
    /// Its name, unique for this owner, backend and issuer.
    pub field: &'a str,
}

/// A secret cannot be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// It was not sealed here, or was sealed under another master key.
    #[error("a stored secret does not decrypt: {0}")]
    Sealed(#[from] NotSealedHere),
    /// Its content does not have the expected form.
    #[error("a stored secret has an unknown form")]
    Form,
}

/// The context for sealing the data key of `owner`.
pub fn data_key_context(owner: &str) -> String {
    format!("data-key|{owner}")
}

// === impl Vault ===

impl Vault {
    /// Creates the vault under this master key.
    pub fn new(storage: Storage, master: SealingKey, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        Self { storage, master, clock, random }
    }

    /// Seals a secret in its place; creates the owner's key if there is none.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn seal(&self, place: VaultPlace<'_>, secret: &[u8]) -> Result<Vec<u8>, VaultError> {
        let key = self.data_key(place.owner).await?;
        Ok(key.seal(secret, place.context().as_bytes(), &*self.random)?)
    }

    /// Opens a secret that was sealed in this place.
    ///
    /// # Errors
    ///
    /// If the store fails, or the secret was not sealed in this place.
    pub async fn open(&self, place: VaultPlace<'_>, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        let owner = place.owner.as_str();
        let key = self.storage.data_keys().lookup(owner).await?.ok_or(NotSealedHere)?;
        Ok(self.unwrapped(owner, &key)?.open(sealed, place.context().as_bytes())?)
    }

    async fn data_key(&self, owner: VaultOwner<'_>) -> Result<SealingKey, VaultError> {
        let owner = owner.as_str();
        if let Some(key) = self.storage.data_keys().lookup(owner).await? {
            return self.unwrapped(owner, &key);
        }
        let fresh = Zeroizing::new(self.random.bytes::<32>());
        let sealed = self.master.seal(&*fresh, data_key_context(owner).as_bytes(), &*self.random)?;
        let stored = self.storage.data_keys().get_or_add(owner, &sealed, self.clock.now()).await?;
        self.unwrapped(owner, &stored)
    }

    fn unwrapped(&self, owner: &str, sealed: &[u8]) -> Result<SealingKey, VaultError> {
        let key = self.master.open(sealed, data_key_context(owner).as_bytes())?;
        Ok(SealingKey::new(key.as_slice().try_into().map_err(|_| NotSealedHere)?))
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault(…)")
    }
}

// === impl VaultOwner ===

impl<'a> VaultOwner<'a> {
    fn as_str(self) -> &'a str {
        match self {
            Self::User(user) => user.as_str(),
            Self::Gateway => "",
        }
    }
}

// === impl VaultPlace ===

impl VaultPlace<'_> {
    fn context(&self) -> String {
        let backend = self.backend.map(BackendId::as_str).unwrap_or_default();
        format!("v1|{}|{backend}|{}|{}", self.owner.as_str(), self.issuer, self.field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::{ManualClock, OsRandom};

    fn vault(storage: &Storage, master: u8) -> Vault {
        let master = SealingKey::new([master; 32]);
        Vault::new(storage.clone(), master, Arc::new(ManualClock::default()), Arc::new(OsRandom))
    }

    #[tokio::test]
    async fn up_002_a_secret_opens_in_its_place_alone() {
        let storage = Storage::empty().await;
        let (ada, eve) = (UserId::new("ada"), UserId::new("eve"));
        let (git, time) = (BackendId::parse("git").unwrap(), BackendId::parse("time").unwrap());
        let owner = VaultOwner::User(&ada);
        let place = VaultPlace { owner, backend: Some(&git), issuer: "https://as", field: "tokens" };
        let own = vault(&storage, 1);
        let sealed = own.seal(place, b"secret").await.unwrap();
        assert_eq!(own.open(place, &sealed).await.unwrap().as_slice(), b"secret");
        // another user's key exists too
        own.seal(VaultPlace { owner: VaultOwner::User(&eve), ..place }, b"other").await.unwrap();
        for other in [
            VaultPlace { owner: VaultOwner::User(&eve), ..place },
            VaultPlace { owner: VaultOwner::Gateway, ..place },
            VaultPlace { backend: Some(&time), ..place },
            VaultPlace { issuer: "https://other", ..place },
            VaultPlace { field: "client", ..place },
        ] {
            assert!(matches!(own.open(other, &sealed).await, Err(VaultError::Sealed(_))), "{other:?}");
        }
        let foreign = vault(&storage, 2);
        assert!(matches!(foreign.open(place, &sealed).await, Err(VaultError::Sealed(_))));
    }
}
