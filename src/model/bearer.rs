//! Bearer token of one server: the current one, and requests for another.

use std::{fmt, sync::Arc};

use arc_swap::ArcSwapOption;
use tokio::sync::{mpsc, oneshot};

use crate::support::Secret;

/// Maximum number of waiting requests for a token; later ones wait for a place.
const WAITING: usize = 64;

/// Bearer token of one server (RFC 6750). Its clones share it.
#[derive(Clone)]
pub struct Bearer {
    current: Arc<ArcSwapOption<Secret>>,
    requests: mpsc::Sender<TokenRequest>,
}

/// The requests for a token, for its one provider. They end with the last [`Bearer`].
#[derive(Debug)]
pub struct TokenRequests {
    current: Arc<ArcSwapOption<Secret>>,
    requests: mpsc::Receiver<TokenRequest>,
}

/// A request for a token other than the one a server rejected.
#[derive(Debug)]
pub struct TokenRequest {
    /// The rejected token; `None` if the request carried none.
    pub rejected: Option<Arc<Secret>>,
    /// The `WWW-Authenticate` headers of the rejection.
    pub challenges: Vec<String>,
    answer: oneshot::Sender<Result<(), RenewalError>>,
}

/// Why no other token is available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenewalError {
    /// A person has to log in first.
    #[error("{0}")]
    LoginRequired(String),
    #[error("{0}")]
    Failed(String),
}

// === impl Bearer ===

impl Bearer {
    /// A server without a token yet, and the requests for one.
    pub fn new() -> (Self, TokenRequests) {
        let (requests, receiver) = mpsc::channel(WAITING);
        let current: Arc<ArcSwapOption<Secret>> = Arc::default();
        let requested = TokenRequests { current: Arc::clone(&current), requests: receiver };
        (Self { current, requests }, requested)
    }

    /// The current token.
    pub fn current(&self) -> Option<Arc<Secret>> {
        self.current.load_full()
    }

    /// Waits until [`Bearer::current`] differs from the rejected token.
    ///
    /// # Errors
    ///
    /// The reason, if no other token is available.
    pub async fn renew(&self, rejected: Option<Arc<Secret>>, challenges: Vec<String>) -> Result<(), RenewalError> {
        let (answer, answered) = oneshot::channel();
        let ended = || RenewalError::Failed("the login has ended".to_owned());
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

// === impl TokenRequests ===

impl TokenRequests {
    /// The next request; `None` once no more tokens are needed.
    pub async fn recv(&mut self) -> Option<TokenRequest> {
        self.requests.recv().await
    }

    /// Replaces the token.
    pub fn set(&self, token: Secret) {
        self.current.store(Some(Arc::new(token)));
    }
}

// === impl TokenRequest ===

impl TokenRequest {
    /// True if `current` is not an answer: it is the rejected token, or missing.
    pub fn is_open(&self, current: Option<&Secret>) -> bool {
        let rejected = self.rejected.as_ref().map(|token| token.expose());
        current.is_none_or(|current| rejected == Some(current.expose()))
    }

    /// Ends the wait. Does nothing if the wait was given up.
    pub fn answer(self, outcome: Result<(), RenewalError>) {
        let _ = self.answer.send(outcome);
    }
}
