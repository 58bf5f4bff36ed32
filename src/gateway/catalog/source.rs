//! Fetches the lists of one backend, page by page.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::Duration,
};

use metrics::counter;
use parking_lot::RwLock;
use tokio::time::{sleep, timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    cache::{CacheOwner, Change, ListCache, ListChanges},
    cached::Freshness,
    fetched_cursors::{FetchedCursors, NextPage},
    list::{List, MAX_ENTRIES, PageFit},
    list_store::{KeptList, ListPlace, ListStore, StoredTimes},
    omissions::Omissions,
    server_info::DiscoverInfo,
};
use crate::{
    gateway::{alike::Alike, configured_backend::ConfiguredBackend, descriptions::Descriptions},
    layers::ServerFacts,
    mcp::{
        Call, ErrorObject, Feature, ListKind, Method, Outcome, Payload, Revision, Server,
        large_messages::{MessageOwner, OffWorker, off_worker},
        observer::{LifecycleEvent, Observer},
    },
    model::{BackendId, UserId, status::EmptyList},
    support::{Account, Digest, MemoryBudget},
};

/// Maximum time of one fetch, including the backend's start.
const FETCH_TIMEOUT: Duration = Duration::from_mins(5);
/// Pause before a list that became stale during its fetch is fetched again.
const REST: Duration = Duration::from_millis(100);
/// Factor for the maximum age of a list, if its server declares change notifications.
const TRUST: u32 = 10;
/// Maximum number of pages of one list.
const MAX_PAGES: usize = 1_000;
/// Maximum size of one list, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Maximum size of a list that is stored for a later run, in bytes.
const MAX_KEPT_BYTES: usize = 4 << 20;

/// Value of [`ListSource::mirroring`]: no tool of any list mirrors a parameter.
pub(super) const NONE_MIRRORS: u8 = 1;
/// Value of [`ListSource::mirroring`]: some tool does, so calls must consult the lists.
const SOME_MIRROR: u8 = 2;

pub(super) struct ListSource {
    pub(super) backend: BackendId,
    pub(super) server: Arc<dyn Server>,
    pub(super) settings: CatalogSettings,
    /// Account of the server, which pays for its lists.
    pub(super) account: Account,
    /// False if the version of its last list mirrors no parameters in headers.
    pub(super) mirrors_params: AtomicBool,
    /// Mirrored parameters in all tool lists so far: 0 before the first list, then `NONE_MIRRORS` or `SOME_MIRROR`.
    pub(super) mirroring: AtomicU8,
    /// True if calls need nothing from the lists: no parameter is mirrored, and no tool is hidden.
    pub(super) has_plain_calls: Arc<AtomicBool>,
    /// Entries that are hidden from clients.
    pub(super) omissions: Omissions,
    pub(super) facts: Arc<ServerFacts>,
    /// Lists by digest, so that users with equal lists share one.
    alike_lists: Alike<(ListKind, Digest), List>,
    /// Server information by digest, shared in the same way.
    alike_infos: Alike<Digest, DiscoverInfo>,
    /// Last server information, perhaps from an earlier run of the gateway.
    last_server_info: RwLock<Option<Arc<DiscoverInfo>>>,
    /// The times at which the lists that the gateway itself fetched were stored.
    stored: StoredTimes,
    /// The place of lists stored for a later process; `None` if they are not stored.
    kept: Option<KeptUnder>,
}

/// The part of the place that all stored lists of a server share.
struct KeptUnder {
    section: Digest,
    /// True if the server may list different things for each user.
    tells_callers_apart: bool,
}

/// Settings of a catalog, and the channel of its changes.
#[derive(Clone)]
pub(crate) struct CatalogSettings {
    /// Age at which a list is refreshed in the background.
    pub(crate) refresh: Duration,
    /// Maximum length of a merged name.
    pub(crate) longest_name: usize,
    pub(crate) changes: ListChanges,
    /// Merged descriptions, which depend on this server's information.
    pub(crate) descriptions: Arc<Descriptions>,
    /// Notified of the backend's server information.
    pub(crate) observer: Observer,
    pub(crate) budget: MemoryBudget,
    /// Lists stored by earlier runs; `None` if none are stored.
    pub(crate) list_store: Option<Arc<dyn ListStore>>,
    pub(crate) tracker: TaskTracker,
    /// Cancelling it ends the fetches.
    pub(crate) cancel: CancellationToken,
}

