//! The servers of users at one backend: started with the first call, ended when idle, or when the user's access ends.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Mutex as AsyncMutex, broadcast},
    time::{Instant, interval, timeout},
};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use super::levels::UserLevels;
use crate::{
    backend::{
        context::BackendContext,
        error::StartError,
        server::{BackendServer, external_backend::ExternalBackend},
        sharing::place_queue::PlaceQueue,
        supervision,
        task_group::TaskGroup,
    },
    mcp::{
        ErrorObject, Event, ListKind, Notification, Payload, Revision, WaitNotice,
        hearers::{Addressees, AnnouncingServer, Hearers, HearersOf},
    },
    model::{AccessChange, AccessEffect, AccessPage, BackendId, BackendSpec, LimitsConfig, UserId},
};

/// Maximum interval between searches for idle servers.
const SWEEP: Duration = Duration::from_secs(30);
/// Number of changes that a slow listen may lag behind; more count as one change.
const BEHIND: usize = 64;

pub(crate) struct UserServers {
    spec: Arc<BackendSpec>,
    context: BackendContext,
    pub(super) taken: RwLock<TakenPlaces>,
    pub(super) waiting: WaitingUsers,
    /// A lock for each user, so that only one call starts the user's server.
    starting: Mutex<HashMap<UserId, Arc<AsyncMutex<()>>>>,
    /// Users whose access changes.
    changed: broadcast::Sender<UserId>,
    /// The backend, as the sender of `list_changed` notifications when access changes.
    pub(super) announcing: AnnouncingServer,
    pub(super) levels: Arc<UserLevels>,
}

pub(super) struct UserServer {
    pub(super) server: BackendServer,
    used: Mutex<Instant>,
    /// Number of open listens.
    pub(super) listens: AtomicUsize,
    /// Calls, including those that wait for a connection.
    calls: TaskTracker,
}

/// Servers that run, and the number of places reserved for servers about to start.
#[derive(Default)]
pub(super) struct TakenPlaces {
    pub(super) running: HashMap<UserId, Arc<UserServer>>,
    pub(super) reserved: usize,
}

/// Users who wait for a place.
#[derive(Default)]
pub(super) struct WaitingUsers {
    /// Must be locked before `taken`.
    pub(super) queue: Mutex<PlaceQueue<(), UserPlace>>,
    pub(super) count: AtomicUsize,
}

/// A reserved place for a server about to start. Dropping it without a server frees it.
pub(super) struct UserPlace {
    pub(super) servers: Arc<UserServers>,
    pub(super) is_filled: bool,
}

/// The turn of one call, among those that would start the same user's server.
struct UserTurn<'a> {
    servers: &'a UserServers,
    user: &'a UserId,
    lock: Arc<AsyncMutex<()>>,
}

/// The server of one user, for a call. It does not end while the call runs.
pub(super) struct UsedServer {
    pub(super) server: Arc<UserServer>,
    servers: Arc<UserServers>,
    call: Option<TaskTrackerToken>,
}

// === impl UserServers ===

impl UserServers {
    /// Creates the table without servers; each starts with the first call of its user.
    pub(crate) fn start(spec: BackendSpec, context: BackendContext) -> Arc<Self> {
        let tasks = TaskGroup::new(context.tasks.end().child_token());
        let context = BackendContext { tasks: tasks.clone(), ..context };
        let account = context.budget.server(spec.id.as_str());
        let servers = Arc::new(Self {
            announcing: AnnouncingServer { backend: Arc::new(spec.id.clone()), account },
            spec: Arc::new(spec),
            context,
            taken: RwLock::default(),
            waiting: WaitingUsers::default(),
            starting: Mutex::default(),
            changed: broadcast::Sender::new(BEHIND),
            levels: Arc::default(),
        });
        tasks.spawn_until_end(Arc::clone(&servers).follow_access());
        tasks.spawn_until_end(Arc::clone(&servers).sweep());
        servers
    }

    pub(crate) fn running(&self) -> Vec<Arc<ExternalBackend>> {
        self.taken.read().running.values().map(|server| Arc::clone(&server.server.0)).collect()
    }

    /// The server of `user`, if it runs.
    pub(super) fn running_of(&self, user: &UserId) -> Option<Arc<ExternalBackend>> {
        self.taken.read().running.get(user).map(|server| Arc::clone(&server.server.0))
    }

