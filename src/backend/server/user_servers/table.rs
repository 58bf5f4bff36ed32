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

use crate::{
    backend::{
        context::BackendContext,
        error::StartError,
        server::{BackendServer, external_backend::ExternalBackend},
        supervision,
        task_group::TaskGroup,
    },
    mcp::ErrorObject,
    model::{AccessChange, AccessEffect, AccessPage, BackendId, BackendSpec, UserId},
};

/// Longest time between two searches for idle servers.
const SWEEP: Duration = Duration::from_secs(30);
/// Changes that wait for a slow listener; it takes a loss for a change.
const BEHIND: usize = 64;

/// One backend as a server for each user.
pub(crate) struct UserServers {
    spec: Arc<BackendSpec>,
    context: BackendContext,
    running: RwLock<HashMap<UserId, Arc<UserServer>>>,
    /// One start for a user at a time.
    starting: Mutex<HashMap<UserId, Arc<AsyncMutex<()>>>>,
    /// The users whose access has changed.
    changed: broadcast::Sender<UserId>,
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

/// The place of a call among those that start a server of its user.
struct UserTurn<'a> {
    servers: &'a UserServers,
    user: &'a UserId,
    lock: Arc<AsyncMutex<()>>,
}

/// The server of one user, for a call: it does not end meanwhile.
pub(super) struct UsedServer {
    pub(super) server: Arc<UserServer>,
    _call: TaskTrackerToken,
}

// === impl UserServers ===

impl UserServers {
    /// Starts no server yet; a user's server starts with the user's first call.
    pub(crate) fn start(spec: BackendSpec, context: BackendContext) -> Arc<Self> {
        let tasks = TaskGroup::new(context.tasks.end().child_token());
        let context = BackendContext { tasks: tasks.clone(), ..context };
        let servers = Arc::new(Self {
            spec: Arc::new(spec),
            context,
            running: RwLock::default(),
            starting: Mutex::default(),
            changed: broadcast::Sender::new(BEHIND),
        });
        tasks.spawn_until_end(Arc::clone(&servers).follow_access());
        tasks.spawn_until_end(Arc::clone(&servers).sweep());
        servers
    }

    /// The running servers.
    pub(crate) fn running(&self) -> Vec<Arc<ExternalBackend>> {
        self.running.read().values().map(|server| Arc::clone(&server.server.0)).collect()
    }

    /// Ends all servers, and those that start from now on.
    pub(crate) async fn close(&self) {
        self.context.tasks.finish().await;
    }

    /// The user's server, if it runs.
    pub(super) fn of(&self, user: &UserId) -> Option<UsedServer> {
        // under the lock: what is taken out of the table has no further calls
        self.running.read().get(user).map(UsedServer::of)
    }

    /// The user's server, started if needed; `None` if the user has not given what it needs.
    pub(super) async fn open(&self, user: &UserId) -> Result<Option<UsedServer>, ErrorObject> {
        if let Some(server) = self.of(user) {
            return Ok(Some(server));
        }
        let turn = UserTurn::of(self, user);
        let _alone = turn.lock.lock().await;
        if let Some(server) = self.of(user) {
            return Ok(Some(server));
        }
        loop {
            let changes = self.context.access.changes();
            let spec = self.context.access.of_user(user, &self.spec).await;
            let spec = spec.map_err(|reason| StartError::Unreachable(reason).of_call(&self.spec.id))?;
            let Some(spec) = spec else { return Ok(None) };
            let started = self.start_for(user, spec, changes);
            if let Some(server) = started.map_err(|error| error.of_call(&self.spec.id))? {
                return Ok(Some(server));
            }
        }
    }

