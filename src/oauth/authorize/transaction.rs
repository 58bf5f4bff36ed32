//! An authorization request until its decision (`OA-68`): sealed in a form until the login, then a row.
//!
//! Before the login nothing is stored, so unauthenticated clients cannot fill the database. A sealed request opens only
//! in the browser that it was sealed for. Opening it consumes nothing, since a decision needs the row.

use super::{
    authorization_request::{self, AuthorizationRequest, MAX_REQUEST},
    browser::{Browser, LoginPrompt, TransactionId},
    response::{AuthorizationError, Redirect},
};
use crate::{
    oauth::{accounts::api_keys::KeyHolder, clients::client_lookup, dependencies::OAuthDeps, error::OAuthError},
    storage::TransactionRow,
    support::{SealingKey, Timestamp},
};

/// Maximum length of a sealed request, in characters: [`MAX_REQUEST`] bytes in base64, and a margin.
pub(super) const MAX_SEALED: usize = MAX_REQUEST / 3 * 4 + 256;

/// A valid, undecided authorization request.
#[derive(Debug)]
pub struct Transaction {
    /// Id: 256 random bits. It stays the same from the request to the decision.
    pub id: TransactionId,
    /// Name claimed by the client.
    pub client_name: String,
    /// Login that the request needs (`OA-77`).
    pub login: LoginPrompt,
    /// True if the person must choose an account, so that a session is not enough.
    pub chooses: bool,
    pub(super) expires: Timestamp,
    pub(super) request: AuthorizationRequest,
}

/// Outcome of storing a request after the login.
#[derive(Debug)]
pub enum StoreOutcome {
    /// It waits for the user's decision.
    Waiting,
    /// It names a missing backend. After the login, the client may learn that (`OA-6`).
    Refused(Redirect),
    /// It is already decided, or another user logged in for it.
    Spent,
}

/// Reason why a sealed request cannot be opened.
#[derive(Debug)]
pub enum UnsealError {
    /// Forged, changed, or sealed for another browser.
    Foreign,
    Expired,
    /// The client or redirect URI is no longer registered, or the store failed.
    Refused(AuthorizationError),
}

/// Seals requests for the form of a login page.
pub(super) struct TransactionSealer {
    deps: OAuthDeps,
    key: SealingKey,
}

// === impl TransactionSealer ===

impl TransactionSealer {
    pub(super) const fn new(deps: OAuthDeps, key: SealingKey) -> Self {
        Self { deps, key }
    }

    /// Seals a request for this browser.
    pub(super) fn seal(&self, transaction: &Transaction, browser: &Browser) -> Result<String, OAuthError> {
        Ok(self.key.seal_text(&transaction.to_bytes()?, context(browser).as_bytes(), &*self.deps.random)?)
    }

    /// Opens a request sealed by [`Self::seal`], and checks the client and the redirect URI against the store again.
    pub(super) async fn unseal(&self, sealed: &str, browser: &Browser) -> Result<Transaction, UnsealError> {
        let sealed = Some(sealed).filter(|sealed| sealed.len() <= MAX_SEALED).ok_or(UnsealError::Foreign)?;
        let plain = self.key.open_text(sealed, context(browser).as_bytes()).map_err(|_| UnsealError::Foreign)?;
        let (id, expires, request) = Transaction::parts(&plain).ok_or(UnsealError::Foreign)?;
        if self.deps.now() >= expires {
            return Err(UnsealError::Expired);
        }
        let client = client_lookup::of_waiting(&self.deps, &request.client).await;
        let client = client.map_err(|refusal| UnsealError::Refused(refusal.into()))?;
        if !request.is_about(&client) {
            return Err(UnsealError::Refused(AuthorizationError::changed_client().logged(&self.deps.audit)));
        }
        authorization_request::find_target(&client, Some(&request.redirect_uri)).map_err(UnsealError::Refused)?;
        let (login, chooses) = (request.login, request.chooses);
        Ok(Transaction { id, client_name: client.name, login, chooses, expires, request })
    }
}

fn context(browser: &Browser) -> String {
    format!("authorization request {}", browser.0.to_base64url())
}

// === impl Transaction ===

impl Transaction {
    /// The row to store after this person has logged in.
    pub(super) fn row(&self, browser: &Browser, holder: &KeyHolder) -> Result<TransactionRow, OAuthError> {
        Ok(TransactionRow {
            id: self.id.digest(),
            browser: browser.0,
            user: holder.user.clone(),
            request: self.request.to_text()?,
            expires: self.expires,
        })
    }

    /// Serialized form: expiry in milliseconds (8 bytes), id (43 bytes), request.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, OAuthError> {
        let expires = self.expires.as_millis().to_be_bytes();
        Ok([expires.as_slice(), self.id.as_str().as_bytes(), self.request.to_text()?.as_bytes()].concat())
    }

    pub(super) fn parts(bytes: &[u8]) -> Option<(TransactionId, Timestamp, AuthorizationRequest)> {
        let (expires, rest) = bytes.split_first_chunk::<8>()?;
        let (id, request) = rest.split_at_checked(TransactionId::LENGTH)?;
        let id = TransactionId::parse(str::from_utf8(id).ok()?)?;
        let request = AuthorizationRequest::from_text(str::from_utf8(request).ok()?).ok()?;
        Some((id, Timestamp::from_millis(i64::from_be_bytes(*expires)), request))
    }
}
