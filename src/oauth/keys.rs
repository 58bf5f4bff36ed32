//! API keys: made, presented, revoked (`OA-125` to `OA-128`). Knows nothing of pages and tokens.

use std::{net::IpAddr, sync::Arc, time::Duration};

use super::{
    core::Core,
    error::Error,
    limits::{Backoff, Buckets},
    opaque,
    pepper::Pepper,
    revocation::Revocations,
    uses::Uses,
};
use crate::{
    model::{ApiKey, ClientIp, Direct, KeyId, NewKey, Rights, UserId},
    support::{Digest, Secret, Timestamp},
};

/// Who stands behind an API key that was presented and is good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyHolder {
    /// The key.
    pub key: KeyId,
    /// What the key is called.
    pub name: String,
    /// Whose it is.
    pub user: UserId,
    /// What it may do.
    pub rights: Rights,
    /// Whether it may stand in for a token on `/mcp`.
    pub direct: Direct,
}

/// Why a presented API key does not open anything.
#[derive(Debug, thiserror::Error)]
pub enum KeyRefusal {
    /// It is malformed, unknown, wrong, revoked or expired: which of them is never told (`OA-73`).
    #[error("this API key is not valid")]
    Unknown,
    /// It is wrong too, and too many wrong keys came from that network or named this key's id (`OA-127`).
    #[error("too many wrong API keys; try again in {} s", retry_after.as_secs())]
    Limited {
        /// When the next wrong one is answered with [`KeyRefusal::Unknown`] again; a right one always passes.
        retry_after: Duration,
    },
    /// The store could not be asked.
    #[error("API keys cannot be checked now: {0}")]
    Unavailable(#[from] Error),
}

/// The limits of wrong keys (`OA-127`): login and bearer credentials are counted apart, so that a program with an old
/// key does not slow down the people behind the same address.
#[derive(Debug, Default)]
struct KeyLimits {
    logins: WrongKeys,
    bearers: WrongKeys,
}

/// Wrong keys: 10 from one network in 15 minutes; 5 for one key id, then delays of 30 s to 16 min.
#[derive(Debug)]
struct WrongKeys {
    networks: Buckets<IpAddr>,
    ids: Backoff<KeyId>,
}

/// The API keys.
pub struct Keys {
    pub(super) core: Core,
    pub(super) pepper: Arc<Pepper>,
    pub(super) revocations: Arc<Revocations>,
    uses: Arc<Uses>,
    limits: KeyLimits,
}

// === impl Keys ===

impl Keys {
    pub(super) fn new(core: Core, pepper: Arc<Pepper>, revocations: Arc<Revocations>, uses: Arc<Uses>) -> Self {
        Self { core, pepper, revocations, uses, limits: KeyLimits::default() }
    }

    /// Checks an API key that somebody gives to log in; `from` is the address that a failure is counted for. A right key
    /// passes at once, whatever was counted before: keys are random, so limits need not hold back who has one, and
    /// nobody can lock out an owner (`OA-127`).
    pub async fn authenticate(&self, presented: &str, from: IpAddr) -> Result<KeyHolder, KeyRefusal> {
        self.check_key(presented, from, &self.limits.logins).await
    }

    /// Checks an API key that a request carries as its credential, like [`Keys::authenticate`]. Failures are counted
    /// apart from those of logins.
    pub(super) async fn authenticate_bearer(&self, presented: &str, from: IpAddr) -> Result<KeyHolder, KeyRefusal> {
        self.check_key(presented, from, &self.limits.bearers).await
    }

    /// A wrong key costs a checksum, one HMAC and, where its form is right, one look-up by id. Every refusal takes the
    /// same path, and an unknown id is compared too, with a digest that no key has.
    async fn check_key(&self, presented: &str, from: IpAddr, limits: &WrongKeys) -> Result<KeyHolder, KeyRefusal> {
        let parsed = opaque::parse_key(presented);
        let found = match &parsed {
            Some(key) => self.core.storage.keys().lookup(&key.id).await.map_err(Error::from)?,
            None => None,
        };
        let now = self.core.now();
        let mac = self.pepper.mac(parsed.as_ref().map_or(presented, |key| key.secret.expose()));
        let expected = found.as_ref().map_or_else(|| Digest::sha256(""), |(_, mac)| *mac);
        let is_right = mac == expected;
        if let Some((key, _)) = found.filter(|(key, _)| is_right && key.is_live(now)) {
            self.uses.note_key(&key.id);
            return Ok(key.into());
        }
        metrics::counter!("lockkeeper_key_refusals_total").increment(1);
        Err(limits.count(parsed.map(|key| key.id), from, now))
    }

