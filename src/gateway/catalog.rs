//! Lists of one backend, served from memory (design rule 6). Knows nothing of merging and of policy.
//!
//! A [`ListCache`] holds the lists for one kind of client: keyed by its owner and by the client's capabilities, since
//! servers show other tools to other clients. Lists are served as cached and refreshed in the background: when they are
//! older than [`CatalogSettings::refresh`], or when the backend reports a change. The cache of a failed backend is
//! kept.
//!
//! The owner of a cache is, for a backend that is shared per user, that user. For one that is shared per session, it is
//! the gateway with the same capabilities, so that listing starts no process for a session; once the session's own
//! backend session reports a change, that session is asked and gets its own cache. A client without a session has the
//! backend session of its user.

mod cache;
mod cache_table;
mod cached;
mod fetched_cursors;
mod list;
mod list_store;
mod omissions;
mod server_info;
mod source;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;

pub use self::list_store::{ListPlace, ListStore};
use self::{
    cache::{CacheOwner, JUST_CHANGED, ListCache, ListCacheKey},
    cache_table::CacheTable,
    cached::Freshness,
    source::ListSource,
};
pub(crate) use self::{
    cache::{Change, ListChanges},
    cached::Lookup,
    list::List,
    server_info::DiscoverInfo,
    source::CatalogSettings,
};
use super::configured_backend::ConfiguredBackend;
use crate::{
    layers::ServerFacts,
    mcp::{ClientInfo, Context, ErrorObject, ListKind, Revision, Server, translate::LeftOut},
    model::{BackendId, Requester, SessionId, Share, UserId, status::EmptyList},
};

/// The lists of one backend.
pub(crate) struct Catalog {
    source: Arc<ListSource>,
    /// True if a call needs nothing that only the lists know, as far as the backend has listed anything.
    pub(crate) has_plain_calls: Arc<AtomicBool>,
    share: Share,
    caches: RwLock<CacheTable>,
    uses: AtomicU64,
}

// === impl Catalog ===

impl Catalog {
    /// An empty catalog of this backend.
    pub(crate) fn new(backend: &ConfiguredBackend, settings: CatalogSettings) -> Self {
        let source = Arc::new(ListSource::new(backend, settings));
        let share = backend.lists_shared();
        let has_plain_calls = Arc::clone(&source.has_plain_calls);
        let caches = RwLock::new(CacheTable::new(source.account.clone()));
        Self { source, has_plain_calls, share, caches, uses: AtomicU64::new(0) }
    }

    /// The gateway's own context, which uses the base connection.
    pub(crate) fn own_context(&self) -> Context {
        self.context(ClientInfo::gateway())
    }

    /// The context for lists of all clients with the same capabilities as this one. The server hears of the first one,
    /// whose session may continue the connection.
    fn alike_context(&self, client: &ClientInfo) -> Context {
        if client.capabilities.key().is_empty() {
            return self.own_context();
        }
        self.context(ClientInfo { revision: Revision::NEWEST_LEGACY, ..client.clone() })
    }

    fn context(&self, client: ClientInfo) -> Context {
        Context::of_gateway(client, self.source.account.clone())
    }

    /// Server information of the backend; starts a fetch if it is due. The last known one is used meanwhile, so that no
    /// session waits for it twice (`translation` 6.7).
    pub(crate) fn server_info(&self, context: &Context) -> Lookup<DiscoverInfo> {
        let cache = self.cache(context);
        let mut freshness = self.source.server_info(&cache);
        let fallback = self.source.last_server_info();
        freshness.value = freshness.value.or_else(|| fallback.clone());
        if freshness.value.is_none() {
            self.expect(context);
        }
        let (cached, backend) = (Arc::clone(&cache.server_info), self.backend().clone());
        Lookup { cached, freshness, fallback, is_told: false, may_be_remembered: false, backend }
    }

    /// False if the backend's version mirrors no parameters in headers, as far as it has listed anything.
    pub(crate) fn mirrors_params(&self) -> bool {
        self.source.mirrors_params.load(Ordering::Relaxed)
    }

    /// False if no tool of any list mirrors a parameter, as far as the backend has listed anything.
    pub(crate) fn may_mirror_params(&self) -> bool {
        self.source.mirroring.load(Ordering::Relaxed) != source::NONE_MIRRORS
    }

