//! Rotation of API keys (`OA-134`), and who shares a user. Knows nothing of how keys are presented.

use std::collections::BTreeMap;

use super::{error::Error, keys::Keys, opaque};
use crate::{
    model::{ApiKey, KeyId, KeyRotation, RotatedUser, UserId},
    support::Secret,
};

/// What the migration leaves that keeps keys which share a user.
const SHARED_USERS: &str = "notice: shared users";

impl Keys {
    /// Makes a key in the place of another: a new secret and id, with the same name and rights, and the same user unless
    /// the rotation names another. The grants of the old key become those of the new one and live on. The old key ends
    /// after the overlap, at once where there is none. `None` where no live key has this id, or it was rotated before.
    pub async fn rotate(&self, old: &KeyId, rotation: KeyRotation) -> Result<Option<(ApiKey, Secret)>, Error> {
        let now = self.core.now();
        let found = self.core.storage.keys().lookup(old).await?.map(|(key, _)| key);
        let Some(former) = found.filter(|key| key.is_live(now) && key.rotated.is_none()) else { return Ok(None) };
        let (text, parts) = opaque::mint_key(&*self.core.random);
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
        if !self.core.storage.keys().rotate(old, (&key, &mac), now + rotation.overlap, now).await? {
            return Ok(None);
        }
        tracing::info!(target: "audit", key = %old, successor = %key.id, user = %key.user, "API key rotated");
        self.revocations.sync().await?;
        Ok(Some((key, text)))
    }

    /// How many live keys each user has that has more than one, where the database has just been brought up to the
    /// version in which a key is its own user: keys of before that were made without a user's name all are the owner's.
    /// Nothing at any later call.
    pub async fn take_shared_users(&self) -> Result<Vec<(UserId, usize)>, Error> {
        if !self.core.storage.facts().take_notice(SHARED_USERS).await? {
            return Ok(Vec::new());
        }
        let now = self.core.now();
        let mut users: BTreeMap<UserId, usize> = BTreeMap::new();
        for key in self.list().await?.into_iter().filter(|key| key.is_live(now)) {
            *users.entry(key.user).or_default() += 1;
        }
        Ok(users.into_iter().filter(|(_, keys)| *keys > 1).collect())
    }
}
