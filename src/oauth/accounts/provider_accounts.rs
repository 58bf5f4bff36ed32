//! Accounts of people that an OpenID provider has verified. They are created at the first login, and updated and
//! confirmed by each login; also their logout (`UP-13`, `UP-14`, `UP-31`).

use std::time::Duration;

use super::api_keys::{AccountEntry, KeyHolder, Keys};
use crate::{
    audit::{GrantEvent, InvitationEvent, Revoker},
    model::{AllowedNetworks, KeyAccount, KeyId, KeyKind, NewAccount, Rights},
    oauth::error::OAuthError,
    support::Timestamp,
};

/// Maximum number of unconfirmed accounts that end in one round.
const ENDED_AT_ONCE: u32 = 64;

/// The email address of a person, according to the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimedAddress<'a> {
    /// This address, which is verified.
    Verified(&'a str),
    /// The person has no verified address there: rules that the person accepted by an address are not applied.
    None,
    /// The provider says nothing about an address: rules that the person accepted by an address stay.
    Unsaid,
}

/// Rights of a person, and their source, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenRights {
    pub rights: Rights,
    /// Their source.
    pub by: String,
    /// Time of the latest invitation among the sources. It lets in a person whose account was revoked before.
    pub invited: Option<Timestamp>,
}

impl Keys {
    /// The rights of a person at a provider, from the tables in the configuration and from rules made by an invitation.
    /// `None` if nothing lets the person in.
    pub async fn rights_of_person(
        &self,
        issuer: &str,
        subject: &str,
        address: ClaimedAddress<'_>,
        by_tables: Option<Rights>,
    ) -> Result<Option<GivenRights>, OAuthError> {
        let (table, now) = (self.deps.storage.invitations(), self.deps.now());
        let rules = match address {
            ClaimedAddress::Verified(email) => {
                let taken = table.take_rules(issuer, subject, &email.to_lowercase(), now).await?;
                for new in taken.iter().filter(|taken| taken.is_new) {
                    let (invitation, subject) = (new.rule.clone(), subject.to_owned());
                    self.deps.audit.record(InvitationEvent::Admitted { invitation, subject });
                }
                taken.into_iter().map(|taken| taken.rule).collect()
            }
            ClaimedAddress::Unsaid => table.rules_of(issuer, subject, now).await?,
            ClaimedAddress::None => Vec::new(),
        };
        let tables =
            by_tables.map(|rights| GivenRights { rights, by: format!("the rules for {issuer}"), invited: None });
        let invited = rules.iter().map(|rule| GivenRights {
            rights: rule.rights.clone(),
            by: rule.origin(),
            invited: Some(rule.created),
        });
        Ok(tables.into_iter().chain(invited).reduce(GivenRights::with))
    }

    /// Lets the holder of an account in, with these rights. Creates an account at the first login, and another one
    /// after a revocation if the person was invited since. The login confirms the account. Call it only after the
    /// holder was verified.
    pub async fn admit(
        &self,
        account: KeyAccount,
        name: &str,
        given: &GivenRights,
    ) -> Result<AccountEntry, OAuthError> {
        let mut entry = self.enter(&account).await?;
        let is_made = match &entry {
            AccountEntry::Unknown => true,
            AccountEntry::Ended(key) => {
                let revoked = self.find(key).await?.and_then(|key| key.revoked);
                revoked.zip(given.invited).is_some_and(|(revoked, invited)| invited > revoked)
            }
            AccountEntry::Open(_) => false,
        };
        if is_made {
            let new = NewAccount {
                account: account.clone(),
                name: name.to_owned(),
                user: None,
                rights: given.rights.clone(),
                expires: None,
                networks: AllowedNetworks::default(),
            };
            let added = self.add_account_of(new, &given.by).await;
            entry = self.enter(&account).await?;
            if let (Err(error), false) = (added, matches!(entry, AccountEntry::Open(_))) {
                // unless another login of the same person was faster
                return Err(error);
            }
        }
        let AccountEntry::Open(holder) = entry else { return Ok(entry) };
        self.reconfirm(&holder.key, Some(given)).await?;
        Ok(AccountEntry::Open(KeyHolder { rights: given.rights.clone(), ..holder }))
    }

    /// Records that the provider of an account confirms its holder. Sets the rights in `given`, or keeps the present
    /// ones.
    pub async fn reconfirm(&self, key: &KeyId, given: Option<&GivenRights>) -> Result<(), OAuthError> {
        self.deps.storage.keys().confirm(key, self.deps.now()).await?;
        if let Some(given) = given {
            self.set_rights_of(key, &given.rights, &given.by).await?;
        }
        Ok(())
    }

    /// The account of a person at a provider, even if it has ended.
    pub async fn find_person(&self, issuer: &str, subject: &str) -> Result<Option<KeyId>, OAuthError> {
        let account = KeyAccount::Provider { issuer: issuer.to_owned(), subject: subject.to_owned() };
        Ok(self.deps.storage.keys().find_by_account(&account).await?.map(|key| key.id))
    }

    /// Ends the browser sessions, the grants and the bound login of an account of this issuer. The account stays, so
    /// its holder may log in again.
    pub async fn log_out_account(&self, key: &KeyId, issuer: &str) -> Result<(), OAuthError> {
        let Some((found, _)) = self.deps.storage.keys().lookup(key).await? else { return Ok(()) };
        if !matches!(&found.kind, KeyKind::Account(KeyAccount::Provider { issuer: own, .. }) if own == issuer) {
            return Ok(());
        }
        let count = self.deps.storage.provider_logins().log_out(key, self.deps.now()).await?;
        let by = Revoker::Provider(issuer.to_owned());
        self.deps.audit.record(GrantEvent::SeveralRevoked { user: Some(found.user), count, by });
        self.revocations.sync().await?;
        Ok(())
    }

    /// Logs out accounts of an issuer that it has not confirmed for `trust`, a few at a time; returns their number.
    pub async fn end_unconfirmed(&self, issuer: &str, trust: Duration) -> Result<usize, OAuthError> {
        let now = self.deps.now();
        let (storage, before) = (self.deps.storage.for_rounds(), now - trust);
        let due = storage.provider_logins().unconfirmed(issuer, before, ENDED_AT_ONCE).await?;
        let mut ended = 0;
        for key in due {
            let Some(count) = storage.provider_logins().end_unconfirmed(&key, before, now).await? else { continue };
            ended += 1;
            if count > 0 {
                let user = self.deps.storage.keys().lookup(&key).await?.map(|(key, _)| key.user);
                let by = Revoker::Unconfirmed(issuer.to_owned());
                self.deps.audit.record(GrantEvent::SeveralRevoked { user, count, by });
            }
        }
        if ended > 0 {
            self.revocations.sync().await?;
        }
        Ok(ended)
    }
}

impl GivenRights {
    fn with(self, more: Self) -> Self {
        let Self { rights, by, invited } = more;
        let by = format!("{} and {by}", self.by);
        Self { rights: self.rights.union(&rights), by, invited: self.invited.max(invited) }
    }
}
