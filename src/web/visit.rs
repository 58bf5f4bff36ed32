//! Who looks at a page: the browser, whether it is logged in, and the forms it was shown. Knows nothing of what is on a
//! page.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tower_sessions::Session;

use super::{
    State,
    error::Problem,
    forms::{Forms, Purpose},
    same_origin,
};
use crate::{
    model::{ClientIp, KeyId},
    oauth::{Browser, KeyHolder, TransactionId},
    support::Digest,
};

/// Under which name a [`Visit`] lies in the session.
const NAME: &str = "visit";

/// What the pages remember of a browser.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Visit {
    /// What authorization requests are bound to (`OA-68`). It outlives the rotation of the session id at login, so that
    /// a request that waits is not lost by it.
    seed: String,
    login: Option<LoggedIn>,
    forms: Forms,
}

/// A login that is remembered.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct LoggedIn {
    /// The key that was given. Whose it is and what it may do is looked up each time.
    key: KeyId,
    /// The authorization request on whose way the login was.
    transaction: Option<String>,
}

/// The browser that sent a request. Extracting it refuses what another site made the browser send (`OA-72`).
pub(super) struct Visitor {
    state: Arc<State>,
    session: Session,
    visit: Visit,
    /// Where the request came from.
    pub(super) from: IpAddr,
}

/// The key that the person of a stored session logged in with.
pub(super) fn key_in(data: &HashMap<String, Value>) -> Option<KeyId> {
    data.get(NAME)?.pointer("/login/key")?.as_str().map(KeyId::new)
}

// === impl Visitor ===

impl Visitor {
    /// What authorization requests of this browser are bound to.
    pub(super) fn browser(&self) -> Browser {
        Browser(Digest::sha256(&self.visit.seed))
    }

    /// Who is logged in; `None` where nobody is, or the key has ended meanwhile (`OA-128`).
    pub(super) async fn holder(&self) -> Result<Option<KeyHolder>, Problem> {
        match &self.visit.login {
            Some(login) => Ok(self.state.oauth.key_holder(&login.key).await?),
            None => Ok(None),
        }
    }

    /// Whether the login was made on the way to this very authorization request.
    pub(super) fn logged_in_for(&self, transaction: &TransactionId) -> bool {
        let login = self.visit.login.as_ref();
        login.and_then(|login| login.transaction.as_deref()) == Some(transaction.as_str())
    }

    /// A token for a form that is about to be shown.
    pub(super) async fn token(&self, purpose: Purpose<'_>) -> Result<String, Problem> {
        self.keep().await?;
        Ok(self.visit.forms.token(purpose, &*self.state.random))
    }

    /// Spends the token of a form that came back.
    pub(super) async fn spend(&mut self, purpose: Purpose<'_>, token: &str) -> Result<(), Problem> {
        if !self.visit.forms.spend(purpose, token, &*self.state.random) {
            return Err(Problem::foreign_form());
        }
        self.keep().await
    }

    /// Remembers the login under a new session id, so that whoever planted the old one has nothing (N-75).
    pub(super) async fn log_in(
        &mut self,
        holder: &KeyHolder,
        transaction: Option<&TransactionId>,
    ) -> Result<(), Problem> {
        let transaction = transaction.map(ToString::to_string);
        self.visit.login = Some(LoggedIn { key: holder.key.clone(), transaction });
        self.visit.forms = Forms::mint(&*self.state.random);
        self.session.cycle_id().await?;
        self.keep().await
    }

    /// Forgets everything. The cookie is replaced and not removed: browsers ignore the removal of a `__Host-` cookie that
    /// does not repeat its attributes.
    pub(super) async fn log_out(&mut self) -> Result<(), Problem> {
        self.visit = Visit::new(&self.state);
        self.session.cycle_id().await?;
        self.keep().await
    }

    async fn keep(&self) -> Result<(), Problem> {
        Ok(self.session.insert(NAME, &self.visit).await?)
    }
}

impl FromRequestParts<Arc<State>> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, Problem> {
        if !parts.method.is_safe() && !same_origin::may_act(&parts.headers, &state.settings.public_url) {
            return Err(Problem::foreign_form());
        }
        let from = parts.extensions.get().map_or(std::net::Ipv4Addr::LOCALHOST.into(), |ClientIp(from)| *from);
        let session = Session::from_request_parts(parts, state).await.map_err(|_| Problem::internal())?;
        let visit = session.get(NAME).await?.unwrap_or_else(|| Visit::new(state));
        Ok(Self { state: Arc::clone(state), session, visit, from })
    }
}

// === impl Visit ===

impl Visit {
    fn new(state: &State) -> Self {
        let random = &*state.random;
        Self { seed: random.token(), login: None, forms: Forms::mint(random) }
    }
}
