//! The secrets that users enter for servers: the names that each server needs, and the values, sealed in the vault.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::RwLock;

use super::{
    context::UpstreamContext,
    error::UpstreamError,
    login::{LoginProblem, ServerLogin},
    ticket,
};
use crate::{
    audit::ServerEvent,
    model::{AccessEffect, BackendId, BackendSpec, SecretName, SecretValues, UserId},
    support::{Digest, Secret, Timestamp},
    vault::{VaultError, VaultOwner, VaultPlace},
};

#[derive(Clone)]
pub struct UserSecrets {
    context: UpstreamContext,
    /// The names that each server needs; servers that need none are left out.
    needed: Arc<RwLock<BTreeMap<BackendId, BTreeSet<SecretName>>>>,
}

/// A secret as its user sees it: never its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretView {
    pub name: SecretName,
    /// The servers that need it.
    pub servers: Vec<BackendId>,
    /// Time of its entry, if it was entered.
    pub entered: Option<Timestamp>,
}

// === impl UserSecrets ===

impl UserSecrets {
    pub(super) fn new(context: UpstreamContext, specs: &[BackendSpec]) -> Self {
        Self { context, needed: Arc::new(RwLock::new(needed(specs))) }
    }

    pub(super) fn replace_servers(&self, specs: &[BackendSpec]) {
        *self.needed.write() = needed(specs);
    }

    /// The secrets that servers need from this user, and the secrets the user has entered, by name.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn of(&self, user: &UserId) -> Result<Vec<SecretView>, UpstreamError> {
        let entered: BTreeMap<_, _> = self.context.storage.user_secrets().entered(user).await?.into_iter().collect();
        let mut servers: BTreeMap<SecretName, Vec<BackendId>> =
            entered.keys().map(|name| (name.clone(), Vec::new())).collect();
        for (backend, names) in &*self.needed.read() {
            for name in names {
                servers.entry(name.clone()).or_default().push(backend.clone());
            }
        }
        let view = |(name, servers)| SecretView { entered: entered.get(&name).copied(), name, servers };
        Ok(servers.into_iter().map(view).collect())
    }

    /// The first secret that a server needs and the user has not entered; `None` if the user has entered all. Checks
    /// that the page's ticket, if any, is for this user.
    ///
    /// # Errors
    ///
    /// [`LoginProblem`].
    pub async fn missing(&self, request: ServerLogin<'_>) -> Result<Option<SecretName>, LoginProblem> {
        let ServerLogin { user, backend, ticket, .. } = request;
        if let Some(text) = ticket {
            let read = ticket::read(&self.context, user, backend, text).await;
            read.map_err(UpstreamError::from)?.map_err(LoginProblem::Ticket)?;
        }
        let entered = self.context.storage.user_secrets().entered(user).await.map_err(UpstreamError::from)?;
        let is_missing = |name: &SecretName| !entered.iter().any(|(other, _)| other == name);
        Ok(self.needed_by(backend).into_iter().find(is_missing))
    }

    /// True if users enter secrets for this server.
    pub fn are_needed_by(&self, backend: &BackendId) -> bool {
        self.needed.read().contains_key(backend)
    }

    /// Stores a secret of the user in place of an earlier one, and restarts connections that use it. Sending the same
    /// value again changes nothing, even if both arrive at once, as when a button is pressed twice.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn set(&self, user: &UserId, name: &SecretName, value: &Secret) -> Result<(), UpstreamError> {
        let (table, field) = (self.context.storage.user_secrets(), field(name));
        loop {
            let earlier = table.lookup(user, name).await?;
            if let Some(earlier) = &earlier {
                // a value that does not open is replaced
                let opened = self.context.vault.open(place(user, &field), earlier).await;
                if opened.is_ok_and(|opened| Digest::sha256(&*opened) == value.digest()) {
                    return Ok(());
                }
            }
            let sealed = self.context.vault.seal(place(user, &field), value.expose().as_bytes()).await?;
            if table.set(user, name, &sealed, earlier.as_deref(), self.context.now()).await? {
                break;
            }
        }
        self.context.audit.record(ServerEvent::SecretEntered(user.clone(), name.clone()));
        self.announce(user, name);
        Ok(())
    }

    /// Deletes a secret of the user, and ends connections that use it. Returns false if there is none.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn delete(&self, user: &UserId, name: &SecretName) -> Result<bool, UpstreamError> {
        let is_deleted = self.context.storage.user_secrets().delete(user, name).await?;
        if is_deleted {
            self.look().await?;
        }
        Ok(is_deleted)
    }

    /// Ends connections with deleted secrets, including deletions by other processes.
    pub(super) async fn look(&self) -> Result<(), UpstreamError> {
        for (user, name) in self.context.storage.for_rounds().user_secrets().take_ended().await? {
            self.announce(&user, &name);
            self.context.audit.record(ServerEvent::SecretEnded(user, name));
        }
        Ok(())
    }

    /// The values of these names; `None` if the user has not entered them all.
    pub(super) async fn values(
        &self,
        user: &UserId,
        names: BTreeSet<SecretName>,
    ) -> Result<Option<SecretValues>, UpstreamError> {
        let mut values = SecretValues::new();
        for name in names {
            let Some(sealed) = self.context.storage.user_secrets().lookup(user, &name).await? else { return Ok(None) };
            let value = self.context.vault.open(place(user, &field(&name)), &sealed).await?;
            let value = std::str::from_utf8(&value).map_err(|_| VaultError::Form)?;
            values.insert(name, Secret::new(value));
        }
        Ok(Some(values))
    }

    /// The names that a server needs.
    pub(super) fn needed_by(&self, backend: &BackendId) -> BTreeSet<SecretName> {
        self.needed.read().get(backend).cloned().unwrap_or_default()
    }

    fn announce(&self, user: &UserId, name: &SecretName) {
        for (backend, _) in self.needed.read().iter().filter(|(_, names)| names.contains(name)) {
            self.context.announce(user, backend, AccessEffect::Ended);
        }
    }
}

fn needed(specs: &[BackendSpec]) -> BTreeMap<BackendId, BTreeSet<SecretName>> {
    let needs = |spec: &BackendSpec| (spec.id.clone(), spec.secret_names());
    specs.iter().map(needs).filter(|(_, names)| !names.is_empty()).collect()
}

fn field(name: &SecretName) -> String {
    format!("secret {name}")
}

fn place<'a>(user: &'a UserId, field: &'a str) -> VaultPlace<'a> {
    VaultPlace { owner: VaultOwner::User(user), backend: None, issuer: "", field }
}
