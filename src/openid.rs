//! Login through OpenID providers (OpenID Connect Core 1.0, Back-Channel Logout 1.0).
//!
//! [`Providers::begin`] sends a browser to a provider, [`Providers::finish`] turns the response into a verified
//! [`Person`], and [`Providers::logout`] does so with a provider's report. [`Providers::assertion_verifier`] verifies
//! an assertion that replaces a login. Nothing is stored in between: the state of a login is sealed into its browser's
//! cookie.

mod assertion_checks;
mod dependencies;
mod discovery;
pub mod error;
mod exchange;
pub mod pending_login;
pub mod person;
mod provider;
mod provider_keys;
pub mod providers;
pub(crate) mod signed_token;
mod token_checks;

pub use self::{
    dependencies::OpenIdDeps,
    error::{OpenIdError, TokenProblem},
    pending_login::{LoginAnswer, ProviderPrompt},
    person::{ClaimDoubts, Logout, Person, RenewedClaims},
    providers::{FinishedLogin, LoginStart, Providers, Renewal},
};
