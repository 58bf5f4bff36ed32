//! Choices of the operator that the configuration reads and other rooms act on. Knows nothing of files.

use std::time::Duration;

/// The names of tools and prompts on the merged endpoint (`translation` 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// `<backend>__<name>`.
    Prefixed,
    /// The backend's own, where there is exactly one backend: the gateway was started for it alone.
    Plain,
}

/// The use of an API key in the query of `/sse` and `/messages` (OA-124).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryKey {
    /// `?api_key=…` is as good as the header.
    Accepted,
    /// It is ignored, so the request has no credentials.
    Ignored,
}

/// The rules of the authorization server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthPolicy {
    /// `access_token_lifetime`: 5 minutes to 24 hours (OA-95).
    pub access_token_lifetime: Duration,
    /// `refresh_idle`: how long a grant lives without a refresh, 1 hour to 365 days.
    pub refresh_idle: Duration,
    /// `refresh_absolute`: how long a grant lives however often it is refreshed, 1 hour to 1,825 days.
    pub refresh_absolute: Duration,
    /// `refresh_grace`: how long a rotated refresh token still yields its successor to racing processes, 0 to 5 minutes
    /// (OA-90).
    pub refresh_grace: Duration,
    /// `code_lifetime`: how long an authorization code may be redeemed, 10 seconds to 10 minutes (OA-78).
    pub code_lifetime: Duration,
    /// `transaction_lifetime`: how long a person may take from the authorize page to consent, 1 minute to 1 hour (OA-68).
    pub transaction_lifetime: Duration,
    /// `redirect_schemes`: URI schemes of applications that clients may be answered at, beside the well-known ones and
    /// those with a period such as `com.example.app` (OA-58). Lower case.
    pub redirect_schemes: Vec<String>,
    /// `trusted_redirect_hosts`: hosts of https redirect URIs that errors are sent to without asking the person (OA-75).
    pub trusted_redirect_hosts: Vec<String>,
    /// `registration`: if clients may register by themselves.
    pub registration: Registration,
    /// `conceal_backends`: if strangers may learn which backends exist.
    pub conceal_backends: ConcealBackends,
    /// `advertise_iss`: if the metadata says that answers carry `iss`.
    pub advertise_iss: AdvertiseIss,
}

/// Registration of clients by themselves (RFC 7591).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// Everybody may register, within limits.
    Open,
    /// Nobody may.
    Off,
}

/// Secrecy of the backends' names towards strangers (OA-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConcealBackends {
    /// Metadata and challenges look the same for every possible backend name.
    Yes,
    /// The metadata of a backend that does not exist is 404.
    No,
}

/// The announcement of `iss` in the metadata (RFC 9207, OA-12); answers carry it either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdvertiseIss {
    /// The metadata says it.
    Yes,
    /// It does not, for clients that discard `iss` and then miss it.
    No,
}

impl Default for AuthPolicy {
    fn default() -> Self {
        Self {
            access_token_lifetime: Duration::from_hours(1),
            refresh_idle: Duration::from_hours(30 * 24),
            refresh_absolute: Duration::from_hours(180 * 24),
            refresh_grace: Duration::from_mins(1),
            code_lifetime: Duration::from_mins(1),
            transaction_lifetime: Duration::from_mins(10),
            redirect_schemes: Vec::new(),
            trusted_redirect_hosts: Vec::new(),
            registration: Registration::Open,
            conceal_backends: ConcealBackends::Yes,
            advertise_iss: AdvertiseIss::Yes,
        }
    }
}
