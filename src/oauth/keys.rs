//! API keys: made, presented, revoked (`OA-125` to `OA-128`). Knows nothing of pages and tokens.

use std::{net::IpAddr, time::Duration};

use super::{Error, OAuth, limits::Buckets, opaque};
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
    /// Too many wrong keys came from there (`OA-127`).
    #[error("too many wrong API keys; try again in {} s", retry_after.as_secs())]
    Limited {
        /// When the next one is looked at.
        retry_after: Duration,
    },
    /// The store could not be asked.
    #[error("API keys cannot be checked now: {0}")]
    Unavailable(#[from] Error),
}

/// The limits of wrong keys (`OA-127`): 10 from one network, 5 for one key id.
#[derive(Debug)]
pub(super) struct KeyLimits {
    networks: Buckets<IpAddr>,
    ids: Buckets<KeyId>,
}

impl OAuth {
    /// Checks a presented API key. Failures are counted by the network of `from` and by the key's id; every refusal
    /// takes the same path. The limit of the id never shuts out the right key, so that nobody can lock out its owner.
    pub async fn authenticate_key(&self, presented: &str, from: IpAddr) -> Result<KeyHolder, KeyRefusal> {
        let now = self.0.clock.now();
        let network = ClientIp(from).network();
        if let Some(retry_after) = self.0.key_limits.networks.wait(&network, now) {
            return Err(KeyRefusal::Limited { retry_after });
        }
        let parsed = opaque::parse_key(presented);
        let found = match &parsed {
            Some(key) => self.0.storage.lookup_key(&key.id).await.map_err(Error::from)?,
            None => None,
        };
        // an unknown id is compared too, with what no key has
        let mac = self.mac(parsed.as_ref().map_or(presented, |key| key.secret.expose()));
        let expected = found.as_ref().map_or_else(|| Digest::sha256(""), |(_, mac)| *mac);
        let is_right = mac == expected;
        if let Some((key, _)) = found.filter(|(key, _)| is_right && key.is_live(now)) {
            self.note_key(&key.id);
            return Ok(key.into());
        }
        self.0.key_limits.networks.charge(network, now);
        metrics::counter!("lockkeeper_key_refusals_total").increment(1);
        tracing::warn!(target: "audit", ip = %from, "API key refused");
        let Some(key) = parsed else { return Err(KeyRefusal::Unknown) };
        self.0.key_limits.ids.charge(key.id.clone(), now);
        match self.0.key_limits.ids.wait(&key.id, now) {
            Some(retry_after) => Err(KeyRefusal::Limited { retry_after }),
            None => Err(KeyRefusal::Unknown),
        }
    }

    /// Makes a key and, where it is new, its user: the key itself, unless one is named. The secret is shown here and never again.
    pub async fn create_key(&self, new: NewKey) -> Result<(ApiKey, Secret), Error> {
        let name = new.name.trim().to_owned();
        if !(1..=100).contains(&name.chars().count()) {
            return Err(Error::KeyName);
        }
        let (text, parts) = opaque::mint_key(&*self.0.random);
        let key = ApiKey {
            user: new.user.unwrap_or_else(|| UserId::of_key(&parts.id)),
            id: parts.id,
            name,
            rights: new.rights,
            direct: new.direct,
            created: self.0.clock.now(),
            expires: new.expires,
            last_used: None,
            revoked: None,
            rotated: None,
        };
        self.0.storage.add_key(&key, &self.mac(parts.secret.expose())).await?;
        tracing::info!(target: "audit", key = %key.id, user = %key.user, "API key created");
        Ok((key, text))
    }

    /// Every key, revoked ones too, oldest first.
    pub async fn list_keys(&self) -> Result<Vec<ApiKey>, Error> {
        Ok(self.0.storage.list_keys().await?)
    }

    /// Revokes a key and with it its grants, tokens, streams and browser sessions. False where no live key has this id.
    pub async fn revoke_key(&self, key: &KeyId) -> Result<bool, Error> {
        let done = self.0.storage.revoke_key(key, self.0.clock.now()).await?;
        tracing::info!(target: "audit", %key, done, "API key revoked");
        self.sync().await?;
        Ok(done)
    }

    /// Whether the key may still be used: browser sessions that came from it end with it (`OA-128`).
    pub async fn key_is_live(&self, key: &KeyId) -> Result<bool, Error> {
        Ok(self.key_holder(key).await?.is_some())
    }

    /// The holder of a live key by its id, for a browser session that was opened with it; `None` where it ended.
    pub async fn key_holder(&self, key: &KeyId) -> Result<Option<KeyHolder>, Error> {
        let found = self.0.storage.lookup_key(key).await?;
        let live = found.map(|(key, _)| key).filter(|key| key.is_live(self.0.clock.now()));
        Ok(live.map(KeyHolder::from))
    }

    /// Makes the operator's first key (user `owner`, every backend and administration) when there was never any.
    pub async fn first_key(&self) -> Result<Option<Secret>, Error> {
        if self.0.storage.count_keys().await? > 0 {
            return Ok(None);
        }
        let new = NewKey {
            name: "first key".to_owned(),
            user: Some(UserId::owner()),
            rights: Rights { admin: true, ..Rights::all_backends() },
            direct: Direct::Refused,
            expires: None,
        };
        Ok(Some(self.create_key(new).await?.1))
    }

    /// The end of a key, for those who need it beside its holder.
    pub(super) async fn key_ends(&self, key: &KeyId) -> Result<Option<Timestamp>, Error> {
        Ok(self.0.storage.lookup_key(key).await?.and_then(|(key, _)| key.ends()))
    }

    /// The end of what is granted with a key: where the key is rotated, its grants go on with the new one.
    pub(super) async fn key_expires(&self, key: &KeyId) -> Result<Option<Timestamp>, Error> {
        Ok(self.0.storage.lookup_key(key).await?.and_then(|(key, _)| key.expires))
    }

    /// HMAC-SHA-256 under the pepper: what the store holds of a key.
    pub(super) fn mac(&self, secret: &str) -> Digest {
        use hmac::{KeyInit as _, Mac as _};
        // a key of any length is accepted (RFC 2104 2), so that this cannot fail
        let mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(&self.0.pepper).map(|mac| mac.chain_update(secret));
        let bytes = mac.map(|mac| mac.finalize().into_bytes().to_vec()).unwrap_or_default();
        Digest::from_slice(&bytes).unwrap_or_else(|| Digest::sha256(self.0.random.bytes::<32>()))
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

impl Default for KeyLimits {
    fn default() -> Self {
        Self { networks: Buckets::new(10, Duration::from_secs(90)), ids: Buckets::new(5, Duration::from_secs(30)) }
    }
}
