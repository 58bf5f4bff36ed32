//! Rotation of API keys (`OA-134`), and users with several keys. Knows nothing of authentication.

use std::collections::BTreeMap;

use super::{api_keys::Keys, error::OAuthError, opaque};
use crate::{
    audit::KeyEvent,
    model::{ApiKey, KeyId, KeyKind, KeyRotation, RotatedUser, UserId},
    support::Secret,
};

/// Notice of the migration about keys that share a user.
const SHARED_USERS: &str = "notice: shared users";

impl Keys {
    /// Replaces a key: a new secret and id, the same name and rights, and the same user unless the rotation names
    /// another. The new key takes over the grants. The old key ends after the overlap, at once if there is none. `None`
    /// if no live key with a secret has this id, or it was already rotated.
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
        if !self.deps.storage.keys().rotate(old, (&key, &mac), now + rotation.overlap, now).await? {
            return Ok(None);
        }
        let (successor, user) = (key.id.clone(), key.user.clone());
        self.deps.audit.record(KeyEvent::Rotated { key: old.clone(), successor, user });
        self.revocations.sync().await?;
        Ok(Some((key, text)))
    }

    /// Users with more than one live key, with the number of keys, right after the migration that makes a key its own
    /// user: before it, keys without a user name all belonged to the owner. Later calls return nothing.
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
