//! Changes of keys and accounts: in place (`OA-156`), and by replacement with another key (`OA-134`).

use std::collections::BTreeMap;

use super::api_keys::Keys;
use crate::{
    audit::KeyEvent,
    model::{ApiKey, KeyChange, KeyId, KeyKind, KeyRotation, Rights, RotatedUser, UserId},
    oauth::{error::OAuthError, secrets::opaque},
    storage::ChangedKey,
    support::Secret,
};

/// Notice left by the migration about keys that share a user.
const SHARED_USERS: &str = "notice: shared users";

impl Keys {
    /// Changes a key, and with it the other key of a rotation. Anything that has more rights than the key now allows
    /// ends within a second, including running calls. Returns the keys that changed.
    pub async fn change(&self, key: &KeyId, change: &KeyChange) -> Result<Vec<ChangedKey>, OAuthError> {
        let by = self.deps.operator();
        let changed = self.deps.storage.keys().change(key, change, &format!("the {by}"), self.deps.now()).await?;
        for ChangedKey { key, user, rights } in changed.iter().cloned() {
            self.deps.audit.record(KeyEvent::RightsChanged { key, user, rights, by: by.clone() });
        }
        self.revocations.sync().await?;
        Ok(changed)
    }

    /// Replaces the rights of one key or account. Its tokens have them at once, and anything with more rights ends.
    /// Returns false if the rights stay the same.
    pub async fn set_rights(&self, key: &KeyId, rights: &Rights) -> Result<bool, OAuthError> {
        self.set_rights_of(key, rights, &self.deps.operator()).await
    }

    /// The same for rights given by another user.
    pub(super) async fn set_rights_of(&self, key: &KeyId, rights: &Rights, by: &str) -> Result<bool, OAuthError> {
        let changed = self.deps.storage.keys().set_rights(key, rights, by, self.deps.now()).await?;
        let is_changed = changed.is_some();
        if let Some(ChangedKey { key, user, rights }) = changed {
            self.deps.audit.record(KeyEvent::RightsChanged { key, user, rights, by: by.to_owned() });
            self.revocations.sync().await?;
        }
        Ok(is_changed)
    }

    /// Replaces a key. The new one has a new secret and id, the same name and rights, and the same user unless the
    /// rotation names another. It takes over the grants. The old key ends after the overlap, or at once if there is
    /// none. `None` if no live key with a secret has this id, or it was rotated before.
    pub async fn rotate(&self, old: &KeyId, rotation: KeyRotation) -> Result<Option<(ApiKey, Secret)>, OAuthError> {
        let now = self.deps.now();
        let found = self.deps.storage.keys().lookup(old).await?.map(|(key, _)| key);
        let may_rotate =
            |key: &ApiKey| key.is_live(now) && key.rotated.is_none() && matches!(key.kind, KeyKind::Secret(_));
        let Some(former) = found.filter(may_rotate) else { return Ok(None) };
        self.may_be_bound(&former.networks).await?;
        let (text, parts) = opaque::mint_key(&*self.deps.random);
        let key = ApiKey {
            user: match rotation.user {
                RotatedUser::Same => former.user,
                RotatedUser::Own => UserId::of_key(&parts.id),
                RotatedUser::Named(user) => user,
            },
            id: parts.id,
            created: now,
            expires: rotation.expires.or(former.expires),
            last_used: None,
            ..former
        };
        let mac = self.pepper.mac(parts.secret.expose());
        if !self.deps.storage.keys().rotate(old, &key, &mac, now + rotation.overlap, now).await? {
            return Ok(None);
        }
        let (successor, user) = (key.id.clone(), key.user.clone());
        self.deps.audit.record(KeyEvent::Rotated { key: old.clone(), successor, user });
        self.revocations.sync().await?;
        Ok(Some((key, text)))
    }

    /// Users with more than one live key, and the number of keys, right after the migration that makes each key its own
    /// user. Before it, all keys without a user name belonged to the owner. Later calls return nothing.
    pub async fn take_shared_users(&self) -> Result<Vec<(UserId, usize)>, OAuthError> {
        if !self.deps.storage.gateway_values().take_notice(SHARED_USERS).await? {
            return Ok(Vec::new());
        }
        let now = self.deps.now();
        let mut users: BTreeMap<UserId, usize> = BTreeMap::new();
        for key in self.list().await?.into_iter().filter(|key| key.is_live(now)) {
            *users.entry(key.user).or_default() += 1;
        }
        Ok(users.into_iter().filter(|(_, keys)| *keys > 1).collect())
    }
}
