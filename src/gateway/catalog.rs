//! What one backend offers, served from memory (`design` rule 6). Knows nothing of merging and of policy.
//!
//! A **rack** holds what one kind of client sees: keyed by who shares it and by what the client can be asked, since
//! servers show other tools to other clients. Everything is served as it is there and refreshed behind: when it is older
//! than [`Settings::refresh`], or when the backend says that it changed. A backend that is down keeps its rack.
//!
//! Whose list it is: of a backend that is shared per user, that user's. Of one that is shared per session, the one that
//! the gateway itself sees with the same capabilities, so that listing starts no process for a session; once the
//! session's own backend session says that a list changed, that session is asked and has a rack of its own. A client
//! without sessions has the backend session of its user.

mod about;
mod cell;
mod fetch;
mod list;
mod omissions;
mod shown;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::RwLock;
use tokio::sync::{broadcast, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::omissions::Omissions;
pub(crate) use self::{
    about::About,
    cell::{Cell, Look},
    list::{Kind, List, TaskSupport},
};
use crate::{
    mcp::{
        Capabilities, ClientInfo, Context, Farewell, Method, Payload, Server, Trace,
        translate::{LeftOut, Profile},
    },
    model::{BackendId, Caller, SessionId, Share, UserId},
};

/// The most racks of one backend; the least recently used one goes when there are more.
const MOST_RACKS: usize = 1_000;
/// How many times longer a list is trusted that the server promises to tell the changes of.
const TRUST: u32 = 10;
/// How long a change is told to those who begin to listen after it.
const A_MOMENT: Duration = Duration::from_mins(1);

/// What one backend offers.
pub(crate) struct Catalog {
    backend: BackendId,
    server: Arc<dyn Server>,
    share: Share,
    settings: Settings,
    racks: RwLock<HashMap<RackKey, Arc<Rack>>>,
    uses: AtomicU64,
    /// Whether what it last listed was of a legacy version.
    legacy: AtomicBool,
    /// The entries that clients are not shown.
    omissions: Omissions,
    /// What the backend last said of itself to the gateway, in an earlier life of it perhaps.
    introduction: RwLock<Option<Arc<About>>>,
}

/// How a catalog works, and where it tells of changes.
#[derive(Clone)]
pub(crate) struct Settings {
    /// How old a list may be before it is refreshed behind.
    pub(crate) refresh: Duration,
    /// Who hears of changes.
    pub(crate) changes: broadcast::Sender<Change>,
    /// Who hears what the backend says of itself to the gateway.
    pub(crate) introductions: watch::Sender<HashMap<BackendId, Payload>>,
    /// Who owns the fetches.
    pub(crate) tracker: TaskTracker,
    /// What ends them.
    pub(crate) cancel: CancellationToken,
}

/// Whose rack it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    /// The gateway's own, shown to everybody who may use the backend.
    Base,
    /// One user's.
    User(UserId),
    /// One client session's.
    Session(SessionId),
}

/// What a rack is found by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RackKey {
    scope: Scope,
    capabilities: String,
}

/// What one kind of client sees.
pub(crate) struct Rack {
    key: RackKey,
    context: Context,
    about: Arc<Cell<About>>,
    lists: [Arc<Cell<List>>; 4],
    /// Whether a client looked at the list since a change of it was told.
    wanted: [AtomicBool; 4],
    used: AtomicU64,
}

/// A list is another than the one that was given out.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// Whose list.
    pub(crate) backend: BackendId,
    /// As whom it is seen.
    pub(crate) rack: RackKey,
    /// Which list.
    pub(crate) kind: Kind,
}

/// Something that was asked of a catalog.
pub(crate) struct Asked<T> {
    /// Where it will be.
    pub(crate) cell: Arc<Cell<T>>,
    /// What is there now.
    pub(crate) look: Look<T>,
    /// What the gateway itself sees, for the time until it is there.
    pub(crate) fallback: Option<Arc<T>>,
    /// Whether it is asked for because it changed: then only what it is now will do, where nobody else is kept waiting.
    pub(crate) is_told: bool,
}

// === impl Catalog ===

