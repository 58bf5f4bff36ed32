//! Lists of one backend, served from memory (design rule 6).
//!
//! A [`ListCache`] holds the lists for one kind of client. Its key is its owner and the client's capabilities, since
//! servers show different tools to different clients. Lists are served from the cache and refreshed in the background:
//! when they are older than [`CatalogSettings::refresh`], or when the backend reports a change. A failed backend keeps
//! its cache.
//!
//! The owner of a cache depends on how the backend is shared. If it is shared per user, the user owns the cache. If it
//! is shared per session, the gateway owns the cache for the same capabilities, so that listing starts no process for a
//! session; once the session's own backend session reports a change, that session is asked and gets its own cache. A
//! client without a session uses its user's backend session.

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

pub use self::list_store::{KeptList, ListPlace, ListStore};
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

pub(crate) struct Catalog {
    source: Arc<ListSource>,
    /// True if calls need nothing from the lists that the backend has sent so far.
    pub(crate) has_plain_calls: Arc<AtomicBool>,
    share: Share,
    caches: RwLock<CacheTable>,
    /// Number of uses so far. Each cache keeps the number of its last use, so the longest unused one can go first.
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

    /// The gateway's own context, for the base connection.
    pub(crate) fn own_context(&self) -> Context {
        self.context(ClientInfo::gateway())
    }

    /// The context for lists of all clients with the same capabilities as this one. The server sees the first such
    /// client, whose session may continue the connection.
    fn alike_context(&self, client: &ClientInfo) -> Context {
        if client.capabilities.key().is_empty() {
            return self.own_context();
        }
        self.context(ClientInfo { revision: Revision::NEWEST_LEGACY, ..client.clone() })
    }

    fn context(&self, client: ClientInfo) -> Context {
        Context::of_gateway(client, self.source.account.clone())
    }

    /// Server information of the backend; starts a fetch if one is due. Until the fetch ends, the last known
    /// information is used, so that no session waits for it twice (`translation` 6.7).
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

    /// False if the backend's version mirrors no parameters in headers, according to its lists so far.
    pub(crate) fn mirrors_params(&self) -> bool {
        self.source.mirrors_params.load(Ordering::Relaxed)
    }

    /// False if no tool mirrors a parameter, in any list so far.
    pub(crate) fn may_mirror_params(&self) -> bool {
        self.source.mirroring.load(Ordering::Relaxed) != source::NONE_MIRRORS
    }

    /// The whole list; starts a fetch if one is due.
    pub(crate) fn list(&self, context: &Context, kind: ListKind) -> Lookup<List> {
        let cache = self.cache(context);
        cache.want(kind);
        // with a session for each client, a client gets its own cache only after a change
        let is_told = self.share == Share::Session && cache.key.owner != CacheOwner::Base;
        let freshness = self.source.list(&cache, kind);
        let fallback = if freshness.value.is_some() { None } else { self.substitute(&cache.key, kind) };
        if freshness.value.is_none() {
            self.expect(context);
        }
        let (cached, backend) = (Arc::clone(cache.list(kind)), self.backend().clone());
        Lookup { cached, freshness, fallback, is_told, may_be_remembered: false, backend }
    }

    /// The same for a reader who may see the list of an earlier run. That list never decides which tools a caller may
    /// call, or how.
    pub(crate) fn list_to_show(&self, context: &Context, kind: ListKind) -> Lookup<List> {
        let list = self.list(context, kind);
        // a current list shown to all users is better than an old one
        let may_be_remembered = list.fallback.is_none() || self.source.lists_for_each_user();
        Lookup { may_be_remembered, ..list }
    }

    fn expect(&self, context: &Context) {
        // a client that is opening its session is not the requester yet
        if context.requester != Requester::Gateway || *context.client != ClientInfo::gateway() {
            self.source.server.expect(context);
        }
    }

    /// The substitute for a missing list: the gateway's list for the same capabilities, or its own. An empty list does
    /// not count: a server may offer things only to its users.
    fn substitute(&self, key: &ListCacheKey, kind: ListKind) -> Option<Arc<List>> {
        let alike = ListCacheKey { owner: CacheOwner::Base, ..key.clone() };
        let alike = self.caches.read().get(&alike).and_then(|alike| alike.list(kind).value());
        alike.or_else(|| self.base()?.list(kind).value()).filter(|list| list.len() > 0)
    }

    /// The whole list, fetched again because the backend acted as if it had changed; `None` if that fails.
    pub(crate) async fn renewed(&self, context: &Context, kind: ListKind) -> Option<Arc<List>> {
        let cache = self.cache(context);
        let cached = cache.list(kind);
        cached.demand();
        self.source.list(&cache, kind);
        cached.settled().await;
        cached.value()
    }

    /// The list of this caller's server itself: fetched again if it is older than `max_age`.
    ///
    /// # Errors
    ///
    /// If it cannot be fetched.
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

