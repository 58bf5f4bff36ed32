//! Identity assertions of login providers, brought by clients (ID-JAG), as values, and their verifier.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;

use super::{ClientId, KeyAccount, Rights};
use crate::support::{Secret, Timestamp};

/// A verified assertion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityAssertion {
    /// The person.
    pub account: AssertedAccount,
    /// Its id, which its issuer gives once.
    pub id: String,
    /// It is no longer accepted after this.
    pub expires: Timestamp,
    /// The resource it is limited to, if any.
    pub resource: Option<String>,
    /// The scopes it is limited to, separated by spaces, if any.
    pub scope: Option<String>,
}

/// The account that an assertion speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssertedAccount {
    /// The account.
    pub account: KeyAccount,
    /// Name for people.
    pub name: String,
    /// Email address, if the provider has verified it.
    pub email: Option<String>,
    /// Its rights.
    pub rights: AssertedRights,
}

/// Rights of a person, as far as a provider's claims tell; `None` if no rule lets the person in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AssertedRights {
    /// They have all that the rules ask for: these are the rights from now on.
    Known(Option<Rights>),
    /// They lack a claim that a rule asks for: a logged-in person keeps the rights of that login.
    Partial(Option<Rights>),
}

impl AssertedRights {
    /// The same where a claim that is missing means that there is nothing to say, as at a login.
    #[must_use]
    pub fn complete(self) -> Self {
        let (Self::Known(rights) | Self::Partial(rights)) = self;
        Self::Known(rights)
    }
}

/// Verifies assertions.
#[derive(Clone)]
pub struct AssertionVerifier(Arc<Verify>);

/// The error is the reason, for the log.
type Verify = dyn Fn(Secret, ClientId) -> BoxFuture<'static, Result<IdentityAssertion, String>> + Send + Sync;

// === impl AssertionVerifier ===

impl AssertionVerifier {
    /// Verifies by `verify`.
    pub fn new(
        verify: impl Fn(Secret, ClientId) -> BoxFuture<'static, Result<IdentityAssertion, String>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(verify))
    }

    /// Verifies an assertion that this authenticated client brings. The error is the reason, for the log.
    pub async fn verify(&self, assertion: Secret, client: &ClientId) -> Result<IdentityAssertion, String> {
        (self.0)(assertion, client.clone()).await
    }
}

impl fmt::Debug for AssertionVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AssertionVerifier")
    }
}