    /// The whole list; starts a fetch if it is due.
    pub(crate) fn list(&self, context: &Context, kind: ListKind) -> Lookup<List> {
        let cache = self.cache(context);
        cache.want(kind);
        // with a process for each session, a session has its own cache only after a change
        let is_told = self.share == Share::Session && cache.key.owner != CacheOwner::Base;
        let freshness = self.source.list(&cache, kind);
        let fallback = if freshness.value.is_some() { None } else { self.substitute(&cache.key, kind) };
        if freshness.value.is_none() {
            self.expect(context);
        }
        let (cached, backend) = (Arc::clone(cache.list(kind)), self.backend().clone());
        Lookup { cached, freshness, fallback, is_told, may_be_remembered: false, backend }
    }

    /// The same for a reader to whom the list of an earlier process may be shown. It decides nothing: not what a caller may
    /// call, and not how.
    pub(crate) fn list_to_show(&self, context: &Context, kind: ListKind) -> Lookup<List> {
        Lookup { may_be_remembered: true, ..self.list(context, kind) }
    }

    fn expect(&self, context: &Context) {
        // a client that opens its session is not the requester yet
        if context.requester != Requester::Gateway || *context.client != ClientInfo::gateway() {
            self.source.server.expect(context);
        }
    }

    /// The list that stands for one that is not there yet: that of the gateway with the same capabilities, or its own. An
    /// empty one stands for none: a server may have things for its users alone.
    fn substitute(&self, key: &ListCacheKey, kind: ListKind) -> Option<Arc<List>> {
        let alike = ListCacheKey { owner: CacheOwner::Base, ..key.clone() };
        let alike = self.caches.read().get(&alike).and_then(|alike| alike.list(kind).value());
        alike.or_else(|| self.base()?.list(kind).value()).filter(|list| list.len() > 0)
    }

    /// The whole list, fetched again because the backend behaved as if it had changed; `None` if it cannot be fetched.
    pub(crate) async fn renewed(&self, context: &Context, kind: ListKind) -> Option<Arc<List>> {
        let cache = self.cache(context);
        let cached = cache.list(kind);
        cached.demand();
        self.source.list(&cache, kind);
        cached.settled().await;
        cached.value()
    }

    /// The list of this caller's server, never a substitute: fetched again if it is older than `max_age`.
    ///
    /// # Errors
    ///
    /// The reason for which it cannot be fetched.
    pub(crate) async fn current(
        &self,
        context: &Context,
        kind: ListKind,
        max_age: Duration,
    ) -> Result<Arc<List>, ErrorObject> {
        self.cache(context).list(kind).expire(max_age);
        let Lookup { cached, .. } = self.list(context, kind);
        cached.settled().await;
        match cached.look(Duration::MAX) {
            Freshness { value: Some(list), failure: None, .. } => Ok(list),
            _ => Err(cached.failure(self.backend())),
        }
    }

    /// The key of this context's cache.
    pub(crate) fn key(&self, context: &Context) -> ListCacheKey {
        let capabilities = context.client.capabilities.key().to_owned();
        let Some(owner) = self.own_owner(context) else {
            return ListCacheKey { owner: CacheOwner::Base, capabilities };
        };
        let key = ListCacheKey { owner, capabilities };
        if self.share == Share::Session && self.caches.read().get(&key).is_none() {
            return ListCacheKey { owner: CacheOwner::Base, ..key };
        }
        key
    }

    /// The owner of the backend session for this context, unless it is shared by all. A client without a session is
    /// identified by its user (`translation` 4b.1).
    fn own_owner(&self, context: &Context) -> Option<CacheOwner> {
        match (self.share, &context.requester) {
            (_, Requester::Gateway) | (Share::All, _) => None,
            (Share::Session, Requester::Session(session)) => Some(CacheOwner::Session(session.clone())),
            (Share::User | Share::Session, _) => Some(CacheOwner::User(context.caller.user.clone())),
        }
    }

    /// True if this context reads the lists of all until a backend session of its own reports a change.
    pub(crate) fn hears_own_changes(&self, context: &Context) -> bool {
        self.share == Share::Session && self.key(context).owner == CacheOwner::Base
    }