    /// The owner of the backend session for this context; `None` if all clients share it. A client without a session
    /// counts as its user (`translation` 4b.1).
    fn own_owner(&self, context: &Context) -> Option<CacheOwner> {
        match (self.share, &context.requester) {
            (_, Requester::Gateway) | (Share::All, _) => None,
            (Share::Session, Requester::Session(session)) => Some(CacheOwner::Session(session.clone())),
            (Share::User | Share::Session, _) => Some(CacheOwner::User(context.caller.user.clone())),
        }
    }

    /// True if this context reads the lists shared by all clients, until its own backend session reports a change.
    pub(crate) fn hears_own_changes(&self, context: &Context) -> bool {
        self.share == Share::Session && self.key(context).owner == CacheOwner::Base
    }

    /// The list served to this context, if there is one.
    pub(crate) fn cached(&self, context: &Context, kind: ListKind) -> Option<Arc<List>> {
        self.cache(context).list(kind).value()
    }

    /// Handles a change of these lists in the backend's session for this context. `reported` are the gateway's lists
    /// that were reported to its client since its last change. Returns true if the client must be notified now;
    /// otherwise it is notified once the list has been fetched and differs.
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
            // replaced, so that a request sent after the notification waits for the new list
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
            // the client may have learned of the change during a call
            cache.list(*kind).outdate();
            self.source.list(&cache, *kind);
        }
        false
    }

    /// Removes the lists of a deleted user.
    pub(crate) fn forget_user(&self, user: &UserId) {
        self.caches.write().retain(|key| !matches!(&key.owner, CacheOwner::User(owner) if owner == user));
        self.source.settings.descriptions.forget(Some(user));
    }

    /// Handles a change in the base connection. Shared lists are fetched again if they were read since the last change;
    /// lists of users and sessions are fetched on demand.
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

    /// Kinds of lists that have just changed, for new listens: their clients may have read the old ones.
    pub(crate) fn just_changed(&self, context: &Context) -> Vec<ListKind> {
        let cache = self.caches.read().get(&self.key(context)).cloned();
        let changed =
            |kind: &ListKind| cache.as_ref().is_some_and(|cache| cache.list(*kind).changed_within(JUST_CHANGED));
        ListKind::ALL.into_iter().filter(changed).collect()
    }

    /// Fetches the gateway's own lists that are missing and due.
    pub(crate) fn warm(&self) {
        let cache = self.cache(&self.own_context());
        for kind in ListKind::ALL.into_iter().filter(|kind| cache.list(*kind).value().is_none()) {
            self.source.list(&cache, kind);
        }
    }

    /// Forgets failed fetches, and fetches the gateway's own lists at once.
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

    pub(crate) fn server(&self) -> &Arc<dyn Server> {
        &self.source.server
    }

    pub(crate) fn backend(&self) -> &BackendId {
        &self.source.backend
    }

    /// Ends the fetches and the watch of the lists when it is cancelled.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.source.settings.cancel
    }

    /// True if each of the gateway's own lists is present, or could not be fetched.
    pub(crate) fn is_listed(&self) -> bool {
        self.base().is_some_and(|base| {
            ListKind::ALL.into_iter().all(|kind| {
                let known = base.list(kind).look(Duration::MAX);
                known.value.is_some() || known.failure.is_some()
            })
        })
    }

    /// The gateway's own list, if present.
    pub(crate) fn listed(&self, kind: ListKind) -> Option<Arc<List>> {
        self.base()?.list(kind).value()
    }

    /// The list at hand for a user: their own, or the one that all are shown. Nothing is fetched.
    pub(crate) fn known(&self, user: &UserId, kind: ListKind) -> Option<Arc<List>> {
        let caches = self.caches.read();
        let own = caches.values().filter(|cache| cache.key.user() == Some(user));
        own.chain(caches.get(&ListCacheKey::OWN)).find_map(|cache| {
            let list = cache.list(kind);
            list.value().or_else(|| list.remembered())
        })
    }

    /// False if the server declares no such list. A list of an earlier run is enough to know.
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

    /// Number of entries that the gateway itself sees, or saw in an earlier run.
    pub(crate) fn count(&self, kind: ListKind) -> usize {
        let Some(base) = self.base() else { return 0 };
        let list = base.list(kind).value().or_else(|| base.list(kind).remembered());
        list.map_or(0, |list| list.len())
    }

    /// The list that the gateway itself was given, if it was.
    pub(crate) fn own(&self, kind: ListKind) -> Option<Arc<List>> {
        self.base()?.list(kind).value()
    }

    /// True if clients see tools of an earlier run.
    pub(crate) fn is_remembered(&self) -> bool {
        self.base().is_some_and(|base| base.list(ListKind::Tools).remembered().is_some())
    }

    /// Why the gateway itself sees no entry; `None` if it sees some, or has not asked.
    pub(crate) fn emptiness(&self, kind: ListKind) -> Option<EmptyList> {
        let Freshness { value, failure, began, .. } = self.base()?.list(kind).look(Duration::MAX);
        match (value, failure, began) {
            (Some(list), ..) if list.len() > 0 => None,
            // only errors from the server itself have a version
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

    /// True if this tool is hidden from this client because it violates the schema of the client's version. The server
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
