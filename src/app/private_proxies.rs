//! `trusted_proxies = "private"` excludes API keys that are bound to networks: any machine in a private network could
//! claim any client address.

use std::fmt;

use crate::{
    config::{Config, DatabasePlace},
    model::{ApiKey, TrustedProxies},
    oauth::OAuth,
    storage::{Storage, StorageError},
    support::Timestamp,
};

/// Number of keys named in a message; the others are counted.
const NAMED: usize = 10;

/// Keys that are bound to networks, as id and name; at least one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct RestrictedKeys(Vec<String>);

/// Refuses to trust private networks while a key is bound to networks. If it agrees, no such keys can be created while
/// this gateway runs, even if its file changes.
pub(super) async fn agree(proxies: &TrustedProxies, oauth: &OAuth, now: Timestamp) -> anyhow::Result<()> {
    // before the keys are read, so that none is created in between
    oauth.keys().refuse_networks(proxies.trusts_private()).await?;
    if !proxies.trusts_private() {
        return Ok(());
    }
    let Some(keys) = RestrictedKeys::among(oauth.keys().list().await?, now) else { return Ok(()) };
    oauth.keys().refuse_networks(false).await?;
    Err(keys.into())
}

/// The keys that prevent a start with this configuration. Changes nothing in the database, whose schema may be older.
/// `None` also if there is no database yet.
pub async fn look(config: &Config, now: Timestamp) -> Result<Option<RestrictedKeys>, StorageError> {
    let is_missing = matches!(&config.database, DatabasePlace::File(path) if !path.exists());
    if is_missing || !config.http.trusted_proxies.trusts_private() {
        return Ok(None);
    }
    let storage = match &config.database {
        DatabasePlace::File(path) => Storage::open_as_is(path).await?,
        DatabasePlace::Server(url) => Storage::connect_as_is(url.expose()).await?,
    };
    let keys = storage.keys().list().await;
    storage.close().await;
    Ok(RestrictedKeys::among(keys?, now))
}

// === impl RestrictedKeys ===

impl RestrictedKeys {
    /// The keys that are bound to networks and have not expired or been revoked; `None` if there are none. Disabled
    /// keys count, since they can be enabled again.
    pub fn among(keys: Vec<ApiKey>, now: Timestamp) -> Option<Self> {
        let is_bound = |key: &ApiKey| key.networks.listed().is_some() && key.revoked.is_none();
        let bound = keys.into_iter().filter(|key| is_bound(key) && key.ends().is_none_or(|end| now < end));
        let named: Vec<String> = bound.map(|key| format!("{} ({})", key.id, key.name)).collect();
        (!named.is_empty()).then_some(Self(named))
    }
}

impl fmt::Display for RestrictedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(keys) = self;
        let shown = keys.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        let others = keys.len().saturating_sub(NAMED);
        write!(
            f,
            "`trusted_proxies` is \"private\", so anyone in a private network can claim any address, and these keys \
             are bound to networks: {shown}"
        )?;
        if others > 0 { write!(f, " and {others} more") } else { Ok(()) }
    }
}
