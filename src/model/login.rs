//! OpenID providers where people log in, as configured (`UP-12` to `UP-14`).

use std::{str::FromStr as _, time::Duration};

use jsonwebtoken::Algorithm;

use super::{Rights, config_key::config_keys};
use crate::support::Secret;

/// Time between two checks of a login that is bound to its provider.
const BOUND_EVERY: Duration = Duration::from_mins(5);
/// Shortest and longest time between two checks of any other login.
const SOONEST: Duration = Duration::from_secs(15);
const LATEST: Duration = Duration::from_hours(12);

config_keys! {
    /// One provider.
    pub struct LoginProvider, taken at restart, made of (
        /// Name in the configuration and in its URLs: `[a-z][a-z0-9-]{0,31}`.
        name: String,
        /// Issuer, byte for byte as the provider writes it.
        issuer: String,
        /// Id of the gateway there.
        client_id: String,
        /// People who may log in, and their rights: the rights of all rules that fit a person add up.
        rules: Vec<LoginRule>,
        /// Further parameters of the authorization request.
        authorize_params: Vec<(String, String)>,
    ) {
        /// Its secret there, preferably as `${file:PATH}` or `${VAR}`. Without it the gateway is a public client.
        client_secret: Option<Secret> = optional_text("${CORP_SECRET}", secret);
        /// The name on the button of the login page, up to 60 characters.
        label: String = derived_text(name.clone(), "the name", "Example Corp", label);
        /// Requested scopes; `openid` is always included.
        ///
        /// With `session = "bound"` the default also has `offline_access`.
        scopes: Vec<String> = texts(
            "openid" => "openid".to_owned(),
            "email" => "email".to_owned(),
            "profile" => "profile".to_owned();
            scope
        );
        /// Accepted signature algorithms, out of `RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `ES256`,
        /// `ES384`, `EdDSA`.
        algorithms: Vec<Algorithm> = texts("RS256" => Algorithm::RS256, "ES256" => Algorithm::ES256; algorithm);
        /// The claim with a person's groups, as a list or a text.
        groups_claim: String = text("groups", nonempty);
        /// With `"bound"`, the gateway asks the provider every 5 minutes, with a refresh token, whether the login is
        /// still valid; if not, its grants end.
        session: LoginSession = choice(
            "independent" => LoginSession::Independent,
            "bound" => LoginSession::Bound,
        );
        /// An account's apps end this long after the provider last confirmed the account: by any login of the person
        /// here, or by its answer to a refresh token, if it issues one.
        ///
        /// See [login](login.md#when-a-login-ends).
        trust: Duration = duration(7 d, 1 m to 365 d);
        /// If clients that the operator registered for it (`lockkeeper clients create --identity-assertions`) may
        /// present identity assertions of this provider (ID-JAG) in place of people's logins.
        ///
        /// See [login](login.md#apps-that-the-provider-lets-in).
        identity_assertions: IdentityAssertions = flag(
            false => IdentityAssertions::Refused,
            true => IdentityAssertions::Accepted
        );
    }
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
    /// Everyone who can log in there.
    Everybody,
    /// People named in one of the lists.
    Listed {
        /// Domains of verified email addresses, in lower case.
        domains: Vec<String>,
        /// Groups of the provider.
        groups: Vec<String>,
        subjects: Vec<String>,
    },
}

/// Whether clients may present identity assertions of a provider in place of a login (ID-JAG; `UP-15`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityAssertions {
    Refused,
    /// Assertions of clients that the operator registered for it are accepted.
    Accepted,
}

/// Dependence of a login on the provider's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginSession {
    /// On nothing at the provider, until it reports a logout.
    Independent,
    /// On the provider: the gateway keeps asking it, with a refresh token.
    Bound,
}

// === impl LoginProvider ===

impl LoginProvider {
    /// Time between two checks whether the provider confirms an account.
    pub fn asked_every(&self) -> Duration {
        match self.session {
            LoginSession::Bound => BOUND_EVERY,
            LoginSession::Independent => (self.trust / 4).clamp(SOONEST, LATEST),
        }
    }

    /// True if a refresh token with this life is useful: one that ends before the next check says nothing about the
    /// person.
    pub fn keeps_token_of(&self, life: Option<Duration>) -> bool {
        self.session == LoginSession::Bound || life.is_none_or(|life| life > 2 * self.asked_every())
    }
}

/// Parses a text that is not empty.
///
/// # Errors
///
/// The reason, for people.
pub(crate) fn nonempty(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("this is empty".to_owned()) } else { Ok(text.to_owned()) }
}

fn secret(text: &str) -> Result<Secret, String> {
    nonempty(text).map(Secret::new)
}

fn label(text: &str) -> Result<String, String> {
    let fits = (1..=60).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    if fits { Ok(text.to_owned()) } else { Err("a label has 1 to 60 characters".to_owned()) }
}

/// A scope token (RFC 6749 3.3).
fn scope(text: &str) -> Result<String, String> {
    let fits = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    if !text.is_empty() && text.bytes().all(fits) {
        Ok(text.to_owned())
    } else {
        Err("this is not a scope: a scope has no spaces and quotes".to_owned())
    }
}

/// A signature that only the provider can make: the gateway's own secret is not a key.
fn algorithm(text: &str) -> Result<Algorithm, String> {
    let known = Algorithm::from_str(text).ok();
    let is_asymmetric =
        |algorithm: &Algorithm| !matches!(algorithm, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512);
    known.filter(is_asymmetric).ok_or_else(|| {
        "this must be one of `RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `ES256`, `ES384`, `EdDSA`".to_owned()
    })
}
