//! Dependencies of the logins.

use std::sync::Arc;

use crate::{
    fetch::Fetcher,
    support::{Clock, Random, SealingKey},
};

/// Dependencies of the logins.
pub struct OpenIdDeps {
    /// Sends the requests to the providers.
    pub fetcher: Fetcher,
    pub clock: Arc<dyn Clock>,
    /// Source of states, nonces and verifiers.
    pub random: Arc<dyn Random>,
    /// Seals logins in progress.
    pub key: SealingKey,
    /// The public URL of the gateway, without a trailing slash.
    pub root: String,
}
