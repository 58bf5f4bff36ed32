//! Identity assertions of login providers, brought by clients (ID-JAG), as values, and their verifier.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;

use super::{ClientId, KeyAccount, Rights};
use crate::support::{Secret, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityAssertion {
    pub account: AssertedAccount,
    /// Its id, never repeated by its issuer.
    pub id: String,
    /// It is no longer accepted after this.
    pub expires: Timestamp,
    /// The resource it is limited to, if any.
    pub resource: Option<String>,
    /// The scopes it is limited to, separated by spaces, if any.
    pub scope: Option<String>,
}

/// The account named by an assertion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssertedAccount {
    pub account: KeyAccount,
    pub name: String,
    /// Email address, if verified by the provider.
    pub email: Option<String>,
    pub rights: AssertedRights,
}

/// Rights of a person according to a provider's claims; `None` if no rule lets the person in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AssertedRights {
    /// They have everything that the rules ask for: these are the rights from now on.
    Known(Option<Rights>),
    /// They lack a claim that a rule asks for: a logged-in person keeps the rights of that login.
    Partial(Option<Rights>),
}

impl AssertedRights {
    /// The same, where a missing claim counts as empty, as at a login.
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
    /// Verifies with `verify`.
    pub fn new(
        verify: impl Fn(Secret, ClientId) -> BoxFuture<'static, Result<IdentityAssertion, String>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(verify))
    }

    /// Verifies an assertion that this authenticated client presents. The error is the reason, for the log.
    pub async fn verify(&self, assertion: Secret, client: &ClientId) -> Result<IdentityAssertion, String> {
        (self.0)(assertion, client.clone()).await
    }
}

impl fmt::Debug for AssertionVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AssertionVerifier")
    }
}
