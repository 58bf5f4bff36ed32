//! An authorization request on its way to a decision (`OA-68`): sealed in a form until somebody logs in, a row from then
//! on. Knows nothing of HTML, cookies and CSRF tokens.
//!
//! Before the login nothing is stored, so strangers can fill nothing. A sealed request opens only for the browser that it
//! was sealed for; opening it consumes nothing, since a decision needs the row.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{
    Browser, Login, Redirect, Refusal, TransactionId,
    request::{AuthorizationRequest, MAX_REQUEST},
};
use crate::{
    oauth::{Error, KeyHolder, OAuth},
    storage::TransactionRow,
    support::Timestamp,
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

impl OAuth {
    /// The request as text for the form of a login page. It opens only for this browser, and until it expires. At most
    /// 7 KiB of base64url, so that it fits the form (`OA-30`).
    pub fn seal(&self, transaction: &Transaction, browser: &Browser) -> Result<String, Error> {
        let sealed = self.0.transactions.seal(&transaction.to_bytes()?, &browser.context(), &*self.0.random)?;
        Ok(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Opens what [`Self::seal`] returned, and checks the client and the redirect URI against the store again.
    pub async fn unseal(&self, sealed: &str, browser: &Browser) -> Result<Transaction, Unusable> {
        let bytes = Some(sealed).filter(|sealed| sealed.len() <= MAX_SEALED);
        let bytes = bytes.and_then(|sealed| URL_SAFE_NO_PAD.decode(sealed).ok()).ok_or(Unusable::Foreign)?;
        let plain = self.0.transactions.open(&bytes, &browser.context()).map_err(|_| Unusable::Foreign)?;
        let (id, expires, request) = Transaction::parts(&plain).ok_or(Unusable::Foreign)?;
        if self.0.clock.now() >= expires {
            return Err(Unusable::Expired);
        }
        let (client, _) =
            self.find_target(request.client.as_str(), Some(&request.redirect_uri)).await.map_err(Unusable::Refused)?;
        Ok(Transaction { id, client_name: client.name, login: request.login, expires, request })
    }

    /// Stores the request for the user who has logged in for it, bound to the browser session. A request that the same
    /// user has not decided yet moves to this browser session.
    pub async fn keep(&self, transaction: &Transaction, browser: &Browser, holder: &KeyHolder) -> Result<Kept, Error> {
        if transaction.request.resolve(self.settings()).is_none() {
            return Ok(Kept::Refused(transaction.request.unknown_target().redirect(self.settings())));
        }
        let row = TransactionRow {
            id: transaction.id.digest(),
            browser: browser.0,
            user: holder.user.clone(),
            request: transaction.request.to_text()?,
            expires: transaction.expires,
        };
        Ok(if self.0.storage.add_transaction(&row).await? { Kept::Waiting } else { Kept::Spent })
    }

    /// The person refuses without a login: the client is told `access_denied`. Nothing is stored.
    pub fn decline(&self, transaction: &Transaction) -> Redirect {
        tracing::info!(target: "audit", client = %transaction.request.client, "authorization denied without a login");
        transaction.request.deny().redirect(self.settings())
    }
}

// === impl Transaction ===

impl Transaction {
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

// === impl Browser ===

impl Browser {
    fn context(&self) -> String {
        format!("authorization request {}", self.0.to_base64url())
    }
}