    /// Starts the user's server; `None` if the user's access has changed meanwhile, and `spec` is outdated. If there are as
    /// many as a backend may have connections, one without a running call makes room.
    ///
    /// # Errors
    ///
    /// A text for the caller, if calls run at all of them.
    fn start_for(
        &self,
        user: &UserId,
        spec: BackendSpec,
        mut changes: broadcast::Receiver<AccessChange>,
    ) -> Result<Option<UsedServer>, StartError> {
        // later changes find the server in the table
        let mut running = self.running.write();
        loop {
            match changes.try_recv() {
                Ok(change) if change.user == *user && change.backend == self.spec.id => return Ok(None),
                Ok(_) => {}
                Err(broadcast::error::TryRecvError::Lagged(_)) => return Ok(None),
                Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed) => break,
            }
        }
        let most = self.context.limits.get().server_sessions;
        let mut evicted = None;
        if running.len() >= most {
            let Some(idle) = longest_idle(&running) else { return Err(all_in_use(most)) };
            evicted = running.remove(&idle);
        }
        let context = BackendContext { user: Some(user.clone()), ..self.context.clone() };
        let server = Arc::new(UserServer {
            server: BackendServer(supervision::start(spec, context)),
            used: Mutex::new(Instant::now()),
            listens: AtomicUsize::new(0),
            calls: TaskTracker::new(),
        });
        let for_call = UsedServer::of(&server);
        running.insert(user.clone(), server);
        drop(running);
        if let Some(evicted) = evicted {
            self.end_unused(evicted);
        }
        Ok(Some(for_call))
    }

    /// Takes the user's server out of the table, and ends it once its calls have ended.
    fn stop(&self, user: &UserId) {
        let removed = self.running.write().remove(user);
        if let Some(server) = removed {
            self.end_unused(server);
        }
    }

    /// Ends a server that has no further calls once those that it has are over.
    fn end_unused(&self, server: Arc<UserServer>) {
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
                    let users: Vec<UserId> = self.running.read().keys().cloned().collect();
                    for user in users {
                        let (backend, effect) = (self.spec.id.clone(), AccessEffect::Ended);
                        self.apply(&AccessChange { user, backend, effect });
                    }
                }
            }
        }
    }

    fn apply(&self, change: &AccessChange) {
        let has_failed =
            self.running.read().get(&change.user).is_some_and(|server| server.server.0.health.has_failed());
        if change.effect == AccessEffect::Ended || has_failed {
            self.stop(&change.user);
        }
        // nothing to do without a listener
        let _ = self.changed.send(change.user.clone());
    }

    /// Ends servers that no call and no listen has used for `idle_timeout`.
    async fn sweep(self: Arc<Self>) {
        let idle = self.spec.idle_timeout;
        let mut ticks = interval((idle / 2).clamp(Duration::from_millis(10), SWEEP));
        loop {
            ticks.tick().await;
            let is_idle = |server: &UserServer| {
                server.listens.load(Ordering::Acquire) == 0
                    && !server.server.0.pool.is_in_use()
                    && server.used.lock().elapsed() >= idle
            };
            let users: Vec<UserId> = {
                let running = self.running.read();
                running.iter().filter(|(_, server)| is_idle(server)).map(|(user, _)| user.clone()).collect()
            };
            for user in &users {
                self.stop(user);
            }
        }
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

// === impl UsedServer ===

impl UsedServer {
    fn of(server: &Arc<UserServer>) -> Self {
        *server.used.lock() = Instant::now();
        Self { server: Arc::clone(server), _call: server.calls.token() }
    }
}

/// The user whose server no call has used for longest; one that is listened to comes after all others. `None` if calls run at
/// all of them. No call begins while the table is locked.
fn longest_idle(running: &HashMap<UserId, Arc<UserServer>>) -> Option<UserId> {
    let idle = running.iter().filter(|(_, server)| server.calls.is_empty());
    let order = |server: &UserServer| (server.listens.load(Ordering::Acquire) > 0, *server.used.lock());
    idle.min_by_key(|(_, server)| order(server)).map(|(user, _)| user.clone())
}

/// The text for a user for whom no server can be started.
fn all_in_use(most: usize) -> StartError {
    StartError::Unreachable(format!(
        "it runs for {most} users, as many as it may, and calls of all of them run; try again later, or raise \
         `server_sessions` in `[limits]`"
    ))
}
