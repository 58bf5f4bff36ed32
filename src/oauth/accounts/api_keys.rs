//! API keys and accounts without a secret: creation, authentication, revocation (`OA-125` to `OA-128`).

use std::{net::IpAddr, sync::Arc, time::Duration};

use crate::{
    audit::{InvitationEvent, KeyEvent, RefusalEvent},
    model::{
        AccessSubject, AllowedNetworks, ApiKey, ClientIp, Direct, KeyAccount, KeyHistory, KeyId, KeyKind, NewAccount,
        NewKey, Rights, UserId,
    },
    oauth::{
        credentials::{revocation::Revocations, usage::UsageRecorder},
        dependencies::OAuthDeps,
        error::OAuthError,
        rate_limits::RateLimit,
        secrets::{opaque, pepper::Pepper},
    },
    support::{Digest, Secret, Timestamp, limits::Backoff},
};

/// Holder of a valid API key or account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyHolder {
    pub key: KeyId,
    /// Name of the key.
    pub name: String,
    pub user: UserId,
    pub rights: Rights,
    /// Its kind: a key or an account.
    pub kind: KeyKind,
    /// Networks where the key, and anything based on it, may be used.
    pub networks: AllowedNetworks,
}

/// State of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountEntry {
    /// It may be used.
    Open(KeyHolder),
    /// It has expired or was revoked. After a revocation, the operator may add a new one.
    Ended(KeyId),
    /// There never was one.
    Unknown,
}

/// Refusal of an API key.
#[derive(Debug, thiserror::Error)]
pub enum KeyRefusal {
    /// The key is malformed, unknown, wrong, revoked or expired. The response never says which (`OA-73`).
    #[error("this API key is not valid")]
    Unknown,
    /// The key is wrong, after too many wrong keys from its network or for this key id (`OA-127`).
    #[error("too many wrong API keys; try again in {} s", retry_after.as_secs())]
    Limited {
        /// Time until a wrong key gets [`KeyRefusal::Unknown`] again. A valid key always passes.
        retry_after: Duration,
    },
    #[error("API keys cannot be checked now: {0}")]
    Unavailable(#[from] OAuthError),
}

/// Period after which one more wrong key is allowed for a network.
const WRONG_KEY_PERIOD: Duration = Duration::from_secs(90);
/// Name of the stored value that marks a gateway trusting private networks.
const PRIVATE_PROXIES: &str = "notice: private proxies";

/// Limits of wrong keys (`OA-127`). Logins and bearer credentials are counted separately, so that a program with an old
/// key does not slow down people who share its address.
struct KeyLimits {
    logins: WrongKeys,
    bearers: WrongKeys,
}

/// Wrong keys: 10 from one network in 15 minutes; 5 for one key id, then delays of 30 s to 16 min.
struct WrongKeys {
    networks: RateLimit,
    ids: Backoff<KeyId>,
}

pub struct Keys {
    pub(in crate::oauth) deps: OAuthDeps,
    pub(in crate::oauth) pepper: Arc<Pepper>,
    pub(super) revocations: Arc<Revocations>,
    uses: Arc<UsageRecorder>,
    limits: KeyLimits,
}

// === impl Keys ===

impl Keys {
    pub(in crate::oauth) fn new(
        deps: OAuthDeps,
        pepper: Arc<Pepper>,
        revocations: Arc<Revocations>,
        uses: Arc<UsageRecorder>,
    ) -> Self {
        let limits = KeyLimits {
            logins: WrongKeys::new(deps.limits.limit("wrong keys of logins", 10, WRONG_KEY_PERIOD)),
            bearers: WrongKeys::new(deps.limits.limit("wrong keys of requests", 10, WRONG_KEY_PERIOD)),
        };
        Self { deps, pepper, revocations, uses, limits }
    }

    /// Checks an API key for a login. A failure counts for the address `from`. A valid key always passes: keys are
    /// random, so their owners need no limit, and a flood of wrong keys cannot lock an owner out (`OA-127`).
    pub async fn authenticate(&self, presented: &str, from: IpAddr) -> Result<KeyHolder, KeyRefusal> {
        self.check_key(presented, from, &self.limits.logins).await
    }

