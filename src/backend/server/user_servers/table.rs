//! The servers of users at one backend: started with the first call, ended when idle, or when the user's access ends.
//! Knows nothing of calls.

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

/// Longest time between two searches for idle servers.
const SWEEP: Duration = Duration::from_secs(30);
/// Changes that wait for a slow listener; it takes a loss for a change.
const BEHIND: usize = 64;

/// One backend as a server for each user.
pub(crate) struct UserServers {
    spec: Arc<BackendSpec>,
    context: BackendContext,
    pub(super) taken: RwLock<TakenPlaces>,
    pub(super) waiting: WaitingUsers,
    /// One start for a user at a time.
    starting: Mutex<HashMap<UserId, Arc<AsyncMutex<()>>>>,
    /// The users whose access has changed.
    changed: broadcast::Sender<UserId>,
    /// Tells clients that the lists of their user have changed.
    pub(super) announcing: AnnouncingServer,
    pub(super) levels: Arc<UserLevels>,
}

/// The server of one user.
pub(super) struct UserServer {
    pub(super) server: BackendServer,
    used: Mutex<Instant>,
    /// Open listens.
    pub(super) listens: AtomicUsize,
    /// Calls, also those that still wait for a connection.
    calls: TaskTracker,
}

/// The servers that run, and the places of those that are about to start.
#[derive(Default)]
pub(super) struct TakenPlaces {
    pub(super) running: HashMap<UserId, Arc<UserServer>>,
    pub(super) reserved: usize,
}

/// The users who wait for a place.
#[derive(Default)]
pub(super) struct WaitingUsers {
    /// Locked before the places.
    pub(super) queue: Mutex<PlaceQueue<(), UserPlace>>,
    pub(super) count: AtomicUsize,
}

/// A place for a server that is about to start. Dropping it gives it back.
pub(super) struct UserPlace {
    pub(super) servers: Arc<UserServers>,
    pub(super) is_filled: bool,
}

/// The place of a call among those that start a server of its user.
struct UserTurn<'a> {
    servers: &'a UserServers,
    user: &'a UserId,
    lock: Arc<AsyncMutex<()>>,
}

/// The server of one user, for a call: it does not end meanwhile.
pub(super) struct UsedServer {
    pub(super) server: Arc<UserServer>,
    servers: Arc<UserServers>,
    call: Option<TaskTrackerToken>,
}

// === impl UserServers ===

impl UserServers {
    /// Starts no server yet; a user's server starts with the user's first call.
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

    /// The running servers.
    pub(crate) fn running(&self) -> Vec<Arc<ExternalBackend>> {
        self.taken.read().running.values().map(|server| Arc::clone(&server.server.0)).collect()
    }

    /// The user's running server.
    pub(super) fn running_of(&self, user: &UserId) -> Option<Arc<ExternalBackend>> {
        self.taken.read().running.get(user).map(|server| Arc::clone(&server.server.0))
    }

    /// Ends all servers, and those that start from now on.
    pub(crate) async fn close(&self) {
        self.context.tasks.finish().await;
    }

    /// The user's server, if it runs.
    pub(super) fn of(self: &Arc<Self>, user: &UserId) -> Option<UsedServer> {
        // under the lock: what is taken out of the table has no further calls
        self.taken.read().running.get(user).map(|server| UsedServer::of(self, server))
    }

    /// The user's server, started if needed; `None` if the user has not given what it needs. With a `wait`, the user waits in
    /// turn for a place.
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
                None => self.place(user, (deadline, wait)).await.map_err(|error| error.of_call(&self.spec.id))?,
            };
            match self.start_for(user, spec, changes, given) {
                Ok(server) => return Ok(Some(server)),
                Err(outdated) => place = Some(outdated),
            }
        }
    }

    /// Starts the user's server in this place.
    ///
    /// # Errors
    ///
    /// The place, if the user's access has changed meanwhile, and `spec` is outdated.
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

    /// Ends the server of a user who is gone.
    pub(crate) fn end_user(self: &Arc<Self>, user: &UserId) {
        self.stop(user);
    }

    /// Takes the user's server out of the table, and ends it once its calls have ended.
    fn stop(self: &Arc<Self>, user: &UserId) {
        let removed = self.taken.write().running.remove(user);
        if let Some(server) = removed {
            self.end_unused(server);
            self.distribute();
        }
    }

    /// Ends a server that has no further calls once those that it has are over.
    pub(super) fn end_unused(&self, server: Arc<UserServer>) {
        let grace = self.context.limits.get().shutdown;
        server.calls.close();
        self.context.tasks.spawn(async move {
            // also without an end of all calls
            let _ = timeout(grace, server.calls.wait()).await;
            server.server.0.finish_unused(grace).await;
        });
    }

    /// Acts on changes of access.
    async fn follow_access(self: Arc<Self>) {
        let mut changes = self.context.access.changes();
        loop {
            match changes.recv().await {
                Ok(change) if change.backend == self.spec.id => self.apply(&change),
                Ok(_) => {}
                Err(broadcast::error::RecvError::Closed) => return,
                // unknown changes: every user's server is started anew
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
        // nothing to do without a listener
        let _ = self.changed.send(change.user.clone());
        self.announce_changes(&HearersOf::User(&change.user));
    }

    /// Tells these clients that every list of their server may have changed.
    fn announce_changes(&self, scope: &HearersOf<'_>) {
        let told = |method| Event::Notified(Notification { method, params: Payload::absent(Revision::NEWEST_LEGACY) });
        for hearer in self.hearers().of(scope, (&Addressees::All, usize::MAX), &self.spec.id, |_| true) {
            // a client with a full queue has been told already
            for method in ListKind::CHANGES {
                drop(hearer.send(&self.announcing, told(method)));
            }
        }
    }

    /// Ends servers that no call and no listen has used for `idle_timeout`.
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

    /// True if a client of the user hears the server.
    pub(super) fn is_listened_to(&self, user: &UserId, server: &UserServer) -> bool {
        server.listens.load(Ordering::Acquire) > 0
            || !self.hearers().of(&HearersOf::User(user), (&Addressees::All, 1), &self.spec.id, |_| true).is_empty()
    }

    /// The clients that hear all servers.
    pub(super) const fn hearers(&self) -> &Arc<Hearers> {
        &self.context.hearers
    }

    pub(super) fn limits(&self) -> Arc<LimitsConfig> {
        Arc::clone(&self.context.limits.get())
    }

    /// The name of the backend.
    pub(super) fn backend(&self) -> &BackendId {
        &self.spec.id
    }

    /// The page on which the user gives what the server needs.
    pub(super) fn page(&self, user: &UserId) -> AccessPage {
        self.context.access.page(user, &self.spec.id)
    }

    /// The users whose access changes from now on.
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
        // the table and this one: nobody else waits
        if Arc::strong_count(&self.lock) <= 2 {
            starting.remove(self.user);
        }
    }
}

// === impl UserServer ===

impl UserServer {
    /// True if no call uses it.
    pub(super) fn is_unused(&self) -> bool {
        self.calls.is_empty()
    }

    /// The time of its last call.
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
