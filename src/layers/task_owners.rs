//! Registry of the owners of tasks (`OA-115`): the only place that maps the id of a server's task to its owner. An
//! owner is a user and an app, never a session.
//!
//! Memory answers. A miss asks the store, so that an app finds its tasks after a restart and at another replica; such
//! look-ups are limited for each owner. Unknown tasks are not remembered, since another replica may add them.

mod memory;
mod store;

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::memory::{KnownTask, KnownTasks, TooMany};
pub use self::store::{StoreUnavailable, TaskOwnerStore};
use crate::{
    mcp::task::CreatedTask,
    model::{FoundTask, OwnedTask, Owner, TaskHolder, TaskScope},
    support::{Clock, Digest, Timestamp, limits::Buckets},
};

/// Maximum number of tasks of one owner at one server. Ended tasks leave first.
pub(super) const MAX_TASKS: usize = 1_000;
/// Time that a task is kept after its `ttl`, and the longest time in all.
const LIFETIME: (Duration, Duration) = (Duration::from_mins(1), Duration::from_hours(24 * 7));
/// Searches in the store for one owner: how many at once, and the time until another.
const SEARCHES: (u32, Duration) = (60, Duration::from_secs(1));
/// Tasks in one search.
const TASKS_IN_SEARCH: usize = 100;

/// Dependencies of the registry.
#[derive(Clone)]
pub struct TaskOwnerDeps {
    /// The store; `None` for a gateway with a single user, who owns every task.
    pub store: Option<Arc<dyn TaskOwnerStore>>,
    pub clock: Arc<dyn Clock>,
}

/// The registry of all servers.
pub struct TaskOwners {
    shared: Arc<SharedOwners>,
    servers: Mutex<HashMap<Digest, Weak<ServerTaskOwners>>>,
}

struct SharedOwners {
    deps: TaskOwnerDeps,
    searches: Buckets<Owner>,
    /// Owner of the background tasks.
    tracker: TaskTracker,
    /// Ends the background tasks.
    cancel: CancellationToken,
}

/// The registry of one server's tasks.
pub(crate) struct ServerTaskOwners {
    shared: Arc<SharedOwners>,
    scope: TaskScope,
    known: RwLock<KnownTasks>,
}

/// Access of an owner to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskAccess {
    /// It is the owner's.
    Own,
    /// It has no known owner, and the server decides.
    ServerDecides,
    /// It is unknown, or another owner's.
    Unknown,
}

/// The reason why a task was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotAdded {
    /// Its owner has reached the maximum, and none of their tasks has ended.
    TooMany,
    /// The store rejected it.
    NotStored,
}

// === impl TaskOwners ===

impl TaskOwners {
    /// An empty registry. Its background tasks belong to the tracker and end with the token.
    pub fn new(deps: TaskOwnerDeps, tracker: TaskTracker, cancel: CancellationToken) -> Self {
        let searches = Buckets::new(SEARCHES.0, SEARCHES.1);
        let shared = Arc::new(SharedOwners { deps, searches, tracker, cancel });
        Self { shared, servers: Mutex::default() }
    }

    /// The registry of one server: the same one as long as it is in use.
    pub(crate) fn at(&self, scope: TaskScope) -> Arc<ServerTaskOwners> {
        let mut servers = self.servers.lock();
        servers.retain(|_, server| server.strong_count() > 0);
        let there = servers.get(&scope.server).and_then(Weak::upgrade).filter(|there| there.scope == scope);
        there.unwrap_or_else(|| {
            let (shared, known) = (Arc::clone(&self.shared), RwLock::default());
            let new = Arc::new(ServerTaskOwners { shared, scope, known });
            servers.insert(scope.server, Arc::downgrade(&new));
            new
        })
    }
}

// === impl ServerTaskOwners ===

impl ServerTaskOwners {
    /// True if the task with this id is known to be this owner's.
    pub(crate) fn is_own(&self, owner: &Owner, id: &str) -> bool {
        let task = self.scope.digest_of(id);
        self.known.read().of(owner, &task, self.now()).is_some()
    }

    /// True if this owner may receive messages about a task. Does not ask the store, since a server may send any number
    /// of them.
    pub(crate) fn may_hear(&self, owner: &Owner, id: &str) -> bool {
        let (task, now) = (self.scope.digest_of(id), self.now());
        let known = self.known.read();
        if self.shared.deps.store.is_none() || known.of(owner, &task, now).is_some() {
            return true;
        }
        if !known.has(&task) {
            metrics::counter!("lockkeeper_gateway_task_messages_dropped_total").increment(1);
        }
        false
    }

    /// True if all known owners of a task are others.
    pub(crate) fn is_of_another(&self, owner: &Owner, id: &str) -> bool {
        let task = self.scope.digest_of(id);
        let known = self.known.read();
        known.has(&task) && known.of(owner, &task, self.now()).is_none()
    }

