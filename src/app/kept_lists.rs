//! Lists of servers, stored for the next start (`translation` 6.7). A list that all users share is stored as it is; a
//! user's own list is sealed under that user's key.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::timeout};
use tokio_util::sync::CancellationToken;

use super::call_path::World;
use crate::{
    gateway::{KeptList, ListPlace, ListStore},
    mcp::{Payload, Revision},
    model::BackendId,
    storage::{ServerListChange, ServerListKey, ServerListRow, Storage},
    support::{Clock, Digest, SealingKey},
    vault::{Vault, VaultError, VaultOwner, VaultPlace},
};

/// Maximum wait for the store: a client may be waiting for its list.
const LOAD_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum size of one server's lists that wait to be written, in bytes, and maximum number of waiting lists of all
/// servers. More are not kept.
const MAX_WAITING_BYTES: usize = 8 << 20;
const MAX_WAITING: usize = 1_024;

pub(super) struct KeptLists {
    storage: Storage,
    /// Seals users' lists; `None` if the store belongs to a single user.
    vault: Option<Vault>,
    clock: Arc<dyn Clock>,
    waiting: Mutex<WaitingLists>,
    news: Notify,
}

/// Changes that are not written yet.
type WaitingLists = HashMap<ListPlace, KeptList>;

// === impl KeptLists ===

impl KeptLists {
    /// Lists in this store; users' lists are sealed if there is a `vault`.
    pub(super) fn new(storage: Storage, vault: Option<Vault>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { storage, vault, clock, waiting: Mutex::default(), news: Notify::new() })
    }

    /// Lists in this store; users' lists are sealed under the users' keys.
    pub(super) fn sealed(storage: &Storage, master: &SealingKey, world: &World) -> Arc<Self> {
        let (clock, random) = (Arc::clone(&world.clock), Arc::clone(&world.random));
        let vault = Vault::new(storage.clone(), master.clone(), Arc::clone(&clock), random);
        Self::new(storage.clone(), Some(vault), clock)
    }

    /// Writes lists until `end`, then writes the rest.
    pub(super) async fn run(self: Arc<Self>, end: CancellationToken) {
        while end.run_until_cancelled(self.news.notified()).await.is_some() {
            self.write().await;
        }
        self.write().await;
    }

    async fn write(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        if let Err(error) = self.write_all(waiting).await {
            tracing::warn!(%error, "lists of servers cannot be kept for the next start");
        }
    }

    async fn write_all(&self, waiting: WaitingLists) -> Result<(), VaultError> {
        let mut lists = Vec::with_capacity(waiting.len());
        for (place, change) in &waiting {
            let change = match change {
                KeptList::New(list) if self.is_there(place).await? => {
                    ServerListChange::Set(self.row(place, list).await?)
                }
                KeptList::Same => ServerListChange::Renew,
                KeptList::New(_) | KeptList::Gone => ServerListChange::Delete,
            };
            lists.push((key(place), change));
        }
        if lists.is_empty() {
            return Ok(());
        }
        Ok(self.storage.server_lists().write(&lists, self.clock.now()).await?)
    }

    /// False if the list belongs to a user who was deleted in the meantime.
    async fn is_there(&self, place: &ListPlace) -> Result<bool, VaultError> {
        match (&self.vault, &place.user) {
            (Some(_), Some(user)) => Ok(self.storage.users().created(user).await?.is_some()),
            _ => Ok(true),
        }
    }

    async fn row(&self, place: &ListPlace, list: &Payload) -> Result<ServerListRow, VaultError> {
        let text = match self.sealed_in(place) {
            Some((vault, sealed_in)) => vault.seal(sealed_in.as_place(), list.json()).await?,
            None => list.json().to_vec(),
        };
        Ok(ServerListRow { section: place.section, revision: list.revision.as_str().to_owned(), list: text })
    }

    async fn find(&self, place: &ListPlace) -> Result<Option<Payload>, VaultError> {
        let row = self.storage.server_lists().find(&key(place), self.clock.now()).await?;
        let Some(row) = row.filter(|row| row.section == place.section) else { return Ok(None) };
        let Some(revision) = Revision::parse(&row.revision) else { return Ok(None) };
        let text = match self.sealed_in(place) {
            Some((vault, sealed_in)) => vault.open(sealed_in.as_place(), &row.list).await?.to_vec(),
            None => row.list,
        };
        Ok(Some(Payload::new(revision, text.into())))
    }

    /// The vault and the list's place in it; `None` if the list is not sealed.
    fn sealed_in<'a>(&self, place: &'a ListPlace) -> Option<(&Vault, SealedIn<'a>)> {
        let (vault, user) = (self.vault.as_ref()?, place.user.as_ref()?);
        let field = format!("{} {}", place.method, place.section.to_base64url());
        Some((vault, SealedIn { owner: VaultOwner::User(user), backend: &place.backend, field }))
    }
}

