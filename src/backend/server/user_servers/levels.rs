//! Log levels that sessions have set, applied to the servers of their users: to the one that runs, and to later ones.

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

/// Sessions' log levels, by user.
#[derive(Default)]
pub(super) struct UserLevels(Mutex<HashMap<UserId, Vec<Arc<UserLevel>>>>);

/// Log level of one session.
struct UserLevel {
    context: Context,
    /// The level at the server that its user has now, if any.
    held: Mutex<Option<Box<dyn HeldLevel>>>,
}

/// Keeps a session's level in the table. Dropping it removes the level.
struct HeldUserLevel {
    levels: Arc<UserLevels>,
    level: Arc<UserLevel>,
}

// === impl UserLevels ===

impl UserLevels {
    /// Applies the level of this client to its user's server, if one is `running`, and to later ones.
    pub(super) fn hold(
        self: &Arc<Self>,
        context: &Context,
        running: impl FnOnce(&UserId) -> Option<Arc<ExternalBackend>>,
    ) -> Box<dyn HeldLevel> {
        let level = Arc::new(UserLevel { context: context.clone(), held: Mutex::default() });
        // before looking for the server: one that starts in between finds the level
        self.add(&level);
        if let Some(server) = running(level.user()) {
            level.hold_at(&server);
        }
        Box::new(HeldUserLevel { levels: Arc::clone(self), level })
    }

    /// Applies the levels of a user to `server`, which is the user's now.
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
        // a server may have taken it over in the meantime
        let held = self.level.held.lock().take();
        drop(held);
    }
}