    /// Checks an API key in a request, like [`Keys::authenticate`]. These failures are counted separately from failed
    /// logins.
    pub(in crate::oauth) async fn authenticate_bearer(
        &self,
        presented: &str,
        from: IpAddr,
    ) -> Result<KeyHolder, KeyRefusal> {
        self.check_key(presented, from, &self.limits.bearers).await
    }

    /// Checks a key. A wrong one costs a checksum, one HMAC and, if it is well-formed, one look-up by id. Every refusal
    /// takes the same path: even an unknown id is compared, with a digest that matches no key.
    async fn check_key(&self, presented: &str, from: IpAddr, limits: &WrongKeys) -> Result<KeyHolder, KeyRefusal> {
        let parsed = opaque::parse_key(presented);
        let found = match &parsed {
            Some(key) => self.deps.storage.keys().lookup(&key.id).await.map_err(OAuthError::from)?,
            None => None,
        };
        let now = self.deps.now();
        let mac = self.pepper.mac(parsed.as_ref().map_or(presented, |key| key.secret.expose()));
        let stored = found.as_ref().and_then(|(_, mac)| *mac);
        let is_right = (mac == stored.unwrap_or_else(|| Digest::sha256(""))) & stored.is_some();
        let right = found.filter(|_| is_right).map(|(key, _)| key);
        let right = match right {
            Some(key) if key.is_live(now) && key.networks.allow(from) => {
                self.uses.note_key(&key.id);
                return Ok(key.into());
            }
            other => other,
        };
        metrics::counter!("lockkeeper_key_refusals_total").increment(1);
        let refusal = limits.count(parsed.map(|key| key.id), from, now);
        // failures beyond the limits are not recorded, so that a flood does not fill the log
        if let KeyRefusal::Unknown = refusal {
            match right.map(|key| (key.ended(now), key)) {
                None => self.deps.audit.record(RefusalEvent::Key { from }),
                Some((None, key)) => self.record_elsewhere(&key.id, from),
                Some((Some(reason), ApiKey { id: key, user, .. })) => {
                    self.deps.audit.record(RefusalEvent::EndedKey { key, user, from, reason });
                }
            }
        }
        Err(refusal)
    }

    /// Creates a key and, if it is new, its user. Without a named user, the key itself is the user. The secret is
    /// returned only here.
    pub async fn create(&self, new: NewKey) -> Result<(ApiKey, Secret), OAuthError> {
        self.may_be_bound(&new.networks).await?;
        let name = checked_name(&new.name)?;
        let (text, parts) = opaque::mint_key(&*self.deps.random);
        let key = ApiKey {
            user: new.user.unwrap_or_else(|| UserId::of_key(&parts.id)),
            id: parts.id,
            name,
            rights: new.rights,
            kind: KeyKind::Secret(new.direct),
            created: self.deps.now(),
            expires: new.expires,
            networks: new.networks,
            last_used: None,
            revoked: None,
            disabled: None,
            rotated: None,
            history: KeyHistory { given_by: Some(format!("the {}", self.deps.operator())), ..KeyHistory::default() },
        };
        self.deps.storage.keys().add(&key, Some(&self.pepper.mac(parts.secret.expose()))).await?;
        self.record_created(&key);
        Ok((key, text))
    }

    /// Creates an account, which has no secret, and its user if that is new. Without a named user, the account itself
    /// is the user.
    pub async fn add_account(&self, new: NewAccount) -> Result<ApiKey, OAuthError> {
        let by = format!("the {}", self.deps.operator());
        self.add_account_of(new, &by).await
    }

