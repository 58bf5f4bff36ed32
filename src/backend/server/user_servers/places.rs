//! Places for the servers of users at one backend: at most `server_sessions`. Users wait for one in turn.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    sync::oneshot::Receiver,
    time::{Instant, timeout_at},
};

use super::table::{TakenPlaces, UserPlace, UserServer, UserServers};
use crate::{
    backend::{error::StartError, sharing::place_queue::NoPlace},
    mcp::WaitNotice,
    model::UserId,
};

/// Counts a waiting user while it exists.
struct WaitingUser<'a>(&'a AtomicUsize);

// === impl TakenPlaces ===

impl TakenPlaces {
    /// Puts the server of a user into its place.
    pub(super) fn fill(&mut self, mut place: UserPlace, user: UserId, server: Arc<UserServer>) {
        self.running.insert(user, server);
        self.reserved -= 1;
        place.is_filled = true;
    }
}

// === impl UserServers ===

impl UserServers {
    /// Takes a place for a server. If all places are taken, a server without a running call makes room; if there is
    /// none, the user waits in turn, until `deadline`.
    ///
    /// # Errors
    ///
    /// An error for the caller, if calls run at all servers.
    pub(super) async fn place(
        self: &Arc<Self>,
        user: &UserId,
        deadline: Instant,
        wait: Option<&WaitNotice>,
    ) -> Result<UserPlace, StartError> {
        let given = match self.enter(user, wait.is_some()) {
            Ok(place) => return Ok(place),
            Err(given) => given,
        };
        let (Some(given), Some(wait)) = (given, wait) else { return Err(self.all_in_use()) };
        let _waiting = WaitingUser::of(&self.waiting.count);
        let message = format!("waiting for a free session of `{}`", self.backend());
        wait.set(move || Some(message.clone()));
        // places may have become free in the meantime
        self.distribute();
        let given = timeout_at(deadline, given).await;
        wait.set(|| None);
        match given {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(self.all_in_use()),
        }
    }

    /// Takes a place at once, or joins the queue if the user `waits`. The error is the receiver of a place, or `None`
    /// if the user did not or could not join.
    fn enter(self: &Arc<Self>, user: &UserId, waits: bool) -> Result<UserPlace, Option<Receiver<UserPlace>>> {
        let mut queue = self.waiting.queue.lock();
        // users who have stopped waiting stay in the queue for a while
        let nobody_waits = queue.is_empty() || self.waiting.count.load(Ordering::SeqCst) == 0;
        if nobody_waits && let Some(place) = self.free_place() {
            return Ok(place);
        }
        Err(if waits { queue.enter(user, &()) } else { None })
    }

    /// Gives free places to waiting users. Must not be called while a lock is held.
    pub(super) fn distribute(self: &Arc<Self>) {
        if self.waiting.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut queue = self.waiting.queue.lock();
        let returned = queue.distribute(|_, ()| self.free_place().ok_or(NoPlace::ForAnybody));
        drop(queue);
        drop(returned);
    }

    /// A free place, or the place of a server without a running call, which is ended.
    fn free_place(self: &Arc<Self>) -> Option<UserPlace> {
        let mut taken = self.taken.write();
        let mut evicted = None;
        if taken.running.len() + taken.reserved >= self.most() {
            let idle = self.longest_idle(&taken.running)?;
            evicted = taken.running.remove(&idle);
        }
        taken.reserved += 1;
        drop(taken);
        if let Some(evicted) = evicted {
            self.end_unused(evicted);
        }
        Some(UserPlace { servers: Arc::clone(self), is_filled: false })
    }

    /// The user whose server has been without calls for longest; servers with listens come last. `None` if calls run at
    /// all of them. No call begins while the table is locked.
    fn longest_idle(&self, running: &HashMap<UserId, Arc<UserServer>>) -> Option<UserId> {
        let idle = running.iter().filter(|(_, server)| server.is_unused());
        idle.min_by_key(|(user, server)| (self.is_listened_to(user, server), server.used()))
            .map(|(user, _)| user.clone())
    }

    fn give_back(self: &Arc<Self>) {
        self.taken.write().reserved -= 1;
        self.distribute();
    }

    fn most(&self) -> usize {
        self.limits().server_sessions
    }

    /// The error for a user who gets no server.
    fn all_in_use(&self) -> StartError {
        let most = self.most();
        StartError::Unreachable(format!(
            "it runs for {most} users, as many as it may, and calls of all of them run; try again later, or raise \
             `server_sessions` in `[limits]`"
        ))
    }
}

// === impl UserPlace ===

impl Drop for UserPlace {
    fn drop(&mut self) {
        if !self.is_filled {
            self.servers.give_back();
        }
    }
}

// === impl WaitingUser ===

impl<'a> WaitingUser<'a> {
    fn of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for WaitingUser<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
