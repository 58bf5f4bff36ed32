//! Warning about API keys that share a user, from the time when that was the default.

use crate::oauth::{OAuth, OAuthError};

/// Logs once which API keys share a user.
pub(super) async fn tell(oauth: &OAuth) -> Result<(), OAuthError> {
    for (user, keys) in oauth.keys().take_shared_users().await? {
        tracing::warn!(%user, keys, "{keys} API keys share the user `{user}`, as keys did that were created without --user: \
            their holders share sessions, processes and quotas, and see each other's connected apps as far as their \
            rights reach. Existing keys stay that way; new keys created without --user are users of their own. \
            To separate a key from the others: lockkeeper keys rotate ID --own-user (lockkeeper keys list shows the ids)");
    }
    Ok(())
}
