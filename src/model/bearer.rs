//! Bearer token of one server: the current one, and how another is requested. Knows nothing of OAuth and of HTTP.

use std::{fmt, sync::Arc};

use arc_swap::ArcSwapOption;
use tokio::sync::{mpsc, oneshot};

use crate::support::Secret;

/// Requests for a token that wait at most; later ones wait for a place.
const WAITING: usize = 64;

/// Bearer token of one server (RFC 6750). Its clones share it.
#[derive(Clone)]
pub struct Bearer {
    current: Arc<ArcSwapOption<Secret>>,
    requests: mpsc::Sender<TokenRequest>,
}

/// The requests for a token, for its one provider.
pub type TokenRequests = mpsc::Receiver<TokenRequest>;

/// A request for a token that differs from the one that a server rejected.
#[derive(Debug)]
pub struct TokenRequest {
    /// The rejected token; `None` if the request carried none.
    pub rejected: Option<Arc<Secret>>,
    /// The `WWW-Authenticate` headers of the rejection.
    pub challenges: Vec<String>,
    answer: oneshot::Sender<Result<(), String>>,
}

// === impl Bearer ===

impl Bearer {
    /// A server without a token, and the requests for one.
    pub fn new() -> (Self, TokenRequests) {
        let (requests, receiver) = mpsc::channel(WAITING);
        (Self { current: Arc::default(), requests }, receiver)
    }

    /// The current token.
    pub fn current(&self) -> Option<Arc<Secret>> {
        self.current.load_full()
    }

    /// Replaces the token.
    pub fn set(&self, token: Secret) {
        self.current.store(Some(Arc::new(token)));
    }

    /// Waits until [`Bearer::current`] differs from the rejected token.
    ///
    /// # Errors
    ///
    /// The reason, if no other token can be had.
    pub async fn renew(&self, rejected: Option<Arc<Secret>>, challenges: Vec<String>) -> Result<(), String> {
        let (answer, answered) = oneshot::channel();
        let ended = || "the login has ended".to_owned();
        self.requests.send(TokenRequest { rejected, challenges, answer }).await.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }
}

/// Two are equal if they share their token.
impl PartialEq for Bearer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.current, &other.current)
    }
}

impl Eq for Bearer {}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(…)")
    }
}

// === impl TokenRequest ===

impl TokenRequest {
    /// True if `current` is no answer: it is the rejected token, or there is none.
    pub fn is_open(&self, current: Option<&Secret>) -> bool {
        let rejected = self.rejected.as_ref().map(|token| token.expose());
        current.is_none_or(|current| rejected == Some(current.expose()))
    }

    /// Ends the wait. Nothing happens if nobody waits any more.
    pub fn answer(self, outcome: Result<(), String>) {
        let _ = self.answer.send(outcome);
    }
}
