//! Administration of users, for the command line.

use std::sync::Arc;

use crate::{
    audit::{UserChange, UserEvent},
    model::{EndedUser, UserId, UserOverview},
    oauth::{credentials::revocation::Revocations, dependencies::OAuthDeps, error::OAuthError},
};

pub struct Users {
    pub(in crate::oauth) deps: OAuthDeps,
    pub(in crate::oauth) revocations: Arc<Revocations>,
}

// === impl Users ===

impl Users {
    /// Every user, by name.
    pub async fn list(&self) -> Result<Vec<UserOverview>, OAuthError> {
        Ok(self.deps.storage.users().list(self.deps.now()).await?)
    }

    /// Locks a user out until the user is enabled again, with all keys, grants and browser sessions. Running calls and
    /// streams end within a second. Returns false if there is no such user.
    pub async fn disable(&self, user: &UserId) -> Result<bool, OAuthError> {
        let done = self.deps.storage.users().disable(user, self.deps.now()).await?;
        self.changed(user, UserChange::Disabled, done).await
    }

    /// Lets a disabled user in again, with the earlier keys and grants. Returns false if there is no such user.
    pub async fn enable(&self, user: &UserId) -> Result<bool, OAuthError> {
        let done = self.deps.storage.users().enable(user).await?;
        self.changed(user, UserChange::Enabled, done).await
    }

    /// Deletes a user with keys, grants, browser sessions, sessions and invitations, and returns how many of each.
    /// Running calls and streams end within a second. `None` if there is no such user.
    pub async fn delete(&self, user: &UserId) -> Result<Option<EndedUser>, OAuthError> {
        let ended = self.deps.storage.users().delete(user, self.deps.now()).await?;
        self.changed(user, UserChange::Deleted, ended.is_some()).await?;
        Ok(ended)
    }

    async fn changed(&self, user: &UserId, change: UserChange, done: bool) -> Result<bool, OAuthError> {
        if done {
            self.deps.audit.record(UserEvent { user: user.clone(), change });
            self.revocations.sync().await?;
        }
        Ok(done)
    }
}
