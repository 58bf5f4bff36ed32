//! What the operator decides about authorization. Knows nothing of files' syntax.

use std::path::PathBuf;

use crate::{
    model::{AuthPolicy, BackendId},
    support::Secret,
};

/// What the operator decides about authorization. [`Settings::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The public URL without trailing slash: the issuer, and what every other URL begins with (`OA-137`).
    pub issuer: String,
    /// The rules.
    pub policy: AuthPolicy,
    /// The backends that exist.
    pub backends: Vec<BackendId>,
    /// Where the key is that the signing keys are encrypted under.
    pub master_key: MasterKeySource,
}

/// Where the 256-bit key is that secrets in the database are encrypted under.
#[derive(Debug, Clone)]
pub enum MasterKeySource {
    /// In this file, beside the database; created with mode 0600 where it does not exist.
    File(PathBuf),
    /// Given: 32 bytes in base64url without padding.
    Given(Secret),
    /// Nowhere: a new one at each start. For databases in memory.
    Ephemeral,
}

impl Settings {
    /// The defaults, for the gateway at `issuer` (a trailing slash is taken off).
    pub fn new(issuer: impl Into<String>) -> Self {
        let mut issuer = issuer.into();
        issuer.truncate(issuer.trim_end_matches('/').len());
        Self { issuer, policy: AuthPolicy::default(), backends: Vec::new(), master_key: MasterKeySource::Ephemeral }
    }
}