    /// The list that this context is served, if it is there.
    pub(crate) fn cached(&self, context: &Context, kind: ListKind) -> Option<Arc<List>> {
        self.cache(context).list(kind).value()
    }

    /// Handles a change of these lists in the backend's session for this context. The gateway's lists that its client was
    /// told of since its last change are `reported`. Returns true if the client is notified at once; otherwise once the list
    /// has been fetched and differs.
    pub(crate) fn changed_for(
        &self,
        context: &Context,
        kinds: &[ListKind],
        reported: &[(ListKind, Arc<List>)],
    ) -> bool {
        if let (Share::Session, Some(owner)) = (self.share, self.own_owner(context)) {
            let capabilities = context.client.capabilities.key().to_owned();
            let key = ListCacheKey { owner, capabilities };
            let served = kinds.iter().map(|kind| self.cached(context, *kind)).collect::<Vec<_>>();
            // replaced, so that a request that follows the notification waits for the new list
            self.caches.write().remove(&key);
            let cache = self.open(key, context);
            if reported.is_empty() {
                return true;
            }
            for (kind, served) in kinds.iter().zip(served) {
                let reported = reported.iter().find(|(other, _)| other == kind).map(|(_, list)| Arc::clone(list));
                if let Some(list) = reported.or(served) {
                    cache.list(*kind).notify_later(Some(list));
                    self.source.list(&cache, *kind);
                }
            }
            return false;
        }
        let cache = self.cache(context);
        cache.invalidate(kinds);
        for kind in kinds {
            // without an earlier list to compare, the server's notification counts
            cache.list(*kind).notify_later(None);
            // it may have heard of the change in a call
            cache.list(*kind).outdate();
            self.source.list(&cache, *kind);
        }
        false
    }

    /// Removes the lists of a user who is gone.
    pub(crate) fn forget_user(&self, user: &UserId) {
        self.caches.write().retain(|key| !matches!(&key.owner, CacheOwner::User(owner) if owner == user));
        self.source.settings.descriptions.forget(Some(user));
    }

    /// Handles a change in the base connection: shared lists are fetched again if they were read since the last change;
    /// those of users and sessions on demand.
    pub(crate) fn changed(&self, kinds: &[ListKind]) {
        let caches: Vec<_> = self.caches.read().values().cloned().collect();
        for cache in caches {
            if cache.invalidate(kinds) {
                self.source.settings.descriptions.forget(cache.key.user());
            }
            for kind in kinds.iter().filter(|kind| cache.is_followed(**kind)) {
                self.source.list(&cache, *kind);
            }
        }
    }

    /// The kinds of lists that have just changed, for new listens: their clients may have got the old ones.
    pub(crate) fn just_changed(&self, context: &Context) -> Vec<ListKind> {
        let cache = self.caches.read().get(&self.key(context)).cloned();
        let changed =
            |kind: &ListKind| cache.as_ref().is_some_and(|cache| cache.list(*kind).changed_within(JUST_CHANGED));
        ListKind::ALL.into_iter().filter(changed).collect()
    }

    /// Fetches what the gateway itself sees, as far as it is not there and due.
    pub(crate) fn warm(&self) {
        let cache = self.cache(&self.own_context());
        for kind in ListKind::ALL.into_iter().filter(|kind| cache.list(*kind).value().is_none()) {
            self.source.list(&cache, kind);
        }
    }

    /// Forgets that the backend could not be asked, and asks it at once for what the gateway itself sees.
    pub(crate) fn ask_again(&self) {
        for cache in self.caches.read().values() {
            cache.forget_failures();
        }
        self.warm();
    }

    /// Facts for the layers around the server.
    pub(crate) fn facts(&self) -> &Arc<ServerFacts> {
        &self.source.facts
    }

    /// The server whose lists these are.
    pub(crate) fn server(&self) -> &Arc<dyn Server> {
        &self.source.server
    }

    /// The name of the backend.
    pub(crate) fn backend(&self) -> &BackendId {
        &self.source.backend
    }

