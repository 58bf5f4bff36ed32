//! Accounts of people whom an OpenID provider vouches for: made at the first login, with the rights of each login, and
//! their logout there (`UP-13`, `UP-14`). Knows nothing of providers and of their tokens.

use super::{
    api_keys::{AccountEntry, KeyHolder, Keys},
    error::OAuthError,
};
use crate::{
    audit::{GrantEvent, Revoker},
    model::{KeyAccount, KeyId, KeyKind, NewAccount},
};

impl Keys {
    /// Lets the holder of an account in, with the rights of `new`; an account that there never was is made. Call it only
    /// after somebody verified that this is the holder.
    pub async fn admit(&self, new: NewAccount) -> Result<AccountEntry, OAuthError> {
        let (account, rights) = (new.account.clone(), new.rights.clone());
        let entry = match self.enter(&account).await? {
            AccountEntry::Unknown => match self.add_account(new).await {
                Ok(_) => self.enter(&account).await?,
                // another login of the same person was faster
                Err(error) => match self.enter(&account).await? {
                    AccountEntry::Unknown => return Err(error),
                    entry => entry,
                },
            },
            entry => entry,
        };
        let AccountEntry::Open(holder) = entry else { return Ok(entry) };
        self.set_rights(&holder.key, &rights).await?;
        Ok(AccountEntry::Open(KeyHolder { rights, ..holder }))
    }

    /// The account of a person at a provider, even an ended one.
    pub async fn find_person(&self, issuer: &str, subject: &str) -> Result<Option<KeyId>, OAuthError> {
        let account = KeyAccount::Provider { issuer: issuer.to_owned(), subject: subject.to_owned() };
        Ok(self.deps.storage.keys().find_by_account(&account).await?.map(|key| key.id))
    }

    /// Ends the browser sessions, the grants and the bound login of an account of this issuer. The account stays: its
    /// holder may log in again.
    pub async fn log_out_account(&self, key: &KeyId, issuer: &str) -> Result<(), OAuthError> {
        let Some((found, _)) = self.deps.storage.keys().lookup(key).await? else { return Ok(()) };
        if !matches!(&found.kind, KeyKind::Account(KeyAccount::Provider { issuer: own, .. }) if own == issuer) {
            return Ok(());
        }
        let now = self.deps.now();
        self.deps.storage.browser_sessions().delete_of(key).await?;
        let count = self.deps.storage.grants().revoke_of(&found.user, |grant, _| grant.key == *key, now).await?;
        self.deps.storage.provider_logins().forget(key).await?;
        let by = Revoker::Provider(issuer.to_owned());
        self.deps.audit.record(GrantEvent::SeveralRevoked { user: Some(found.user), count, by });
        self.revocations.sync().await?;
        Ok(())
    }
}
