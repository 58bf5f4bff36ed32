//! An authorization request on its way to a decision (`OA-68`): sealed in a form until somebody logs in, a row from then
//! on. Knows nothing of HTML, cookies and CSRF tokens.
//!
//! Before the login nothing is stored, so strangers can fill nothing. A sealed request opens only for the browser that it
//! was sealed for; opening it consumes nothing, since a decision needs the row.

use super::{
    answer::{Redirect, Refusal},
    browser::{Browser, Login, TransactionId},
    request::{self, AuthorizationRequest, MAX_REQUEST},
};
use crate::{
    oauth::{core::Core, error::Error, keys::KeyHolder},
    storage::TransactionRow,
    support::{SealingKey, Timestamp},
};

/// The longest sealed request that is looked at, in characters: what [`MAX_REQUEST`] bytes become, with room to spare.
const MAX_SEALED: usize = MAX_REQUEST / 3 * 4 + 256;

/// A valid authorization request that nobody has decided yet.
#[derive(Debug)]
pub struct Transaction {
    /// Its id: 256 random bits. It stays the same from the request to the decision.
    pub id: TransactionId,
    /// What the client calls itself.
    pub client_name: String,
    /// Whether the person must log in although a session is live (`OA-77`).
    pub login: Login,
    /// When it expires.
    pub(super) expires: Timestamp,
    pub(super) request: AuthorizationRequest,
}

/// What became of a request after the login.
#[derive(Debug)]
pub enum Kept {
    /// It waits for the decision of the user.
    Waiting,
    /// It names a backend that does not exist, which the client may learn now (`OA-6`).
    Refused(Redirect),
    /// It was decided before, or somebody else logged in for it.
    Spent,
}

/// Why a sealed request is of no use.
#[derive(Debug)]
pub enum Unusable {
    /// It was made up, changed, or sealed for another browser.
    Foreign,
    /// Its time is over.
    Expired,
    /// Its client or redirect URI is no longer registered, or the store failed.
    Refused(Refusal),
}

/// Seals requests for the form of a login page.
pub(super) struct Sealer {
    core: Core,
    key: SealingKey,
}

// === impl Sealer ===

impl Sealer {
    pub(super) const fn new(core: Core, key: SealingKey) -> Self {
        Self { core, key }
    }

    /// The request as text, for this browser alone.
    pub(super) fn seal(&self, transaction: &Transaction, browser: &Browser) -> Result<String, Error> {
        Ok(self.key.seal_text(&transaction.to_bytes()?, context(browser).as_bytes(), &*self.core.random)?)
    }

    /// Opens what [`Self::seal`] returned, and checks the client and the redirect URI against the store again.
    pub(super) async fn unseal(&self, sealed: &str, browser: &Browser) -> Result<Transaction, Unusable> {
        let sealed = Some(sealed).filter(|sealed| sealed.len() <= MAX_SEALED).ok_or(Unusable::Foreign)?;
        let plain = self.key.open_text(sealed, context(browser).as_bytes()).map_err(|_| Unusable::Foreign)?;
        let (id, expires, request) = Transaction::parts(&plain).ok_or(Unusable::Foreign)?;
        if self.core.now() >= expires {
            return Err(Unusable::Expired);
        }
        let (client, _) = request::find_target(&self.core, request.client.as_str(), Some(&request.redirect_uri))
            .await
            .map_err(Unusable::Refused)?;
        Ok(Transaction { id, client_name: client.name, login: request.login, expires, request })
    }
}

fn context(browser: &Browser) -> String {
    format!("authorization request {}", browser.0.to_base64url())
}

// === impl Transaction ===

impl Transaction {
    /// What the store holds of it once this person has logged in for it.
    pub(super) fn row(&self, browser: &Browser, holder: &KeyHolder) -> Result<TransactionRow, Error> {
        Ok(TransactionRow {
            id: self.id.digest(),
            browser: browser.0,
            user: holder.user.clone(),
            request: self.request.to_text()?,
            expires: self.expires,
        })
    }

    /// The moment of expiry in milliseconds (8 bytes), the id (43 bytes), the request.
    fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let expires = self.expires.as_millis().to_be_bytes();
        Ok([expires.as_slice(), self.id.as_str().as_bytes(), self.request.to_text()?.as_bytes()].concat())
    }

    fn parts(bytes: &[u8]) -> Option<(TransactionId, Timestamp, AuthorizationRequest)> {
        let (expires, rest) = bytes.split_first_chunk::<8>()?;
        let (id, request) = rest.split_at_checked(TransactionId::LENGTH)?;
        let id = TransactionId::parse(str::from_utf8(id).ok()?)?;
        let request = AuthorizationRequest::from_text(str::from_utf8(request).ok()?).ok()?;
        Some((id, Timestamp::from_millis(i64::from_be_bytes(*expires)), request))
    }
}