    /// The same for an account with rights given by another user.
    pub(super) async fn add_account_of(&self, new: NewAccount, given_by: &str) -> Result<ApiKey, OAuthError> {
        self.may_be_bound(&new.networks).await?;
        let id = opaque::mint_key(&*self.deps.random).1.id;
        let key = ApiKey {
            user: new.user.unwrap_or_else(|| UserId::of_key(&id)),
            id,
            name: checked_name(&new.name)?,
            rights: new.rights,
            kind: KeyKind::Account(new.account),
            created: self.deps.now(),
            expires: new.expires,
            networks: new.networks,
            last_used: None,
            revoked: None,
            disabled: None,
            rotated: None,
            history: KeyHistory { given_by: Some(given_by.to_owned()), ..KeyHistory::default() },
        };
        self.deps.storage.keys().add(&key, None).await?;
        self.record_created(&key);
        Ok(key)
    }

    /// Lets the holder of an account in. Call it only after the holder was verified.
    pub async fn enter(&self, account: &KeyAccount) -> Result<AccountEntry, OAuthError> {
        let Some(key) = self.deps.storage.keys().find_by_account(account).await? else {
            return Ok(AccountEntry::Unknown);
        };
        if !key.is_live(self.deps.now()) {
            return Ok(AccountEntry::Ended(key.id));
        }
        self.uses.note_key(&key.id);
        Ok(AccountEntry::Open(key.into()))
    }

    /// Records that a valid key, or a token based on one, was used outside of its networks.
    pub(in crate::oauth) fn record_elsewhere(&self, key: &KeyId, from: IpAddr) {
        self.deps.audit.record(KeyEvent::Elsewhere { key: key.clone(), from });
    }

    pub(super) fn record_created(&self, key: &ApiKey) {
        self.deps.audit.record(KeyEvent::Created(Box::new(key.clone())));
    }

    /// Every key, including revoked ones, oldest first.
    pub async fn list(&self) -> Result<Vec<ApiKey>, OAuthError> {
        Ok(self.deps.storage.keys().list().await?)
    }

    /// Revokes a key with its grants, tokens, streams and browser sessions. Returns false if no live key has this id.
    pub async fn revoke(&self, key: &KeyId) -> Result<bool, OAuthError> {
        let user = self.deps.storage.keys().revoke(key, self.deps.now()).await?;
        let done = user.is_some();
        if let Some(user) = user {
            self.deps.audit.record(KeyEvent::Revoked { key: key.clone(), user });
        }
        self.revocations.sync().await?;
        Ok(done)
    }

    /// Counts an unusable invitation link as a wrong key in a login.
    pub(super) fn count_wrong_link(&self, from: IpAddr) -> KeyRefusal {
        metrics::counter!("lockkeeper_key_refusals_total").increment(1);
        let refusal = self.limits.logins.count(None, from, self.deps.now());
        if matches!(refusal, KeyRefusal::Unknown) {
            self.deps.audit.record(InvitationEvent::Refused { from });
        }
        refusal
    }

    /// The key as a record, for a page about it.
    pub async fn find(&self, key: &KeyId) -> Result<Option<ApiKey>, OAuthError> {
        Ok(self.deps.storage.keys().lookup(key).await?.map(|(key, _)| key))
    }

    /// The user of a key that has ended; `None` if it is valid or unknown.
    pub async fn user_of_ended(&self, key: &KeyId) -> Result<Option<UserId>, OAuthError> {
        let now = self.deps.now();
        Ok(self.find(key).await?.filter(|found| !found.is_live(now)).map(|found| found.user))
    }

    /// True if the key is valid. Browser sessions end with their key (`OA-128`).
    pub async fn is_live(&self, key: &KeyId) -> Result<bool, OAuthError> {
        Ok(self.holder(key).await?.is_some())
    }

    /// The holder of a live key with this id, for a browser session that was opened with it; `None` if the key has
    /// ended.
    pub async fn holder(&self, key: &KeyId) -> Result<Option<KeyHolder>, OAuthError> {
        let found = self.deps.storage.keys().lookup(key).await?;
        let live = found.map(|(key, _)| key).filter(|key| key.is_live(self.deps.now()));
        Ok(live.map(KeyHolder::from))
    }