impl Catalog {
    /// An empty catalog of this backend.
    pub(crate) fn new(backend: BackendId, server: Arc<dyn Server>, share: Share, settings: Settings) -> Self {
        Self {
            backend,
            server,
            share,
            settings,
            racks: RwLock::default(),
            uses: AtomicU64::new(0),
            legacy: AtomicBool::new(false),
            omissions: Omissions::default(),
            introduction: RwLock::default(),
        }
    }

    /// The same, where the backend has said this of itself before.
    pub(crate) fn introduced(self, result: Option<Payload>) -> Self {
        Self { introduction: RwLock::new(result.map(|result| Arc::new(About::new(result)))), ..self }
    }

    /// A context of the gateway's own that can be asked what `capabilities` say. Without any it has no session, and so
    /// is the one whose backend session is always held; with some it stands for all clients that have the same.
    pub(crate) fn base_context(capabilities: &Capabilities) -> Context {
        let session = || SessionId::new(format!("catalog {}", capabilities.key()));
        Context {
            caller: Arc::new(Caller::gateway()),
            session: capabilities.can_be_asked().then(session),
            request: None,
            mirror: None,
            client: Arc::new(ClientInfo { capabilities: capabilities.clone(), ..ClientInfo::gateway() }),
            profile: Profile::default(),
            farewell: Farewell::default(),
            trace: Trace::default(),
        }
    }

    /// What the backend says of itself; a fetch is started where it is due. What it says, or once said, to the gateway
    /// itself stands in at once, so that no session waits for it twice (`translation` 6.7).
    pub(crate) fn about(self: &Arc<Self>, context: &Context) -> Asked<About> {
        let rack = self.rack(context);
        let mut look = self.look_about(&rack);
        let fallback = self.introduction();
        look.value = look.value.or_else(|| fallback.clone());
        Asked { cell: Arc::clone(&rack.about), look, fallback, is_told: false }
    }

    /// Whether the backend runs calls of tools as tasks, as far as it has said so to the gateway itself.
    pub(crate) fn runs_tools_as_tasks(&self) -> Option<bool> {
        self.introduction().map(|about| about.runs_tools_as_tasks())
    }

    /// What the backend says, or last said, to the gateway itself.
    fn introduction(&self) -> Option<Arc<About>> {
        self.introduction.read().clone()
    }

    /// Notes what the backend says of itself to the gateway.
    fn note_introduction(&self, about: &Arc<About>) {
        let mut known = self.introduction.write();
        if known.as_ref() != Some(about) {
            *known = Some(Arc::clone(about));
            // whoever keeps it looks when there is time: what was said before is of no use then
            self.settings.introductions.send_modify(|all| {
                all.insert(self.backend.clone(), about.result.clone());
            });
        }
    }

    /// Whether the backend speaks a legacy version, as far as it has listed anything.
    pub(crate) fn is_legacy(&self) -> bool {
        self.legacy.load(Ordering::Relaxed)
    }

    /// A whole list; a fetch is started where it is due.
    pub(crate) fn list(self: &Arc<Self>, context: &Context, kind: Kind) -> Asked<List> {
        let rack = self.rack(context);
        rack.wanted[kind as usize].store(true, Ordering::Relaxed);
        let alike = RackKey { scope: Scope::Base, ..rack.key.clone() };
        let alike = self.racks.read().get(&alike).and_then(|alike| alike.list(kind).value());
        let fallback = alike.or_else(|| self.base()?.list(kind).value());
        // a session has a rack once it was told of a change
        let is_told = matches!(rack.key.scope, Scope::Session(_));
        Asked { cell: Arc::clone(rack.list(kind)), look: self.look_list(&rack, kind), fallback, is_told }
    }

    /// A whole list, asked for anew because the backend answered as if it were another; `None` where it cannot be had.
    pub(crate) async fn renewed(self: &Arc<Self>, context: &Context, kind: Kind) -> Option<Arc<List>> {
        let rack = self.rack(context);
        let cell = rack.list(kind);
        cell.invalidate();
        self.look_list(&rack, kind);
        cell.settled().await;
        cell.value()
    }

