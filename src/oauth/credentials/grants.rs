//! Administration of grants, for the account page and the command line.

use std::sync::Arc;

use super::revocation::Revocations;
use crate::{
    audit::{GrantEvent, Revoker},
    model::{AccessSubject, ClientId, Grant, GrantId, Groups, Rights, UserId},
    oauth::{
        accounts::api_keys::KeyHolder,
        clients::redirect_uri::{RedirectTarget, RedirectUri},
        dependencies::OAuthDeps,
        error::OAuthError,
    },
    storage::ListedGrant,
};

/// A grant, with names that people know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantView {
    pub grant: Grant,
    /// Name claimed by the client.
    pub client_name: String,
    /// Name of the API key behind the grant.
    pub key_name: String,
    /// Rights of its tokens.
    pub rights: Rights,
    /// Target of the redirect URI, if there is one.
    pub redirect: Option<RedirectTarget>,
}

pub struct Grants {
    pub(in crate::oauth) deps: OAuthDeps,
    pub(in crate::oauth) revocations: Arc<Revocations>,
}

// === impl Grants ===

impl Grants {
    /// The live grants of a user, newest first.
    pub async fn of(&self, user: &UserId) -> Result<Vec<GrantView>, OAuthError> {
        let listed = self.deps.storage.grants().list(Some(user), self.deps.now()).await?;
        let groups = self.deps.settings.backends.groups();
        Ok(listed.into_iter().map(|listed| GrantView::new(listed, &groups)).collect())
    }

    /// The user and the app of a grant that has ended, if the user has not let the app in again.
    pub async fn last_of(&self, grant: &GrantId) -> Result<Option<(UserId, ClientId)>, OAuthError> {
        Ok(self.deps.storage.grants().last_of(grant, self.deps.now()).await?)
    }

    /// The live grants of all users, newest first.
    pub async fn list(&self) -> Result<Vec<GrantView>, OAuthError> {
        let listed = self.deps.storage.grants().list(None, self.deps.now()).await?;
        let groups = self.deps.settings.backends.groups();
        Ok(listed.into_iter().map(|listed| GrantView::new(listed, &groups)).collect())
    }

    /// Live grants of the holder's user that allow no more than the holder's key, newest first.
    pub async fn within(&self, holder: &KeyHolder) -> Result<Vec<GrantView>, OAuthError> {
        let mut grants = self.of(&holder.user).await?;
        grants.retain(|view| holder.subject().covers(view.subject()));
        Ok(grants)
    }

    /// Revokes a grant of this user. Its tokens and streams end within a second. Returns false if there is no such live
    /// grant.
    pub async fn revoke(&self, user: &UserId, grant: &GrantId) -> Result<bool, OAuthError> {
        let found = self.deps.storage.grants().lookup(grant).await?;
        if found.is_none_or(|grant| grant.user != *user) {
            return Ok(false);
        }
        self.end(grant, user, Revoker::Operator).await
    }

    /// Ends a grant, and records that. Returns false, without a record, if it had ended already.
    async fn end(&self, grant: &GrantId, user: &UserId, by: Revoker) -> Result<bool, OAuthError> {
        let is_ended = self.revocations.end_grant(grant).await?;
        if is_ended {
            self.deps.audit.record(GrantEvent::Revoked { grant: grant.clone(), user: Some(user.clone()), by });
        }
        Ok(is_ended)
    }

    /// Revokes a grant of the holder's user if it allows no more than the holder's key. Returns false if there is no
    /// such grant. A grant that was revoked before stays revoked.
    pub async fn revoke_within(&self, holder: &KeyHolder, grant: &GrantId) -> Result<bool, OAuthError> {
        let Some(found) = self.deps.storage.grants().lookup(grant).await? else { return Ok(false) };
        let Some((key, _)) = self.deps.storage.keys().lookup(&found.key).await? else { return Ok(false) };
        let rights = found.rights(&key.rights, &self.deps.settings.backends.groups());
        if !holder.subject().covers(AccessSubject { user: &found.user, rights: &rights }) {
            return Ok(false);
        }
        // the button may be pressed twice at the same time
        self.end(grant, &holder.user, Revoker::Holder(holder.key.clone())).await?;
        Ok(true)
    }

    /// Revokes every grant of a user and returns their number.
    pub async fn revoke_all(&self, user: &UserId) -> Result<u64, OAuthError> {
        let count = self.deps.storage.grants().revoke_of(user, |_, _| true, self.deps.now()).await?;
        let (user, by) = (Some(user.clone()), Revoker::Operator);
        self.deps.audit.record(GrantEvent::SeveralRevoked { user, count, by });
        self.revocations.sync().await?;
        Ok(count)
    }

    /// Revokes every grant of the holder's user that allows no more than the holder's key, and returns their number.
    pub async fn revoke_all_within(&self, holder: &KeyHolder) -> Result<u64, OAuthError> {
        let groups = self.deps.settings.backends.groups();
        let within = |grant: &Grant, key: &Rights| {
            holder.subject().covers(AccessSubject { user: &grant.user, rights: &grant.rights(key, &groups) })
        };
        let count = self.deps.storage.grants().revoke_of(&holder.user, within, self.deps.now()).await?;
        if count > 0 {
            let (user, by) = (Some(holder.user.clone()), Revoker::Holder(holder.key.clone()));
            self.deps.audit.record(GrantEvent::SeveralRevoked { user, count, by });
        }
        self.revocations.sync().await?;
        Ok(count)
    }
}

// === impl GrantView ===

impl GrantView {
    /// The holder of its tokens, as a subject.
    const fn subject(&self) -> AccessSubject<'_> {
        AccessSubject { user: &self.grant.user, rights: &self.rights }
    }

    fn new(listed: ListedGrant, groups: &Groups) -> Self {
        let ListedGrant { grant, client_name, key_name, key_rights } = listed;
        let redirect = grant.delivery.redirect_uri().map(|uri| RedirectUri::stored(uri).target().clone());
        Self { rights: grant.rights(&key_rights, groups), grant, client_name, key_name, redirect }
    }
}