    /// Ends all servers. None can start afterwards.
    pub(crate) async fn close(&self) {
        self.context.tasks.finish().await;
    }

    /// The server of `user`, if it runs.
    pub(super) fn of(self: &Arc<Self>, user: &UserId) -> Option<UsedServer> {
        // under the lock: a server that left the table gets no new calls
        self.taken.read().running.get(user).map(|server| UsedServer::of(self, server))
    }

    /// The user's server, started if needed; `None` if the user has not given what it needs. If there is a `wait`, the
    /// user waits in turn for a place, and `wait` says so to the client.
    pub(super) async fn open(
        self: &Arc<Self>,
        user: &UserId,
        wait: Option<&WaitNotice>,
    ) -> Result<Option<UsedServer>, ErrorObject> {
        if let Some(server) = self.of(user) {
            return Ok(Some(server));
        }
        let deadline = Instant::now() + self.limits().slot_wait;
        let turn = UserTurn::of(self, user);
        let _alone = turn.lock.lock().await;
        if let Some(server) = self.of(user) {
            return Ok(Some(server));
        }
        let mut place = None;
        loop {
            let changes = self.context.access.changes();
            let spec = self.context.access.of_user(user, &self.spec).await;
            let spec = spec.map_err(|reason| StartError::Unreachable(reason).of_call(&self.spec.id))?;
            let Some(spec) = spec else { return Ok(None) };
            let given = match place.take() {
                Some(place) => place,
                None => self.place(user, deadline, wait).await.map_err(|error| error.of_call(&self.spec.id))?,
            };
            match self.start_for(user, spec, changes, given) {
                Ok(server) => return Ok(Some(server)),
                Err(outdated) => place = Some(outdated),
            }
        }
    }

