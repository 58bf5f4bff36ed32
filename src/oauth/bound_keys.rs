//! Refuses keys that are bound to networks where any machine in a private network can act as the gateway's proxy: such
//! a machine could claim any address.

use super::{api_keys::Keys, error::OAuthError};
use crate::model::AllowedNetworks;

/// Name of the stored value that marks a gateway trusting private networks.
const PRIVATE_PROXIES: &str = "notice: private proxies";

impl Keys {
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
    /// present configuration.
    pub(super) async fn may_be_bound(&self, networks: &AllowedNetworks) -> Result<(), OAuthError> {
        if networks.listed().is_none() {
            return Ok(());
        }
        let running = self.deps.storage.gateway_values().lookup(PRIVATE_PROXIES).await?;
        let is_refused = self.deps.settings.private_proxies || running.is_some();
        if is_refused { Err(OAuthError::NetworksBehindPrivateProxies) } else { Ok(()) }
    }
}