// === impl ListSource ===

impl ListSource {
    /// Creates the source, with stored server information.
    pub(super) fn new(configured: &ConfiguredBackend, settings: CatalogSettings) -> Self {
        let facts = ServerFacts::default();
        let last_server_info = configured.last_server_info.clone().map(DiscoverInfo::new);
        if let Some(info) = &last_server_info {
            facts.note_tasks(info.has_tasks());
        }
        Self {
            backend: configured.id().clone(),
            account: settings.budget.server(configured.id().as_str()),
            server: Arc::clone(&configured.server),
            settings,
            mirrors_params: AtomicBool::new(true),
            mirroring: AtomicU8::new(0),
            has_plain_calls: Arc::default(),
            omissions: Omissions::default(),
            facts: Arc::new(facts),
            alike_lists: Alike::default(),
            alike_infos: Alike::default(),
            last_server_info: RwLock::new(last_server_info.map(Arc::new)),
            stored: StoredTimes::default(),
            kept: configured
                .section()
                .map(|section| KeptUnder { section, tells_callers_apart: configured.spec.lists_for_each_user() }),
        }
    }

    /// True if the server may list different things for each user.
    pub(super) fn lists_for_each_user(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.tells_callers_apart)
    }

    /// Where the list of this cache may be stored: for its user only, and for all users.
    fn kept_places(&self, cache: &ListCache, kind: ListKind) -> [Option<ListPlace>; 2] {
        let Some(KeptUnder { section, tells_callers_apart }) = self.kept else { return [None, None] };
        let place = |user: Option<&UserId>| ListPlace {
            backend: self.backend.clone(),
            section,
            user: user.cloned(),
            capabilities: cache.key.capabilities.clone(),
            method: kind.method(),
        };
        let shared = || (!tells_callers_apart).then(|| place(None));
        match &cache.key.owner {
            // such a list was fetched after a change, so stored ones are outdated
            CacheOwner::Session(_) => [None, None],
            CacheOwner::User(user) => [Some(place(Some(user))), shared()],
            CacheOwner::Base => [None, shared()],
        }
    }

    /// Shows the list of an earlier run until there is a new one.
    async fn recall(&self, cache: &ListCache, kind: ListKind) {
        let Some(store) = &self.settings.list_store else { return };
        // the list that all are shown now is better than one that all were shown
        if !self.lists_for_each_user() && self.stored.has(kind) {
            return;
        }
        for place in self.kept_places(cache, kind).into_iter().flatten() {
            let without = ListPlace { capabilities: String::new(), ..place.clone() };
            let places = if place == without { vec![place] } else { vec![place, without] };
            for place in places {
                let Some(page) = store.load(&place).await else { continue };
                let mut list = List::remembered();
                if list.hold(&page, &self.account).is_ok() {
                    list.add(&page, kind, &self.backend, self.settings.longest_name);
                    // the result would lack its server's name
                    list.whole = None;
                    return cache.list(kind).remember(Arc::new(list));
                }
            }
        }
    }

    /// Stores a fetched list for a later process: for all users if they see the same, otherwise for its user. An
    /// unchanged one is stored again once a day.
    fn keep(&self, cache: &ListCache, kind: ListKind, list: &List, is_other: bool) {
        let Some(store) = &self.settings.list_store else { return };
        let is_shared = !list.is_for_reader_only;
        let (place, may_be_shown, times) = match self.kept_places(cache, kind) {
            // the gateway's own list is stored for all users, and this fetch shows that the server is still there
            [Some(_), Some(shared)] if is_shared => {
                if self.stored.renews(kind) {
                    store.keep(ListPlace { capabilities: String::new(), ..shared }, KeptList::Same);
                }
                return;
            }
            [Some(own), _] => (own, true, &cache.stored),
            [None, Some(shared)] => (shared, is_shared, if cache.is_own() { &self.stored } else { &cache.stored }),
            [None, None] => return,
        };
        if is_other {
            let page = list.as_page(kind);
            let is_kept = may_be_shown && page.json().len() <= MAX_KEPT_BYTES;
            times.note(kind);
            store.keep(place, if is_kept { KeptList::New(page) } else { KeptList::Gone });
        } else if times.renews(kind) {
            store.keep(place, KeptList::Same);
        }
    }

    /// Current or last known server information.
    pub(super) fn last_server_info(&self) -> Option<Arc<DiscoverInfo>> {
        self.last_server_info.read().clone()
    }

    /// Server information; starts a fetch if one is due.
    pub(super) fn server_info(self: &Arc<Self>, cache: &Arc<ListCache>) -> Freshness<DiscoverInfo> {
        let freshness = cache.server_info.look(self.settings.refresh);
        if !(freshness.due && cache.server_info.begin()) {
            return freshness;
        }
        self.spawn(fetch_server_info(Arc::clone(self), Arc::clone(cache)));
        cache.server_info.look(self.settings.refresh)
    }

    /// The list of this kind; starts a fetch if one is due.
    pub(super) fn list(self: &Arc<Self>, cache: &Arc<ListCache>, kind: ListKind) -> Freshness<List> {
        let cached = cache.list(kind);
        let tells = cache.server_info.value().is_some_and(|info| info.tells_changes(kind.capability()));
        let refresh = if tells { self.settings.refresh * TRUST } else { self.settings.refresh };
        let freshness = cached.look(refresh);
        if !(freshness.due && cached.begin()) {
            self.fetch_later(cache, kind);
            return freshness;
        }
        self.spawn(fetch_list(Arc::clone(self), Arc::clone(cache), kind));
        cached.look(refresh)
    }

    /// Plans the fetch of a list whose last reported changes were false alarms.
    fn fetch_later(self: &Arc<Self>, cache: &Arc<ListCache>, kind: ListKind) {
        let Some(pause) = cache.list(kind).plan() else { return };
        let (source, cache) = (Arc::clone(self), Arc::clone(cache));
        self.settings.tracker.spawn(async move {
            let pause = sleep(pause);
            if source.settings.cancel.run_until_cancelled(pause).await.is_some() {
                cache.list(kind).planned();
                source.list(&cache, kind);
            }
        });
    }

    fn spawn(&self, fetch: impl Future<Output = ()> + Send + 'static) {
        let owner = MessageOwner::Server(self.backend.clone());
        self.settings.tracker.spawn(OffWorker::future(owner, Box::pin(fetch)));
    }

    /// Updates `has_plain_calls` from the lists so far.
    fn note_calls(&self) {
        let plain = !self.mirrors_params.load(Ordering::Relaxed) && !self.omissions.may_have_tools();
        self.has_plain_calls.store(plain, Ordering::Relaxed);
    }

    /// Lets layers check tool results against the list that the gateway itself sees.
    fn expect_outputs(&self, cache: &ListCache) {
        if let Some(list) = cache.list(ListKind::Tools).value() {
            self.facts.outputs.expect(list.entries.iter().map(|entry| (entry.key.as_str(), &entry.raw)));
        }
    }

    /// The list already in use with the same bytes; otherwise this one.
    fn shared_list(&self, kind: ListKind, list: List) -> Arc<List> {
        match list.written {
            Some(written) => self.alike_lists.shared((kind, written), list, |_, _| true),
            None => Arc::new(list),
        }
    }

    /// Equal server information already in use; otherwise this one.
    fn shared_info(&self, result: Payload) -> Arc<DiscoverInfo> {
        self.alike_infos.shared(Digest::sha256(result.json()), DiscoverInfo::new(result), PartialEq::eq)
    }

    /// The server information that this cache serves now.
    fn shown_info(&self, cache: &ListCache) -> Option<Arc<DiscoverInfo>> {
        cache.server_info.value().or_else(|| self.last_server_info())
    }

    /// Stores server information that the gateway itself got from the backend.
    fn note_server_info(&self, info: &Arc<DiscoverInfo>) {
        let mut known = self.last_server_info.write();
        if known.as_ref() != Some(info) {
            *known = Some(Arc::clone(info));
            self.settings.observer.notify(LifecycleEvent::ServerDescribed(&self.backend, &info.result));
        }
    }
}

