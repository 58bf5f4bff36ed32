//! API keys: made, presented, revoked (`OA-125` to `OA-128`). Knows nothing of pages and tokens.

use std::{net::IpAddr, time::Duration};

use super::{Error, OAuth};
use crate::{
    model::{ApiKey, Direct, KeyId, NewKey, Rights, UserId},
    support::Secret,
};

/// Who stands behind an API key that was presented and is good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyHolder {
    /// The key.
    pub key: KeyId,
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

impl OAuth {
    /// Checks a presented API key. Failures are counted by `from` and by the key's id; every refusal takes the same
    /// path.
    pub async fn authenticate_key(&self, presented: &str, from: IpAddr) -> Result<KeyHolder, KeyRefusal> {
        let _ = (presented, from);
        Err(KeyRefusal::Unknown)
    }

    /// Makes a key and, where it is new, its user. The secret is shown here and never again.
    pub async fn create_key(&self, new: NewKey) -> Result<(ApiKey, Secret), Error> {
        let _ = new;
        Err(Error::Unfinished)
    }

    /// Every key, revoked ones too, oldest first.
    pub async fn list_keys(&self) -> Result<Vec<ApiKey>, Error> {
        Err(Error::Unfinished)
    }

    /// Revokes a key and with it its grants, tokens, streams and browser sessions. False where no live key has this id.
    pub async fn revoke_key(&self, key: &KeyId) -> Result<bool, Error> {
        let _ = key;
        Err(Error::Unfinished)
    }

    /// Whether the key may still be used: browser sessions that came from it end with it (`OA-128`).
    pub async fn key_is_live(&self, key: &KeyId) -> Result<bool, Error> {
        let _ = key;
        Err(Error::Unfinished)
    }

    /// The holder of a live key by its id, for a browser session that was opened with it; `None` where it ended.
    pub async fn key_holder(&self, key: &KeyId) -> Result<Option<KeyHolder>, Error> {
        let _ = key;
        Err(Error::Unfinished)
    }

    /// Makes the operator's first key (user `owner`, every backend and administration) when there was never any.
    pub async fn first_key(&self) -> Result<Option<Secret>, Error> {
        Err(Error::Unfinished)
    }
}
