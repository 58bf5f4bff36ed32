//! Policy choices that the configuration reads and other modules apply. Knows nothing of files.

use std::time::Duration;

use super::{ClientDocumentPolicy, EgressPolicy};

/// Names of tools and prompts on the merged endpoint (`translation` 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// `<backend>__<name>`.
    Prefixed,
    /// The backend's own names, if the gateway was started for exactly one backend.
    Plain,
}

/// The use of an API key in the query of `/sse` and `/messages` (OA-124).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryKey {
    /// `?api_key=…` counts like the header.
    Accepted,
    /// The parameter is ignored, and the request has no credentials.
    Ignored,
}

/// Which gateways count a rate limit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimitScope {
    /// All on one PostgreSQL database.
    Shared,
    /// Each alone.
    Replica,
}

/// Policy of the authorization server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthPolicy {
    /// `access_token_lifetime`: 5 minutes to 24 hours (OA-95).
    pub access_token_lifetime: Duration,
    /// `refresh_idle`: life of a grant without a refresh, 1 hour to 365 days.
    pub refresh_idle: Duration,
    /// `refresh_absolute`: life of a grant, regardless of refreshes, 1 hour to 1,825 days.
    pub refresh_absolute: Duration,
    /// `refresh_grace`: time for which a rotated refresh token still yields its successor, for concurrent processes, 0
    /// to 5 minutes (OA-90).
    pub refresh_grace: Duration,
    /// `code_lifetime`: life of an authorization code, 10 seconds to 10 minutes (OA-78).
    pub code_lifetime: Duration,
    /// `transaction_lifetime`: time from the authorization request to the consent, 1 minute to 1 hour (OA-68).
    pub transaction_lifetime: Duration,
    /// `redirect_schemes`: private-use URI schemes allowed in redirect URIs, beside the well-known ones and those with
    /// a period such as `com.example.app` (OA-58). Lower case.
    pub redirect_schemes: Vec<String>,
    /// `trusted_redirect_hosts`: hosts of https redirect URIs that receive errors without a click (OA-75).
    pub trusted_redirect_hosts: Vec<String>,
    /// `registration`: dynamic client registration.
    pub registration: Registration,
    /// `audit_retention`: age at which rows of the audit trail are deleted, 7 to 3,650 days (OA-141).
    pub audit_retention: Duration,
    /// `rate_limits`: who counts together.
    pub rate_limits: RateLimitScope,
    /// `client_documents`: clients that name themselves by the URL of a metadata document.
    pub client_documents: ClientDocumentPolicy,
    /// `egress_proxy`, `egress_proxy_resolves`, `fake_ip_resolver`: the way to what clients, login providers and protected
    /// servers name (OA-47, OA-148).
    pub egress: EgressPolicy,
    /// `conceal_backends`: concealment of backend names from unauthenticated clients.
    pub conceal_backends: ConcealBackends,
    /// `advertise_iss`: announcement of `iss` in the metadata.
    pub advertise_iss: AdvertiseIss,
    /// `assertion_audience`: `aud` of client assertions.
    pub assertion_audience: AssertionAudience,
    /// `aud_parent_ok`: tokens for `/mcp` at the endpoints below it.
    pub parent_audience: ParentAudience,
}

/// Dynamic client registration (RFC 7591, OA-44).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registration {
    /// Open to everybody, within limits.
    Open,
    /// Open to clients that are answered at these hosts and schemes alone (`registration_hosts`).
    Listed(Vec<String>),
    /// Open to clients with an initial access token of the operator.
    ByToken,
    /// Off.
    Off,
}

/// Concealment of backend names from unauthenticated clients (OA-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConcealBackends {
    /// Metadata and challenges look the same for every possible backend name.
    Yes,
    /// The metadata of a backend that does not exist is 404.
    No,
}

/// Announcement of `iss` in the metadata (RFC 9207, OA-12); responses carry `iss` in both cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdvertiseIss {
    /// Announced.
    Yes,
    /// Not announced, for clients that drop `iss` and then miss it.
    No,
}

/// `aud` that client assertions may have (RFC 7523 3, OA-83).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssertionAudience {
    /// The issuer.
    Issuer,
    /// The issuer or the URL of the token endpoint, for clients that follow older texts.
    IssuerOrTokenEndpoint,
}

/// Access tokens for `/mcp` at `/mcp/{backend}` (OA-114).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParentAudience {
    /// Refused: a token opens its own endpoint alone.
    Refused,
    /// Accepted, for clients that get one token for several endpoints.
    Accepted,
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
            audit_retention: Duration::from_hours(400 * 24),
            rate_limits: RateLimitScope::Shared,
            redirect_schemes: Vec::new(),
            trusted_redirect_hosts: Vec::new(),
            registration: Registration::Open,
            client_documents: ClientDocumentPolicy::default(),
            egress: EgressPolicy::default(),
            conceal_backends: ConcealBackends::Yes,
            advertise_iss: AdvertiseIss::Yes,
            assertion_audience: AssertionAudience::Issuer,
            parent_audience: ParentAudience::Refused,
        }
    }
}
