//! Login through OpenID providers (OpenID Connect Core 1.0, Back-Channel Logout 1.0). Knows nothing of pages, of accounts
//! and of the store.
//!
//! [`Providers::begin`] sends a browser to a provider, [`Providers::finish`] makes a verified [`Person`] of what comes
//! back, and [`Providers::logout`] one of a provider's report. [`Providers::assertion_verifier`] verifies what a client brings in place
//! of a login. Nothing is stored in between: what a login needs when
//! the browser returns is sealed into its cookie.

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
