//! What the operator decides about authorization. Knows nothing of files' syntax.

use std::{path::PathBuf, time::Duration};

use crate::{model::BackendId, support::Secret};

/// What the operator decides about authorization. [`Settings::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The public URL without trailing slash: the issuer, and what every other URL begins with (`OA-137`).
    pub issuer: String,
    /// How long an access token lives: 1 h; 5 min to 24 h (`OA-95`).
    pub access_token_lifetime: Duration,
    /// How long a refresh token may lie unused: 30 d.
    pub refresh_idle: Duration,
    /// How long a grant lives however often it is refreshed: 180 d.
    pub refresh_absolute: Duration,
    /// How long a rotated refresh token still yields its successor to racing processes: 60 s, at most 300 s (`OA-90`).
    pub refresh_grace: Duration,
    /// How long an authorization code lives: 60 s, at most 10 min (`OA-78`).
    pub code_lifetime: Duration,
    /// How long a person may take over login and consent: 10 min (`OA-68`).
    pub transaction_lifetime: Duration,
    /// Custom schemes without a period that redirect URIs may have (`OA-58`).
    pub redirect_schemes: Vec<String>,
    /// Hosts of https redirect URIs that errors are sent to without asking the person (`OA-75`).
    pub trusted_redirect_hosts: Vec<String>,
    /// Whether strangers may learn which backends exist (`OA-6`).
    pub conceal_backends: ConcealBackends,
    /// Whether the metadata says that `iss` is sent (`OA-12`).
    pub advertise_iss: AdvertiseIss,
    /// Whether clients may register by themselves (RFC 7591).
    pub registration: Registration,
    /// The backends that exist.
    pub backends: Vec<BackendId>,
    /// Where the key is that the signing keys are encrypted under.
    pub master_key: MasterKeySource,
}

/// Whether strangers may learn which backends exist (`OA-6`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConcealBackends {
    /// Metadata and challenges look the same for every possible backend name.
    Yes,
    /// The metadata of a backend that does not exist is 404.
    No,
}

/// Whether the metadata says that `iss` is sent (RFC 9207); it is sent either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdvertiseIss {
    /// It does.
    Yes,
    /// It does not, for clients that discard `iss` and then miss it.
    No,
}

/// Whether clients may register by themselves (RFC 7591).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// Everybody may, within limits.
    Open,
    /// Nobody may.
    Off,
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
        let schemes = ["cursor", "vscode", "vscode-insiders", "windsurf", "zed", "claude", "goose", "kiro"];
        Self {
            issuer,
            access_token_lifetime: Duration::from_hours(1),
            refresh_idle: Duration::from_hours(30 * 24),
            refresh_absolute: Duration::from_hours(180 * 24),
            refresh_grace: Duration::from_mins(1),
            code_lifetime: Duration::from_mins(1),
            transaction_lifetime: Duration::from_mins(10),
            redirect_schemes: schemes.map(str::to_owned).to_vec(),
            trusted_redirect_hosts: Vec::new(),
            conceal_backends: ConcealBackends::Yes,
            advertise_iss: AdvertiseIss::Yes,
            registration: Registration::Open,
            backends: Vec::new(),
            master_key: MasterKeySource::Ephemeral,
        }
    }
}
