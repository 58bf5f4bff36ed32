//! OpenID providers at which people log in, as configured (`UP-12` to `UP-14`). Knows nothing of their documents.

use jsonwebtoken::Algorithm;

use super::Rights;
use crate::support::Secret;

/// One provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginProvider {
    /// Name in the configuration and in its URLs: `[a-z][a-z0-9-]{0,31}`.
    pub name: String,
    /// Issuer, byte for byte as the provider writes it.
    pub issuer: String,
    /// Id of the gateway there.
    pub client_id: String,
    /// Secret of the gateway there; a public client has none.
    pub client_secret: Option<Secret>,
    /// Name for people.
    pub label: String,
    /// Requested scopes, `openid` among them.
    pub scopes: Vec<String>,
    /// Accepted algorithms of signatures; all are asymmetric.
    pub algorithms: Vec<Algorithm>,
    /// Claim with the groups of a person.
    pub groups_claim: String,
    /// People who may come, and their rights: the rights of all rules that fit a person add up.
    pub rules: Vec<LoginRule>,
    /// Duration of a login.
    pub session: LoginSession,
    /// Whether clients may bring its identity assertions.
    pub identity_assertions: IdentityAssertions,
}

/// Rights of the people whom a rule fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginRule {
    /// People whom the rule fits.
    pub people: People,
    /// Their rights.
    pub rights: Rights,
}

/// Some people of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum People {
    /// Everybody who can log in there.
    Everybody,
    /// Those whom one of the lists names.
    Listed {
        /// Domains of verified email addresses, in lower case.
        domains: Vec<String>,
        /// Groups of the provider.
        groups: Vec<String>,
        /// Subjects (`sub`).
        subjects: Vec<String>,
    },
}

/// Whether clients may bring identity assertions of a provider in place of a login (ID-JAG; `UP-15`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityAssertions {
    /// They are refused.
    Refused,
    /// Those of clients that the operator registered for it are accepted.
    Accepted,
}

/// Dependence of a login on the provider's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginSession {
    /// On nothing at the provider, until it reports a logout.
    Independent,
    /// On the provider: it is asked again and again, by a refresh token.
    Bound,
}
