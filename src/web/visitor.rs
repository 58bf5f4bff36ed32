//! The browser that sent a request: its login, and the forms it was shown. Knows nothing of the content of pages.
//!
//! Nothing is stored for a browser that is not logged in (`OA-68`): its form tokens derive from the random id in its
//! cookie.

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
    state::WebState,
};
use crate::{
    model::{ClientIp, KeyId},
    oauth::{Browser, KeyHolder, LoginPrompt},
    support::{Digest, Timestamp},
};

/// Login status of a browser.
enum LoginStatus {
    /// Not logged in. It has a cookie after it was shown a form.
    Anonymous,
    /// Logged in.
    LoggedIn(LoginState),
}

/// Login in the session data.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct LoginState {
    /// API key of the login. User and rights are looked up each time.
    key: KeyId,
    /// Random value to which authorization requests are bound after the login. It survives a further login with the
    /// same key, so that a pending request in another tab is not lost.
    seed: String,
    /// Time of the login, if it is known: a provider may have had a session of the person, and not say since when.
    #[serde(default)]
    at: Option<Timestamp>,
    forms: Forms,
}

/// The browser that sent a request. The extractor refuses cross-site requests (`OA-72`).
pub(super) struct Visitor {
    state: Arc<WebState>,
    session: Session,
    visit: LoginStatus,
    /// Client address.
    pub(super) from: IpAddr,
}

// === impl Visitor ===

impl Visitor {
    /// Identity to which authorization requests of this browser are bound. A browser without a cookie gets one.
    pub(super) async fn browser(&mut self) -> Result<Browser, Problem> {
        Ok(Browser(match &self.visit {
            LoginStatus::LoggedIn(login) => Digest::sha256(&login.seed),
            LoginStatus::Anonymous => Digest::sha256(format!("browser {}", self.id().await?)),
        }))
    }

    /// Holder of the login's key; `None` if nobody is logged in, the key ended (`OA-128`), or it may not be used from here
    /// (`OA-126`).
    pub(super) async fn holder(&self) -> Result<Option<KeyHolder>, Problem> {
        let LoginStatus::LoggedIn(login) = &self.visit else { return Ok(None) };
        let holder = self.state.oauth.keys().holder(&login.key).await?;
        Ok(holder.filter(|holder| holder.networks.allow(self.from)))
    }

    /// The same, if the login is recent enough for a request.
    pub(super) async fn holder_for(&self, prompt: LoginPrompt) -> Result<Option<KeyHolder>, Problem> {
        let LoginStatus::LoggedIn(login) = &self.visit else { return Ok(None) };
        if prompt.accepts(login.at, self.state.clock.now()) { self.holder().await } else { Ok(None) }
    }

    /// A token for a new form. A browser without a cookie gets one.
    pub(super) async fn token(&mut self, purpose: Purpose<'_>) -> Result<String, Problem> {
        let random = &*self.state.random;
        Ok(match &self.visit {
            LoginStatus::LoggedIn(login) => login.forms.token(purpose, random),
            LoginStatus::Anonymous => anonymous_forms(self.id().await?).token(purpose, random),
        })
    }

    /// Spends a form token. After a login, each is valid once; before it nothing can be decided, and tokens are valid
    /// as long as the cookie.
    pub(super) async fn spend(&mut self, purpose: Purpose<'_>, token: &str) -> Result<(), Problem> {
        let good = match &mut self.visit {
            LoginStatus::LoggedIn(login) => login.forms.spend(purpose, token, &*self.state.random),
            LoginStatus::Anonymous => {
                self.session.id().is_some_and(|id| anonymous_forms(id).is_genuine(purpose, token))
            }
        };
        if !good {
            return Err(Problem::foreign_form());
        }
        self.keep().await
    }

    /// Stores the login, which was at this time, under a new session id, so that a planted old id is worthless (N-75).
    pub(super) async fn log_in(&mut self, holder: &KeyHolder, at: Option<Timestamp>) -> Result<(), Problem> {
        let random = &*self.state.random;
        let seed = match &self.visit {
            LoginStatus::LoggedIn(login) if login.key == holder.key => login.seed.clone(),
            LoginStatus::LoggedIn(_) | LoginStatus::Anonymous => random.token(),
        };
        let (key, forms) = (holder.key.clone(), Forms::mint(random));
        self.visit = LoginStatus::LoggedIn(LoginState { key, seed, at, forms });
        self.session.cycle_id().await?;
        self.keep().await
    }

    /// Ends the login. The cookie is replaced and not removed: browsers ignore the removal of a `__Host-` cookie that
    /// does not repeat its attributes.
    pub(super) async fn log_out(&mut self) -> Result<(), Problem> {
        self.visit = LoginStatus::Anonymous;
        self.session.clear().await;
        self.session.cycle_id().await?;
        Ok(self.session.save().await?)
    }

    /// The id in the cookie; creates one if there is none.
    async fn id(&self) -> Result<Id, Problem> {
        if let Some(id) = self.session.id() {
            return Ok(id);
        }
        // counts as a change, so the cookie is set
        self.session.clear().await;
        self.session.save().await?;
        self.session.id().ok_or_else(Problem::internal)
    }

    /// Saves at once and not with the response, so that a busy database is reported as such.
    async fn keep(&self) -> Result<(), Problem> {
        if let LoginStatus::LoggedIn(login) = &self.visit {
            self.session.insert(LOGIN, login).await?;
            self.session.save().await?;
        }
        Ok(())
    }
}

impl FromRequestParts<Arc<WebState>> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<WebState>) -> Result<Self, Problem> {
        if !parts.method.is_safe() && !same_origin::may_act(&parts.headers, &state.settings.public_url) {
            return Err(Problem::foreign_form());
        }
        let from = parts.extensions.get().map_or(std::net::Ipv4Addr::LOCALHOST.into(), |ClientIp(from)| *from);
        let session = Session::from_request_parts(parts, state).await.map_err(|_| Problem::internal())?;
        let visit = session.get(LOGIN).await?.map_or(LoginStatus::Anonymous, LoginStatus::LoggedIn);
        Ok(Self { state: Arc::clone(state), session, visit, from })
    }
}

/// CSRF state of a browser that is not logged in: the secret derives from the id in its cookie, which nobody else
/// knows.
fn anonymous_forms(id: Id) -> Forms {
    Forms::with_secret(Digest::sha256(format!("forms {id}")).to_base64url())
}