/// Place of a sealed list in the vault.
struct SealedIn<'a> {
    owner: VaultOwner<'a>,
    backend: &'a BackendId,
    field: String,
}

impl SealedIn<'_> {
    fn as_place(&self) -> VaultPlace<'_> {
        VaultPlace { owner: self.owner, backend: Some(self.backend), issuer: "", field: &self.field }
    }
}

impl ListStore for KeptLists {
    fn load<'a>(&'a self, place: &'a ListPlace) -> BoxFuture<'a, Option<Payload>> {
        async move {
            let error = match timeout(LOAD_TIMEOUT, self.find(place)).await {
                Ok(Ok(found)) => return found,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "the store does not answer".to_owned(),
            };
            tracing::warn!(server = %place.backend, error, "the last list of a server cannot be read");
            None
        }
        .boxed()
    }

    fn keep(&self, place: ListPlace, change: KeptList) {
        let bytes = |change: &KeptList| match change {
            KeptList::New(list) => list.json().len(),
            KeptList::Same | KeptList::Gone => 0,
        };
        let mut waiting = self.waiting.lock();
        let others = waiting.iter().filter(|(other, _)| other.backend == place.backend && **other != place);
        let total = others.map(|(_, change)| bytes(change)).sum::<usize>() + bytes(&change);
        if total > MAX_WAITING_BYTES || waiting.len() >= MAX_WAITING && !waiting.contains_key(&place) {
            return tracing::debug!(server = %place.backend, "a list is not stored: others are still waiting to be written");
        }
        match change {
            // of a list that waits to be written, it says nothing new
            KeptList::Same if waiting.contains_key(&place) => {}
            change => drop(waiting.insert(place, change)),
        }
        drop(waiting);
        self.news.notify_one();
    }
}

fn key(place: &ListPlace) -> ServerListKey {
    ServerListKey {
        server: place.backend.clone(),
        user: place.user.clone(),
        capabilities: Digest::sha256(&place.capabilities),
        method: place.method.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        mcp::Method,
        model::UserId,
        support::{ManualClock, OsRandom, SealingKey},
    };

    #[tokio::test]
    async fn nothing_is_kept_for_a_user_who_was_deleted_meanwhile() {
        let (storage, clock) = (Storage::empty().await, Arc::new(ManualClock::default()));
        let (master, gone) = (SealingKey::new([1; 32]), UserId::new("gone"));
        let vault = Vault::new(storage.clone(), master, Arc::clone(&clock) as _, Arc::new(OsRandom));
        let kept = KeptLists::new(storage.clone(), Some(vault), clock);
        let place = |user: Option<&UserId>| ListPlace {
            backend: BackendId::parse("files").unwrap(),
            section: Digest::sha256("section"),
            user: user.cloned(),
            capabilities: String::new(),
            method: Method::ToolsList,
        };
        let list = Payload::new(Revision::NEWEST_LEGACY, r#"{"tools":[]}"#.into());
        for user in [None, Some(&gone)] {
            kept.keep(place(user), KeptList::New(list.clone()));
        }
        kept.write().await;
        assert_eq!(kept.load(&place(None)).await.unwrap().json(), list.json());
        assert!(kept.load(&place(Some(&gone))).await.is_none());
        assert!(storage.data_keys().lookup("gone").await.unwrap().is_none(), "and no key is made for it");
    }
}