    /// Starts the user's server in `place`.
    ///
    /// # Errors
    ///
    /// Returns the place if the user's access has changed and `spec` is outdated.
    fn start_for(
        self: &Arc<Self>,
        user: &UserId,
        spec: BackendSpec,
        mut changes: broadcast::Receiver<AccessChange>,
        place: UserPlace,
    ) -> Result<UsedServer, UserPlace> {
        // later changes find the server in the table
        let mut taken = self.taken.write();
        let is_outdated = loop {
            match changes.try_recv() {
                Ok(change) if change.user == *user && change.backend == self.spec.id => break true,
                Ok(_) => {}
                Err(broadcast::error::TryRecvError::Lagged(_)) => break true,
                Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed) => break false,
            }
        };
        if is_outdated {
            return Err(place);
        }
        let context = BackendContext { user: Some(user.clone()), ..self.context.clone() };
        let server = Arc::new(UserServer {
            server: BackendServer(supervision::start(spec, context)),
            used: Mutex::new(Instant::now()),
            listens: AtomicUsize::new(0),
            calls: TaskTracker::new(),
        });
        let for_call = UsedServer::of(self, &server);
        taken.fill(place, user.clone(), Arc::clone(&server));
        drop(taken);
        self.levels.hold_at(user, &server.server.0);
        Ok(for_call)
    }

    /// Ends the server of a user who has left.
    pub(crate) fn end_user(self: &Arc<Self>, user: &UserId) {
        self.stop(user);
    }

    /// Removes the user's server from the table, and ends it once its calls have ended.
    fn stop(self: &Arc<Self>, user: &UserId) {
        let removed = self.taken.write().running.remove(user);
        if let Some(server) = removed {
            self.end_unused(server);
            self.distribute();
        }
    }

    /// Ends a server that gets no new calls, once its running calls are over.
    pub(super) fn end_unused(&self, server: Arc<UserServer>) {
        let grace = self.context.limits.get().shutdown;
        server.calls.close();
        self.context.tasks.spawn(async move {
            // after the grace period, even if calls still run
            let _ = timeout(grace, server.calls.wait()).await;
            server.server.0.finish_unused(grace).await;
        });
    }

    /// Ends servers whose user's access ends, and notifies clients of changes.
    async fn follow_access(self: Arc<Self>) {
        let mut changes = self.context.access.changes();
        loop {
            match changes.recv().await {
                Ok(change) if change.backend == self.spec.id => self.apply(&change),
                Ok(_) => {}
                Err(broadcast::error::RecvError::Closed) => return,
                // changes were missed: restart the servers of all users
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    let users: Vec<UserId> = self.taken.read().running.keys().cloned().collect();
                    for user in users {
                        let (backend, effect) = (self.spec.id.clone(), AccessEffect::Ended);
                        self.apply(&AccessChange { user, backend, effect });
                    }
                    self.announce_changes(&HearersOf::All);
                }
            }
        }
    }

    fn apply(self: &Arc<Self>, change: &AccessChange) {
        let has_failed =
            self.taken.read().running.get(&change.user).is_some_and(|server| server.server.0.health.has_failed());
        if change.effect == AccessEffect::Ended || has_failed {
            self.stop(&change.user);
        }
        // fails only if no listen is open
        let _ = self.changed.send(change.user.clone());
        self.announce_changes(&HearersOf::User(&change.user));
    }

    /// Sends every kind of `list_changed` to the clients in `scope`.
    fn announce_changes(&self, scope: &HearersOf<'_>) {
        let told = |method| Event::Notified(Notification { method, params: Payload::absent(Revision::NEWEST_LEGACY) });
        for hearer in self.hearers().of(scope, &Addressees::All, &self.spec.id, usize::MAX, |_| true) {
            // the queue is full only if the client has unread notifications already
            for method in ListKind::CHANGES {
                drop(hearer.send(&self.announcing, told(method)));
            }
        }
    }

    /// Ends servers without calls and listens for `idle_timeout`.
    async fn sweep(self: Arc<Self>) {
        let idle = self.spec.idle_timeout;
        let mut ticks = interval((idle / 2).clamp(Duration::from_millis(10), SWEEP));
        loop {
            ticks.tick().await;
            let is_idle = |user: &UserId, server: &UserServer| {
                !server.server.0.pool.is_in_use()
                    && server.used.lock().elapsed() >= idle
                    && !self.is_listened_to(user, server)
            };
            let users: Vec<UserId> = {
                let running = &self.taken.read().running;
                running.iter().filter(|(user, server)| is_idle(user, server)).map(|(user, _)| user.clone()).collect()
            };
            for user in &users {
                self.stop(user);
            }
        }
    }

    /// True if a client of the user receives notifications of the server.
    pub(super) fn is_listened_to(&self, user: &UserId, server: &UserServer) -> bool {
        server.listens.load(Ordering::Acquire) > 0
            || !self.hearers().of(&HearersOf::User(user), &Addressees::All, &self.spec.id, 1, |_| true).is_empty()
    }

    /// The clients that follow all servers.
    pub(super) const fn hearers(&self) -> &Arc<Hearers> {
        &self.context.hearers
    }

    pub(super) fn limits(&self) -> Arc<LimitsConfig> {
        Arc::clone(&self.context.limits.get())
    }

    pub(super) fn backend(&self) -> &BackendId {
        &self.spec.id
    }

    /// The page for what the server needs of the user.
    pub(super) fn page(&self, user: &UserId) -> AccessPage {
        self.context.access.page(user, &self.spec.id)
    }

    /// Users whose access changes after this call.
    pub(super) fn changes(&self) -> broadcast::Receiver<UserId> {
        self.changed.subscribe()
    }
}

// === impl UserTurn ===

impl<'a> UserTurn<'a> {
    fn of(servers: &'a UserServers, user: &'a UserId) -> Self {
        let lock = Arc::clone(servers.starting.lock().entry(user.clone()).or_default());
        Self { servers, user, lock }
    }
}

impl Drop for UserTurn<'_> {
    fn drop(&mut self) {
        let mut starting = self.servers.starting.lock();
        // only the table and this call have it, so no other call waits
        if Arc::strong_count(&self.lock) <= 2 {
            starting.remove(self.user);
        }
    }
}

// === impl UserServer ===

impl UserServer {
    /// True if no call runs.
    pub(super) fn is_unused(&self) -> bool {
        self.calls.is_empty()
    }

    /// The time when the last call began.
    pub(super) fn used(&self) -> Instant {
        *self.used.lock()
    }
}

// === impl UsedServer ===

impl UsedServer {
    fn of(servers: &Arc<UserServers>, server: &Arc<UserServer>) -> Self {
        *server.used.lock() = Instant::now();
        Self { server: Arc::clone(server), servers: Arc::clone(servers), call: Some(server.calls.token()) }
    }
}

impl Drop for UsedServer {
    fn drop(&mut self) {
        drop(self.call.take());
        if self.server.is_unused() {
            self.servers.distribute();
        }
    }
}
