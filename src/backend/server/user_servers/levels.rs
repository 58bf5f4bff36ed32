//! Log levels that sessions have set, for the servers of their users: for the one that runs, and for those that start later.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::{
    backend::server::external_backend::ExternalBackend,
    mcp::{
        Context,
        hearers::{Announcer as _, HeldLevel},
    },
    model::UserId,
};

/// The levels of sessions, by user.
#[derive(Default)]
pub(super) struct UserLevels(Mutex<HashMap<UserId, Vec<Arc<UserLevel>>>>);

/// The level of one session.
struct UserLevel {
    context: Context,
    /// At the server that its user has now.
    held: Mutex<Option<Box<dyn HeldLevel>>>,
}

/// The same, until it is dropped.
struct HeldUserLevel {
    levels: Arc<UserLevels>,
    level: Arc<UserLevel>,
}

// === impl UserLevels ===

impl UserLevels {
    /// Holds the level of this client, at the server that its user has now, if it is `running`, and at those that start later.
    pub(super) fn hold(
        self: &Arc<Self>,
        context: &Context,
        running: impl FnOnce(&UserId) -> Option<Arc<ExternalBackend>>,
    ) -> Box<dyn HeldLevel> {
        let level = Arc::new(UserLevel { context: context.clone(), held: Mutex::default() });
        // before the look at the server: one that starts meanwhile finds it
        self.add(&level);
        if let Some(server) = running(level.user()) {
            level.hold_at(&server);
        }
        Box::new(HeldUserLevel { levels: Arc::clone(self), level })
    }

    /// Holds the levels of a user at this server, which is the user's from now on.
    pub(super) fn hold_at(&self, user: &UserId, server: &ExternalBackend) {
        let levels = self.0.lock().get(user).cloned().unwrap_or_default();
        for level in levels {
            level.hold_at(server);
        }
    }

    fn add(&self, level: &Arc<UserLevel>) {
        self.0.lock().entry(level.user().clone()).or_default().push(Arc::clone(level));
    }

    fn remove(&self, level: &Arc<UserLevel>) {
        let mut levels = self.0.lock();
        let Some(of_user) = levels.get_mut(level.user()) else { return };
        of_user.retain(|other| !Arc::ptr_eq(other, level));
        if of_user.is_empty() {
            levels.remove(level.user());
        }
    }
}

// === impl UserLevel ===

impl UserLevel {
    fn user(&self) -> &UserId {
        &self.context.caller.user
    }

    fn hold_at(&self, server: &ExternalBackend) {
        let replaced = self.held.lock().replace(server.hold_level(&self.context));
        drop(replaced);
    }
}

// === impl HeldUserLevel ===

impl HeldLevel for HeldUserLevel {
    fn changed(&self) {
        if let Some(held) = &*self.level.held.lock() {
            held.changed();
        }
    }
}

impl Drop for HeldUserLevel {
    fn drop(&mut self) {
        self.levels.remove(&self.level);
        // a server may have begun to hold it at this moment
        let held = self.level.held.lock().take();
        drop(held);
    }
}