    /// Makes a key and, where it is new, its user: the key itself, unless one is named. The secret is shown here and never again.
    pub async fn create(&self, new: NewKey) -> Result<(ApiKey, Secret), Error> {
        let name = new.name.trim().to_owned();
        if !(1..=100).contains(&name.chars().count()) {
            return Err(Error::KeyName);
        }
        let (text, parts) = opaque::mint_key(&*self.core.random);
        let key = ApiKey {
            user: new.user.unwrap_or_else(|| UserId::of_key(&parts.id)),
            id: parts.id,
            name,
            rights: new.rights,
            direct: new.direct,
            created: self.core.now(),
            expires: new.expires,
            last_used: None,
            revoked: None,
            rotated: None,
        };
        self.core.storage.keys().add(&key, &self.pepper.mac(parts.secret.expose())).await?;
        tracing::info!(target: "audit", key = %key.id, user = %key.user, "API key created");
        Ok((key, text))
    }

    /// Every key, revoked ones too, oldest first.
    pub async fn list(&self) -> Result<Vec<ApiKey>, Error> {
        Ok(self.core.storage.keys().list().await?)
    }

    /// Revokes a key and with it its grants, tokens, streams and browser sessions. False where no live key has this id.
    pub async fn revoke(&self, key: &KeyId) -> Result<bool, Error> {
        let done = self.core.storage.keys().revoke(key, self.core.now()).await?;
        tracing::info!(target: "audit", %key, done, "API key revoked");
        self.revocations.sync().await?;
        Ok(done)
    }

    /// Whether the key may still be used: browser sessions that came from it end with it (`OA-128`).
    pub async fn is_live(&self, key: &KeyId) -> Result<bool, Error> {
        Ok(self.holder(key).await?.is_some())
    }

    /// The holder of a live key by its id, for a browser session that was opened with it; `None` where it ended.
    pub async fn holder(&self, key: &KeyId) -> Result<Option<KeyHolder>, Error> {
        let found = self.core.storage.keys().lookup(key).await?;
        let live = found.map(|(key, _)| key).filter(|key| key.is_live(self.core.now()));
        Ok(live.map(KeyHolder::from))
    }

    /// Makes the operator's first key (user `owner`, every backend and administration) when there was never any.
    pub async fn first(&self) -> Result<Option<Secret>, Error> {
        if self.core.storage.keys().count().await? > 0 {
            return Ok(None);
        }
        let new = NewKey {
            name: "first key".to_owned(),
            user: Some(UserId::owner()),
            rights: Rights { admin: true, ..Rights::all_backends() },
            direct: Direct::Refused,
            expires: None,
        };
        Ok(Some(self.create(new).await?.1))
    }

    /// The end of a key, for those who need it beside its holder.
    pub(super) async fn ends(&self, key: &KeyId) -> Result<Option<Timestamp>, Error> {
        Ok(self.core.storage.keys().lookup(key).await?.and_then(|(key, _)| key.ends()))
    }

    /// The end of what is granted with a key: where the key is rotated, its grants go on with the new one.
    pub(super) async fn expires(&self, key: &KeyId) -> Result<Option<Timestamp>, Error> {
        Ok(self.core.storage.keys().lookup(key).await?.and_then(|(key, _)| key.expires))
    }
}

// === impl KeyHolder ===

impl KeyHolder {
    /// What people know the user by: the name that was chosen for the user, or that of the key that is its own user.
    pub fn user_name(&self) -> &str {
        if self.user.is_of_key() { &self.name } else { self.user.as_str() }
    }
}

impl From<ApiKey> for KeyHolder {
    fn from(key: ApiKey) -> Self {
        Self { key: key.id, name: key.name, user: key.user, rights: key.rights, direct: key.direct }
    }
}

// === impl WrongKeys ===

impl WrongKeys {
    /// Counts a wrong key and says how to refuse it. What is refused for its number is not logged, so that a flood does
    /// not fill the log.
    fn count(&self, id: Option<KeyId>, from: IpAddr, now: Timestamp) -> KeyRefusal {
        let network = self.networks.take(ClientIp(from).network(), now);
        let id = id.map_or(Ok(()), |id| self.ids.fail(id, now));
        if let Some(retry_after) = network.err().max(id.err()) {
            return KeyRefusal::Limited { retry_after };
        }
        tracing::warn!(target: "audit", ip = %from, "API key refused");
        KeyRefusal::Unknown
    }
}

impl Default for WrongKeys {
    fn default() -> Self {
        Self { networks: Buckets::new(10, Duration::from_secs(90)), ids: Backoff::new(5, Duration::from_secs(30)) }
    }
}