/// Fetches `server/discover`, again if it became stale in the meantime.
async fn fetch_server_info(source: Arc<ListSource>, cache: Arc<ListCache>) {
    loop {
        let params = Payload::absent(Revision::NEWEST_LEGACY);
        let asked = bounded(&source, ask(&source, &cache, Method::Discover, params)).await;
        let known = cache.server_info.look(Duration::MAX).failure;
        note(&source, &Method::Discover, asked.as_ref().err().filter(|_| known.is_none()));
        let shown = source.shown_info(&cache);
        let settled = cache.server_info.finish(asked.map(|result| source.shared_info(result)));
        if let Some(info) = cache.server_info.value() {
            source.facts.note_tasks(info.has_tasks());
            if cache.is_own() {
                source.note_server_info(&info);
            }
        }
        if shown != source.shown_info(&cache) {
            source.settings.descriptions.forget(cache.key.user());
        }
        if !settled.again || !cache.server_info.begin() {
            return;
        }
        sleep(REST).await;
    }
}

/// Fetches a list, again if it became stale in the meantime, and reports a change.
async fn fetch_list(source: Arc<ListSource>, cache: Arc<ListCache>, kind: ListKind) {
    let mut may_recall = cache.list(kind).is_first_fetch();
    loop {
        let fetched = bounded(&source, whole(&source, &cache, kind));
        let asked = if std::mem::take(&mut may_recall) {
            tokio::join!(fetched, source.recall(&cache, kind)).0
        } else {
            fetched.await
        };
        // a failure of this backend was already logged
        let known =
            cache.server_info.look(Duration::MAX).failure.or_else(|| cache.list(kind).look(Duration::MAX).failure);
        note(&source, &kind.method(), asked.as_ref().err().filter(|_| known.is_none()));
        let has_failed = asked.is_err();
        // before the change is reported, so that clients who then read the list count
        let wanted = cache.take_wanted(kind);
        if let Ok(list) = &asked {
            source.omissions.note(&source.backend, kind, list.left_out());
            source.note_calls();
            if kind == ListKind::Tools {
                let mirroring = if list.mirrors_params() { SOME_MIRROR } else { NONE_MIRRORS };
                source.mirroring.fetch_max(mirroring, Ordering::Relaxed);
            }
        }
        let before = cache.list(kind).value();
        let is_first = before.is_none();
        let settled = cache.list(kind).finish(asked.map(|list| source.shared_list(kind, list)));
        cache.list(kind).is_paid_by(&source.account);
        if (is_first || settled.changed) && cache.is_own() && kind == ListKind::Tools {
            source.expect_outputs(&cache);
        }
        if let Some(list) = cache.list(kind).value().filter(|_| !has_failed) {
            let is_other = before.is_none_or(|before| before.written != list.written || before.len() != list.len());
            source.keep(&cache, kind, &list, is_other);
        }
        if !settled.changed && wanted {
            cache.want(kind);
        }
        if settled.changed {
            let change = Change { backend: source.backend.clone(), cache: cache.key.clone(), kind };
            source.settings.changes.tell(change);
        }
        if !settled.again {
            return;
        }
        source.fetch_later(&cache, kind);
        if cache.list(kind).is_kept() || !cache.list(kind).begin() {
            return;
        }
        sleep(REST).await;
    }
}