    /// Ends the fetches and the watch of the lists when it is cancelled.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.source.settings.cancel
    }

    /// True if each list that the gateway itself sees is there, or could not be fetched.
    pub(crate) fn is_listed(&self) -> bool {
        self.base().is_some_and(|base| {
            ListKind::ALL.into_iter().all(|kind| {
                let known = base.list(kind).look(Duration::MAX);
                known.value.is_some() || known.failure.is_some()
            })
        })
    }

    /// The list that the gateway itself sees, if it is there.
    pub(crate) fn listed(&self, kind: ListKind) -> Option<Arc<List>> {
        self.base()?.list(kind).value()
    }

    /// False if the server declares no such list. The list of an earlier process is enough to go on.
    pub(crate) async fn may_have(&self, context: &Context, kind: ListKind) -> bool {
        let info = self.server_info(context);
        if info.at_hand().is_none() {
            let list = self.list_to_show(context, kind);
            tokio::select! {
                is_there = list.available() => if is_there { return true },
                () = info.cached.settled() => {}
            }
        }
        info.wait().await.map_or(true, |info| info.has(kind.capability()))
    }

    /// Number of entries that the gateway itself sees, or saw in an earlier process.
    pub(crate) fn count(&self, kind: ListKind) -> usize {
        let Some(base) = self.base() else { return 0 };
        let list = base.list(kind).value().or_else(|| base.list(kind).remembered());
        list.map_or(0, |list| list.len())
    }

    /// True if the tools that clients are shown are those of an earlier process.
    pub(crate) fn is_remembered(&self) -> bool {
        self.base().is_some_and(|base| base.list(ListKind::Tools).remembered().is_some())
    }

    /// The reason why the gateway itself sees no entry; `None` if it sees some, or has not asked.
    pub(crate) fn emptiness(&self, kind: ListKind) -> Option<EmptyList> {
        let Freshness { value, failure, began, .. } = self.base()?.list(kind).look(Duration::MAX);
        match (value, failure, began) {
            (Some(list), ..) if list.len() > 0 => None,
            // an error of the server's own has its version
            (_, Some(error), _) if error.revision().is_some() => Some(EmptyList::refused(&error)),
            (_, Some(error), _) => Some(EmptyList::not_fetched(&error.message())),
            (Some(list), None, _) => list.emptiness(),
            (None, None, began) => began.map(|began| EmptyList::Silent { seconds: began.elapsed().as_secs() }),
        }
    }

    /// Hidden entries, with their kinds and reasons.
    pub(crate) fn left_out(&self) -> Vec<(ListKind, LeftOut)> {
        let Some(base) = self.base() else { return Vec::new() };
        let of_kind = |kind: ListKind| base.list(kind).value().into_iter().map(move |list| (kind, list));
        let all = ListKind::ALL.into_iter().flat_map(of_kind);
        all.flat_map(|(kind, list)| list.left_out().first().iter().map(|one| (kind, one.clone())).collect::<Vec<_>>())
            .collect()
    }

    /// True if any tool may be left out.
    pub(crate) fn leaves_out_tools(&self) -> bool {
        self.source.omissions.may_have_tools()
    }

    /// True if this tool is hidden from this client because it breaks the schema of the client's version. The server
    /// decides about an unlisted tool.
    pub(crate) fn leaves_out_tool(&self, context: &Context, name: &str) -> bool {
        if !self.leaves_out_tools() {
            return false;
        }
        self.list(context, ListKind::Tools).at_hand().is_some_and(|list| list.leaves_out(name, context.client.revision))
    }

    /// Deletes the caches of an ended client session.
    pub(crate) fn forget(&self, session: &SessionId) {
        self.caches.write().retain(|key| !matches!(&key.owner, CacheOwner::Session(id) if id == session));
    }

    fn base(&self) -> Option<Arc<ListCache>> {
        self.caches.read().get(&ListCacheKey::OWN).cloned()
    }

    fn cache(&self, context: &Context) -> Arc<ListCache> {
        self.open(self.key(context), context)
    }

    fn open(&self, key: ListCacheKey, context: &Context) -> Arc<ListCache> {
        let now = self.uses.fetch_add(1, Ordering::Relaxed);
        if let Some(cache) = self.caches.read().get(&key) {
            cache.used.store(now, Ordering::Relaxed);
            return Arc::clone(cache);
        }
        let context = match key.owner {
            CacheOwner::Base => self.alike_context(&context.client),
            CacheOwner::User(_) | CacheOwner::Session(_) => context.clone(),
        };
        self.caches.write().get_or_insert(key, |key| ListCache::new(key, context, now))
    }
}
