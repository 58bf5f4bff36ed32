//! Changes of keys and accounts in place (`OA-155`). Knows nothing of commands and of how logins find rights.

use super::{api_keys::Keys, error::OAuthError};
use crate::{
    audit::KeyEvent,
    model::{KeyChange, KeyId, Rights},
    storage::ChangedKey,
};

impl Keys {
    /// Changes a key, and with it the other one of a rotation. What has more than it allows now ends within a second, running
    /// calls included. Returns the keys that changed.
    pub async fn change(&self, key: &KeyId, change: &KeyChange) -> Result<Vec<ChangedKey>, OAuthError> {
        let by = self.deps.operator();
        let changed = self.deps.storage.keys().change(key, change, &format!("the {by}"), self.deps.now()).await?;
        for ChangedKey { key, .. } in &changed {
            self.deps.audit.record(KeyEvent::RightsChanged { key: key.clone(), by: by.clone() });
        }
        self.revocations.sync().await?;
        Ok(changed)
    }

    /// Replaces the rights of one key or account; its tokens have them at once. What had more ends. Returns false if they stay.
    pub async fn set_rights(&self, key: &KeyId, rights: &Rights) -> Result<bool, OAuthError> {
        self.set_rights_of(key, rights, &self.deps.operator()).await
    }

    /// The same for rights that are from somebody else.
    pub(super) async fn set_rights_of(&self, key: &KeyId, rights: &Rights, by: &str) -> Result<bool, OAuthError> {
        let changed = self.deps.storage.keys().set_rights(key, rights, by, self.deps.now()).await?;
        if changed {
            self.deps.audit.record(KeyEvent::RightsChanged { key: key.clone(), by: by.to_owned() });
            self.revocations.sync().await?;
        }
        Ok(changed)
    }
}