    /// Creates the operator's first key (user `owner`, every backend and administration) if there was never a key.
    pub async fn first(&self) -> Result<Option<Secret>, OAuthError> {
        if self.deps.storage.keys().count().await? > 0 {
            return Ok(None);
        }
        let new = NewKey {
            name: "first key".to_owned(),
            user: Some(UserId::owner()),
            rights: Rights { admin: true, ..Rights::all_backends() },
            direct: Direct::Refused,
            expires: None,
            networks: AllowedNetworks::default(),
        };
        Ok(Some(self.create(new).await?.1))
    }

    /// The time when the key ends; `None` if it has no end.
    pub(in crate::oauth) async fn ends(&self, key: &KeyId) -> Result<Option<Timestamp>, OAuthError> {
        Ok(self.deps.storage.keys().lookup(key).await?.and_then(|(key, _)| key.ends()))
    }

    /// The time when grants of this key end. After a rotation they continue with the new key.
    pub(in crate::oauth) async fn expires(&self, key: &KeyId) -> Result<Option<Timestamp>, OAuthError> {
        Ok(self.deps.storage.keys().lookup(key).await?.and_then(|(key, _)| key.expires))
    }

    /// Records for every program on the database whether this gateway trusts private networks. Its configuration file
    /// may change before it starts again.
    pub async fn refuse_networks(&self, trusts_private: bool) -> Result<(), OAuthError> {
        let values = self.deps.storage.gateway_values();
        if trusts_private {
            values.get_or_add(PRIVATE_PROXIES, b"1").await?;
        } else {
            values.take_notice(PRIVATE_PROXIES).await?;
        }
        Ok(())
    }

    /// Refuses a key with networks if a gateway on the database trusts private networks, or would trust them with the
    /// present configuration. Any machine there can act as the gateway's proxy, and so claim any address.
    pub(in crate::oauth) async fn may_be_bound(&self, networks: &AllowedNetworks) -> Result<(), OAuthError> {
        if networks.listed().is_none() {
            return Ok(());
        }
        let running = self.deps.storage.gateway_values().lookup(PRIVATE_PROXIES).await?;
        let is_refused = self.deps.settings.private_proxies || running.is_some();
        if is_refused { Err(OAuthError::NetworksBehindPrivateProxies) } else { Ok(()) }
    }
}

/// The name without surrounding space; an error unless it has 1 to 100 characters.
fn checked_name(name: &str) -> Result<String, OAuthError> {
    let name = name.trim();
    if (1..=100).contains(&name.chars().count()) { Ok(name.to_owned()) } else { Err(OAuthError::KeyName) }
}

// === impl KeyHolder ===

impl KeyHolder {
    /// Display name of the user: the chosen name, or the name of a key that is its own user.
    pub fn user_name(&self) -> &str {
        if self.user.is_of_key() { &self.name } else { self.user.as_str() }
    }

    /// The holder, as the subject of access decisions about servers.
    pub const fn subject(&self) -> AccessSubject<'_> {
        AccessSubject { user: &self.user, rights: &self.rights }
    }
}

impl From<ApiKey> for KeyHolder {
    fn from(key: ApiKey) -> Self {
        Self { key: key.id, name: key.name, user: key.user, rights: key.rights, kind: key.kind, networks: key.networks }
    }
}

// === impl WrongKeys ===

impl WrongKeys {
    fn new(networks: RateLimit) -> Self {
        Self { networks, ids: Backoff::new(5, Duration::from_secs(30)) }
    }

    /// Counts a wrong key and returns the refusal.
    fn count(&self, id: Option<KeyId>, from: IpAddr, now: Timestamp) -> KeyRefusal {
        let network = self.networks.take(ClientIp(from).network(), now);
        let id = id.map_or(Ok(()), |id| self.ids.fail(id, now));
        if let Some(retry_after) = network.err().max(id.err()) {
            return KeyRefusal::Limited { retry_after };
        }
        KeyRefusal::Unknown
    }
}