async fn bounded<T>(
    source: &ListSource,
    fetch: impl Future<Output = Result<T, ErrorObject>> + Send,
) -> Result<T, ErrorObject> {
    let failed = |why: &str| {
        let message = format!("The list of server `{}` could not be fetched: {why}.", source.backend);
        ErrorObject::with_data(
            ErrorObject::INTERNAL_ERROR,
            &message,
            &serde_json::json!({ "backend": source.backend.as_str(), "server": source.backend.as_str() }),
        )
    };
    let outcome = match source.settings.cancel.run_until_cancelled(timeout(FETCH_TIMEOUT, fetch)).await {
        None => Err(failed("the gateway is shutting down")),
        Some(Err(_)) => Err(failed("it took longer than 5 minutes; see whether the server is well")),
        Some(Ok(outcome)) => outcome.map_err(|error| error.about(&source.backend)),
    };
    let word = if outcome.is_ok() { "ok" } else { "failed" };
    counter!("lockkeeper_catalog_fetches_total", "server" => source.backend.to_string(), "outcome" => word)
        .increment(1);
    outcome
}

/// Logs a new failure, unless the gateway is stopping or the backend runs at another replica.
fn note(source: &ListSource, method: &Method, news: Option<&ErrorObject>) {
    if let Some(error) = news.filter(|error| !source.settings.cancel.is_cancelled() && !error.is_elsewhere()) {
        tracing::warn!(server = %source.backend, %method, %error, "a server could not be asked what it offers");
    }
}

