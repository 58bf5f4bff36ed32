//! Who looks at a page: the browser, whether it is logged in, and the forms it was shown. Knows nothing of what is on a
//! page.
//!
//! Of a browser that is not logged in nothing is stored (`OA-68`): what its forms are bound to derives from the random id
//! in its cookie.

use std::{net::IpAddr, sync::Arc};

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use tower_sessions::{Session, session::Id};

use super::{
    forms::{Forms, Purpose},
    problem::Problem,
    same_origin,
    session::LOGIN,
    state::State,
};
use crate::{
    model::{ClientIp, KeyId},
    oauth::{Browser, KeyHolder},
    support::Digest,
};

/// A browser.
enum Visit {
    /// It is not logged in. It has a cookie once it was shown a form.
    Stranger,
    /// Somebody is logged in.
    LoggedIn(Login),
}

/// A login that is remembered.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Login {
    /// The key that was given. Whose it is and what it may do is looked up each time.
    key: KeyId,
    /// What authorization requests are bound to from the login on. It outlives the rotation of the session id by a
    /// further login with the same key, so that a request that waits in another tab is not lost.
    seed: String,
    forms: Forms,
}

/// The browser that sent a request. Extracting it refuses what another site made the browser send (`OA-72`).
pub(super) struct Visitor {
    state: Arc<State>,
    session: Session,
    visit: Visit,
    /// Where the request came from.
    pub(super) from: IpAddr,
}

// === impl Visitor ===

impl Visitor {
    /// What authorization requests of this browser are bound to. A browser without a cookie gets one.
    pub(super) async fn browser(&mut self) -> Result<Browser, Problem> {
        Ok(Browser(match &self.visit {
            Visit::LoggedIn(login) => Digest::sha256(&login.seed),
            Visit::Stranger => Digest::sha256(format!("browser {}", self.id().await?)),
        }))
    }

    /// Who is logged in; `None` where nobody is, or the key has ended meanwhile (`OA-128`).
    pub(super) async fn holder(&self) -> Result<Option<KeyHolder>, Problem> {
        match &self.visit {
            Visit::LoggedIn(login) => Ok(self.state.oauth.keys().holder(&login.key).await?),
            Visit::Stranger => Ok(None),
        }
    }

    /// A token for a form that is about to be shown. A browser without a cookie gets one.
    pub(super) async fn token(&mut self, purpose: Purpose<'_>) -> Result<String, Problem> {
        let random = &*self.state.random;
        Ok(match &self.visit {
            Visit::LoggedIn(login) => login.forms.token(purpose, random),
            Visit::Stranger => strangers_forms(self.id().await?).token(purpose, random),
        })
    }

    /// Takes the token of a form that came back. Once logged in, each is good for one use; before that nothing can be
    /// decided, and the forms of a stranger are good for as long as the cookie.
    pub(super) async fn spend(&mut self, purpose: Purpose<'_>, token: &str) -> Result<(), Problem> {
        let good = match &mut self.visit {
            Visit::LoggedIn(login) => login.forms.spend(purpose, token, &*self.state.random),
            Visit::Stranger => self.session.id().is_some_and(|id| strangers_forms(id).is_genuine(purpose, token)),
        };
        if !good {
            return Err(Problem::foreign_form());
        }
        self.keep().await
    }

    /// Remembers the login under a new session id, so that whoever planted the old one has nothing (N-75).
    pub(super) async fn log_in(&mut self, holder: &KeyHolder) -> Result<(), Problem> {
        let random = &*self.state.random;
        let seed = match &self.visit {
            Visit::LoggedIn(login) if login.key == holder.key => login.seed.clone(),
            Visit::LoggedIn(_) | Visit::Stranger => random.token(),
        };
        self.visit = Visit::LoggedIn(Login { key: holder.key.clone(), seed, forms: Forms::mint(random) });
        self.session.cycle_id().await?;
        self.keep().await
    }

    /// Forgets everything. The cookie is replaced and not removed: browsers ignore the removal of a `__Host-` cookie that
    /// does not repeat its attributes.
    pub(super) async fn log_out(&mut self) -> Result<(), Problem> {
        self.visit = Visit::Stranger;
        self.session.clear().await;
        self.session.cycle_id().await?;
        Ok(self.session.save().await?)
    }

    /// The id in the cookie; a new one for a browser that has none.
    async fn id(&self) -> Result<Id, Problem> {
        if let Some(id) = self.session.id() {
            return Ok(id);
        }
        // counts as a change, and so the cookie is set
        self.session.clear().await;
        self.session.save().await?;
        self.session.id().ok_or_else(Problem::internal)
    }

    /// Saves at once and not with the answer, so that a store that is busy is told as such.
    async fn keep(&self) -> Result<(), Problem> {
        if let Visit::LoggedIn(login) = &self.visit {
            self.session.insert(LOGIN, login).await?;
            self.session.save().await?;
        }
        Ok(())
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
        let visit = session.get(LOGIN).await?.map_or(Visit::Stranger, Visit::LoggedIn);
        Ok(Self { state: Arc::clone(state), session, visit, from })
    }
}

/// The forms of a browser that is not logged in: their secret derives from the id in its cookie, which nobody else knows.
fn strangers_forms(id: Id) -> Forms {
    Forms::with_secret(Digest::sha256(format!("forms {id}")).to_base64url())
}