    /// The access of this owner to the task with each id.
    ///
    /// # Errors
    ///
    /// If memory does not know all of them, and the store did not answer.
    pub(crate) async fn reach(&self, owner: &Owner, ids: &[String]) -> Result<Vec<TaskAccess>, StoreUnavailable> {
        let tasks: Vec<Digest> = ids.iter().map(|id| self.scope.digest_of(id)).collect();
        let mut reached: Vec<TaskAccess> = {
            let (known, now) = (self.known.read(), self.now());
            let is_own = |task| known.of(owner, task, now).is_some();
            tasks.iter().map(|task| if is_own(task) { TaskAccess::Own } else { TaskAccess::Unknown }).collect()
        };
        let missed: Vec<usize> = (0..tasks.len()).filter(|at| reached[*at] == TaskAccess::Unknown).collect();
        let Some(store) = &self.shared.deps.store else {
            for at in missed {
                reached[at] = TaskAccess::Own;
            }
            return Ok(reached);
        };
        for missed in missed.chunks(TASKS_IN_SEARCH) {
            if self.shared.searches.take(owner.clone(), self.now()).is_err() {
                metrics::counter!("lockkeeper_gateway_task_searches_limited_total").increment(1);
                break;
            }
            let sought: Vec<Digest> = missed.iter().map(|at| tasks[*at]).collect();
            let found = store.find(&sought, owner).await?;
            for at in missed {
                let holder = found.iter().find(|found| found.task == tasks[*at]).map(|found| found.holder);
                reached[*at] = match holder {
                    Some(TaskHolder::Asker { .. }) => TaskAccess::Own,
                    None if self.scope.tells_callers_apart => TaskAccess::ServerDecides,
                    Some(TaskHolder::Others) | None => TaskAccess::Unknown,
                };
            }
            self.cache(owner, &found);
        }
        Ok(reached)
    }

    /// Adds a task. It is known at once, and stored when this returns.
    ///
    /// # Errors
    ///
    /// The reason why its id must not be delivered to anyone.
    pub(crate) async fn add(&self, owner: &Owner, new: &CreatedTask) -> Result<(), NotAdded> {
        let (task, now) = (self.scope.digest_of(&new.id), self.now());
        let lifetime = new.ttl.map_or(LIFETIME.1, |ttl| ttl.saturating_add(LIFETIME.0).min(LIFETIME.1));
        let (expires, has_ended) = (now + lifetime, new.has_ended());
        let is_unique = !self.scope.tells_callers_apart;
        let known = KnownTask { expires, has_ended };
        let had = self.known.read().of(owner, &task, now);
        let added = self.known.write().add(owner, task, known, is_unique, MAX_TASKS, now);
        let Some(store) = &self.shared.deps.store else {
            return added.map(drop).map_err(|TooMany| NotAdded::TooMany);
        };
        if let Ok(Some(left)) = added {
            store.delete(&left, owner).await;
        }
        let row = OwnedTask { task, scope: self.scope, owner: owner.clone(), expires, has_ended };
        let mut stored = store.add(&row, MAX_TASKS).await;
        // the store may not know yet that a task has ended
        let left = if stored == Ok(false) { self.known.write().take_ended(owner, &task) } else { None };
        if let Some(left) = left {
            store.delete(&left, owner).await;
            stored = store.add(&row, MAX_TASKS).await;
        }
        let failure = match stored {
            Ok(true) => {
                if added == Err(TooMany) {
                    // another replica knew that a task had ended
                    self.known.write().cache(owner, task, known, MAX_TASKS, now);
                }
                return Ok(());
            }
            Ok(false) => NotAdded::TooMany,
            Err(StoreUnavailable) => NotAdded::NotStored,
        };
        if added.is_ok() && had.is_none() {
            self.known.write().remove(owner, &task);
        }
        Err(failure)
    }

    pub(crate) fn remove(self: &Arc<Self>, owner: &Owner, id: &str) {
        let task = self.scope.digest_of(id);
        self.known.write().remove(owner, &task);
        self.tell_store(owner, move |store, owner| Box::pin(async move { store.delete(&task, &owner).await }));
    }

    /// Notes that a task has ended.
    pub(crate) fn ended(self: &Arc<Self>, owner: &Owner, id: &str) {
        let task = self.scope.digest_of(id);
        if self.known.write().set_ended(owner, &task) {
            self.tell_store(owner, move |store, owner| Box::pin(async move { store.set_ended(&task, &owner).await }));
        }
    }

    /// Runs a future in the background until it or the gateway ends.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let SharedOwners { tracker, cancel, .. } = &*self.shared;
        tracker.spawn(cancel.clone().run_until_cancelled_owned(future));
    }

    fn tell_store(
        &self,
        owner: &Owner,
        tell: impl FnOnce(Arc<dyn TaskOwnerStore>, Owner) -> BoxFuture<'static, ()> + Send + 'static,
    ) {
        if let Some(store) = &self.shared.deps.store {
            self.spawn(tell(Arc::clone(store), owner.clone()));
        }
    }

    fn cache(&self, owner: &Owner, found: &[FoundTask]) {
        let mut known = self.known.write();
        for FoundTask { task, holder } in found {
            if let TaskHolder::Asker { expires, has_ended } = *holder {
                known.cache(owner, *task, KnownTask { expires, has_ended }, MAX_TASKS, self.now());
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.shared.deps.clock.now()
    }
}