async fn whole(source: &Arc<ListSource>, cache: &Arc<ListCache>, kind: ListKind) -> Result<List, ErrorObject> {
    if !known(source, cache).await?.has(kind.capability()) {
        return Ok(List::absent(EmptyList::Undeclared { capability: kind.capability().to_owned() }));
    }
    let mut list = List::empty();
    let (mut pages, mut bytes, mut cursors) = (0, 0, FetchedCursors::default());
    let mut cursor: Option<String> = None;
    loop {
        // some servers reject a list request without parameters
        let params = match &cursor {
            None => Payload::empty(Revision::NEWEST_LEGACY),
            Some(cursor) => Payload::of(Revision::NEWEST_LEGACY, &serde_json::json!({ "cursor": cursor })),
        };
        let page = match ask(source, cache, kind.method(), params).await {
            // servers with resources often have no templates
            Err(error) if error.code() == ErrorObject::METHOD_NOT_FOUND => {
                return Ok(List::absent(EmptyList::refused(&error)));
            }
            page => page?,
        };
        source.mirrors_params.store(page.revision.has(Feature::MirroredParams), Ordering::Relaxed);
        source.note_calls();
        bytes += page.json().len();
        pages += 1;
        list.hold(&page, &source.account).map_err(|exhausted| ErrorObject::internal(&exhausted.to_string()))?;
        let fit = list.add(&page, kind, &source.backend, source.settings.longest_name);
        let next = cursors.after(&page);
        let is_full = pages >= MAX_PAGES || list.len() >= MAX_ENTRIES || bytes >= MAX_BYTES;
        match next {
            next if fit == PageFit::Cut || (is_full && matches!(next, NextPage::At(_))) => {
                let entries = list.len();
                tracing::warn!(server = %source.backend, method = %kind.method(), entries, "a list is too long; it was cut");
                break;
            }
            NextPage::At(next) => cursor = Some(next),
            NextPage::End => break,
            NextPage::Loop => {
                list.ends_in_loop();
                break;
            }
        }
    }
    Ok(list)
}

/// Server information of this run; waits for it if it is being fetched.
async fn known(source: &Arc<ListSource>, cache: &Arc<ListCache>) -> Result<Arc<DiscoverInfo>, ErrorObject> {
    let mut freshness = source.server_info(cache);
    if freshness.began.is_some() {
        cache.server_info.settled().await;
        freshness = cache.server_info.look(source.settings.refresh);
    }
    match (freshness.value, freshness.failure) {
        (Some(info), _) => Ok(info),
        (None, Some(failure)) => Err(failure),
        (None, None) => Err(ErrorObject::internal("the server did not say what it offers")),
    }
}

async fn ask(source: &ListSource, cache: &ListCache, method: Method, params: Payload) -> Result<Payload, ErrorObject> {
    let call = Call { method, params, context: cache.context.clone() };
    match source.server.call(call).outcome().await {
        Outcome::Complete(result) => {
            off_worker(result.json().len()).await;
            Ok(result)
        }
        Outcome::Failed(error) => Err(error),
        Outcome::InputRequired(_) => Err(ErrorObject::internal("the server asks for input where it may not")),
    }
}