    /// By what the rack of this context is found.
    pub(crate) fn key(&self, context: &Context) -> RackKey {
        let capabilities = context.client.capabilities.key().to_owned();
        let Some(scope) = self.own_scope(context) else { return RackKey { scope: Scope::Base, capabilities } };
        let key = RackKey { scope, capabilities };
        if self.share == Share::Session && !self.racks.read().contains_key(&key) {
            return RackKey { scope: Scope::Base, ..key };
        }
        key
    }

    /// Whose backend session serves this context, where it is not everybody's. A client without sessions is known by its
    /// user (`translation` 4b.1).
    fn own_scope(&self, context: &Context) -> Option<Scope> {
        context.holder()?;
        match (self.share, &context.session) {
            (Share::All, _) => None,
            (Share::Session, Some(session)) => Some(Scope::Session(session.clone())),
            (Share::User, _) | (Share::Session, None) => Some(Scope::User(context.caller.user.clone())),
        }
    }

    /// The backend says, in its session with this context, that the lists of these kinds changed. Gives whether the
    /// client is to be told at once; else it is told when the list has come and is another.
    pub(crate) fn changed_for(self: &Arc<Self>, context: &Context, kinds: &[Kind]) -> bool {
        if let (Share::Session, Some(scope)) = (self.share, self.own_scope(context)) {
            let capabilities = context.client.capabilities.key().to_owned();
            let key = RackKey { scope, capabilities };
            // a new one each time: whoever asks because of it waits for what is there now
            self.racks.write().remove(&key);
            self.open(key, context);
            return true;
        }
        let rack = self.rack(context);
        rack.invalidate(kinds);
        for kind in kinds {
            // the server's word counts where there is nothing yet to tell a change by
            rack.list(*kind).owe(None);
            self.look_list(&rack, *kind);
        }
        false
    }

    /// The backend says so in its session with the gateway itself: what everybody sees is fetched again, if somebody
    /// looked at it since the last change was told; what single users and sessions see, when they ask.
    pub(crate) fn changed(self: &Arc<Self>, kinds: &[Kind]) {
        let racks: Vec<_> = self.racks.read().values().cloned().collect();
        for rack in racks {
            rack.invalidate(kinds);
            for kind in kinds.iter().filter(|kind| rack.is_followed(**kind)) {
                self.look_list(&rack, *kind);
            }
        }
    }

    /// The kinds whose list changed a moment ago, for those who begin to listen: they may have been given the old one.
    pub(crate) fn just_changed(&self, context: &Context) -> Vec<Kind> {
        let rack = self.racks.read().get(&self.key(context)).cloned();
        let changed = |kind: &Kind| rack.as_ref().is_some_and(|rack| rack.list(*kind).changed_within(A_MOMENT));
        Kind::ALL.into_iter().filter(changed).collect()
    }

    /// Fetches what the gateway itself sees, as far as it is not there and due.
    pub(crate) fn warm(self: &Arc<Self>) {
        let rack = self.rack(&Self::base_context(&Capabilities::none()));
        for kind in Kind::ALL.into_iter().filter(|kind| rack.list(*kind).value().is_none()) {
            self.look_list(&rack, kind);
        }
    }

    /// How many entries the gateway itself sees.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.base().and_then(|base| base.list(kind).value()).map_or(0, |list| list.len())
    }

    /// The entries that clients are not shown, with their kinds and reasons.
    pub(crate) fn left_out(&self) -> Vec<(Kind, LeftOut)> {
        let Some(base) = self.base() else { return Vec::new() };
        let of_kind = |kind: Kind| base.list(kind).value().into_iter().map(move |list| (kind, list));
        let all = Kind::ALL.into_iter().flat_map(of_kind);
        all.flat_map(|(kind, list)| list.left_out().iter().map(|one| (kind, one.clone())).collect::<Vec<_>>()).collect()
    }

    /// Whether any tool may be left out.
    pub(crate) fn leaves_out_tools(&self) -> bool {
        self.omissions.may_have_tools()
    }

    /// Whether the tool of this own name is not shown to this client, because it breaks the schema of the client's
    /// version. One that was not listed yet is for its server to judge.
    pub(crate) fn leaves_out_tool(self: &Arc<Self>, context: &Context, name: &str) -> bool {
        if !self.leaves_out_tools() {
            return false;
        }
        let asked = self.list(context, Kind::Tools);
        let at_hand = asked.look.value.or(asked.fallback);
        at_hand.is_some_and(|list| list.leaves_out(name, context.client.revision))
    }

    /// Forgets what an ended client session saw.
    pub(crate) fn forget(&self, session: &SessionId) {
        self.racks.write().retain(|key, _| !matches!(&key.scope, Scope::Session(id) if id == session));
    }

    fn base(&self) -> Option<Arc<Rack>> {
        let key = RackKey { scope: Scope::Base, capabilities: String::new() };
        self.racks.read().get(&key).cloned()
    }

    fn rack(&self, context: &Context) -> Arc<Rack> {
        self.open(self.key(context), context)
    }

    fn open(&self, key: RackKey, context: &Context) -> Arc<Rack> {
        let now = self.uses.fetch_add(1, Ordering::Relaxed);
        if let Some(rack) = self.racks.read().get(&key) {
            rack.used.store(now, Ordering::Relaxed);
            return Arc::clone(rack);
        }
        let context = match key.scope {
            Scope::Base => Self::base_context(&context.client.capabilities),
            Scope::User(_) | Scope::Session(_) => context.clone(),
        };
        let mut racks = self.racks.write();
        if racks.len() >= MOST_RACKS {
            let oldest = racks.values().min_by_key(|rack| rack.used.load(Ordering::Relaxed));
            if let Some(key) = oldest.map(|rack| rack.key.clone()) {
                racks.remove(&key);
            }
        }
        Arc::clone(racks.entry(key.clone()).or_insert_with(|| Arc::new(Rack::new(key, context, now))))
    }

    fn look_about(self: &Arc<Self>, rack: &Arc<Rack>) -> Look<About> {
        let look = rack.about.look(self.settings.refresh);
        if !(look.due && rack.about.begin()) {
            return look;
        }
        self.settings.tracker.spawn(fetch::about(Arc::clone(self), Arc::clone(rack)));
        rack.about.look(self.settings.refresh)
    }

    fn look_list(self: &Arc<Self>, rack: &Arc<Rack>, kind: Kind) -> Look<List> {
        let cell = rack.list(kind);
        let tells = rack.about.value().is_some_and(|about| about.tells_changes(kind.capability()));
        let refresh = if tells { self.settings.refresh * TRUST } else { self.settings.refresh };
        let look = cell.look(refresh);
        if !(look.due && cell.begin()) {
            return look;
        }
        self.settings.tracker.spawn(fetch::list(Arc::clone(self), Arc::clone(rack), kind));
        cell.look(refresh)
    }
}

// === impl Rack ===

impl Rack {
    fn new(key: RackKey, context: Context, used: u64) -> Self {
        Self {
            key,
            context,
            about: Arc::new(Cell::new()),
            lists: std::array::from_fn(|_| Arc::new(Cell::new())),
            wanted: std::array::from_fn(|_| AtomicBool::new(false)),
            used: AtomicU64::new(used),
        }
    }

    fn list(&self, kind: Kind) -> &Arc<Cell<List>> {
        &self.lists[kind as usize]
    }

    /// Whether it holds what the gateway itself sees.
    fn is_own(&self) -> bool {
        self.key.scope == Scope::Base && self.key.capabilities.is_empty()
    }

    /// Whether a change of this list is fetched before somebody asks.
    fn is_followed(&self, kind: Kind) -> bool {
        self.is_own() || self.key.scope == Scope::Base && self.wanted[kind as usize].load(Ordering::Relaxed)
    }

    fn invalidate(&self, kinds: &[Kind]) {
        self.about.invalidate();
        for kind in kinds {
            self.list(*kind).invalidate();
        }
    }
}

// === impl Change ===

impl Change {
    /// The notification that tells of it.
    pub(crate) const fn method(&self) -> Method {
        self.kind.change()
    }
}
