//! The browser that sent a request: its login, and the forms it was shown.
//!
//! Nothing is stored for a browser that is not logged in (`OA-68`): its form tokens derive from the random id in its
//! cookie, as they do after a login.

use std::{net::IpAddr, sync::Arc};

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use tower_sessions::{Session, session::Id};

use super::{
    forms::Purpose,
    problem::Problem,
    same_origin,
    session::LOGIN,
    state::WebState,
    visits::{EarlierVisits, NewVisits, Visit},
};
use crate::{
    model::{ClientIp, KeyId},
    oauth::{Browser, KeyHolder, LoginPrompt},
    support::{Digest, Timestamp},
};

enum LoginStatus {
    /// Not logged in. It gets a cookie with its first form.
    Anonymous,
    LoggedIn(LoginState),
}

/// Login in the session data.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct LoginState {
    /// API key of the login. User and rights are looked up each time.
    key: KeyId,
    /// Random value that authorization requests are bound to after the login. It survives another login with the same
    /// key, so that a pending request in another tab is not lost.
    seed: String,
    /// Time of the login, if known: a provider may have reused a session of the person without saying when it began.
    #[serde(default)]
    at: Option<Timestamp>,
}

/// A form shown to this browser.
pub(super) struct ShownForm {
    /// The visit when it was shown.
    pub(super) visit: Visit,
    /// True if that is the present visit. A form of an earlier visit, such as one from before a login in another tab,
    /// may log in, cancel, or lead back to the page that asks; it never approves (`OA-151`).
    pub(super) is_current: bool,
}

/// The browser that sent a request. The extractor refuses cross-site requests (`OA-72`).
pub(super) struct Visitor {
    state: Arc<WebState>,
    session: Session,
    visit: LoginStatus,
    earlier: EarlierVisits,
    new: NewVisits,
    pub(super) from: IpAddr,
}

// === impl Visitor ===

impl Visitor {
    /// Identity that authorization requests of this browser are bound to. A browser without a cookie gets one.
    pub(super) async fn browser(&mut self) -> Result<Browser, Problem> {
        match &self.visit {
            LoginStatus::LoggedIn(login) => Ok(Browser(Digest::sha256(&login.seed))),
            LoginStatus::Anonymous => Ok(self.present().await?.browser()),
        }
    }

    /// The present visit. A browser without a cookie gets one.
    pub(super) async fn present(&mut self) -> Result<Visit, Problem> {
        Ok(Visit::of(self.id().await?))
    }

    /// True if there is a login, even if its key has ended.
    pub(super) const fn is_logged_in(&self) -> bool {
        matches!(self.visit, LoginStatus::LoggedIn(_))
    }

    /// Holder of the login's key; `None` without a login, if the key ended (`OA-128`), or if it may not be used from
    /// here (`OA-126`).
    pub(super) async fn holder(&self) -> Result<Option<KeyHolder>, Problem> {
        let LoginStatus::LoggedIn(login) = &self.visit else { return Ok(None) };
        let holder = self.state.oauth.keys().holder(&login.key).await?;
        Ok(holder.filter(|holder| holder.networks.allow(self.from)))
    }

    /// The same as [`Self::holder`], if the login is recent enough for a request.
    pub(super) async fn holder_for(&self, prompt: LoginPrompt) -> Result<Option<KeyHolder>, Problem> {
        let LoginStatus::LoggedIn(login) = &self.visit else { return Ok(None) };
        if prompt.accepts(login.at, self.state.clock.now()) { self.holder().await } else { Ok(None) }
    }

    /// A token for a new form. A browser without a cookie gets one.
    pub(super) async fn token(&mut self, purpose: Purpose<'_>) -> Result<String, Problem> {
        let visit = self.present().await?;
        Ok(visit.forms().token(purpose, &*self.state.random))
    }

    /// Finds the form that a token belongs to: it was shown in the present visit, or in an earlier one of the last ten
    /// minutes. Other tokens are refused.
    pub(super) fn shown(&self, purpose: Purpose<'_>, token: &str) -> Result<ShownForm, Problem> {
        let is_of = |visit: &Visit| visit.forms().is_genuine(purpose, token);
        if let Some(visit) = self.session.id().map(Visit::of).filter(is_of) {
            return Ok(ShownForm { visit, is_current: true });
        }
        let found = self.earlier.iter().find(|visit| is_of(visit));
        let reason = match (token, self.session.id()) {
            ("", _) => "it has no token",
            (_, None) => "the browser sent no session cookie, and the token belongs to none of its earlier visits",
            (_, Some(_)) => "the token belongs to another browser, another form, or a visit more than ten minutes ago",
        };
        let visit = found.cloned().ok_or_else(|| Problem::foreign_form().because(reason))?;
        Ok(ShownForm { visit, is_current: false })
    }

    /// Stores the login, made at this time, under a new session id, so that a planted old id is worthless (N-75).
    pub(super) async fn log_in(&mut self, holder: &KeyHolder, at: Option<Timestamp>) -> Result<(), Problem> {
        let before = self.session.id().map(Visit::of);
        let seed = match (&self.visit, &before) {
            (LoginStatus::LoggedIn(login), _) if login.key == holder.key => login.seed.clone(),
            (_, Some(visit)) => visit.seed(holder.key.as_str()),
            (_, None) => self.state.random.token(),
        };
        let login = LoginState { key: holder.key.clone(), seed, at };
        self.session.cycle_id().await?;
        self.session.insert(LOGIN, &login).await?;
        // now and not with the response, so that a busy database is reported as such
        self.session.save().await?;
        self.visit = LoginStatus::LoggedIn(login);
        self.remember(before);
        Ok(())
    }

    /// Ends the login. The cookie is replaced rather than removed: browsers ignore the removal of a `__Host-` cookie
    /// that does not repeat its attributes.
    pub(super) async fn log_out(&mut self) -> Result<(), Problem> {
        let before = self.session.id().map(Visit::of);
        self.visit = LoginStatus::Anonymous;
        self.session.clear().await;
        self.session.cycle_id().await?;
        self.session.save().await?;
        self.remember(before);
        Ok(())
    }

    /// The id in the cookie; creates it if needed.
    async fn id(&self) -> Result<Id, Problem> {
        if let Some(id) = self.session.id() {
            return Ok(id);
        }
        // counts as a change, so the cookie is set
        self.session.clear().await;
        self.session.save().await?;
        self.remember(None);
        self.session.id().ok_or_else(Problem::internal)
    }

    /// Makes the browser remember the previous and the present visit.
    fn remember(&self, before: Option<Visit>) {
        for visit in before.into_iter().chain(self.session.id().map(Visit::of)) {
            self.new.add(visit);
        }
    }
}

impl FromRequestParts<Arc<WebState>> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<WebState>) -> Result<Self, Problem> {
        if !parts.method.is_safe() && !same_origin::may_act(&parts.headers, &state.settings.public_url) {
            return Err(Problem::foreign_form().because("the headers say that another site sent it"));
        }
        let from = parts.extensions.get().map_or(std::net::Ipv4Addr::LOCALHOST.into(), |ClientIp(from)| *from);
        let session = Session::from_request_parts(parts, state).await.map_err(|_| Problem::internal())?;
        let visit = session.get(LOGIN).await?.map_or(LoginStatus::Anonymous, LoginStatus::LoggedIn);
        let earlier = EarlierVisits::read(&parts.headers, &state.settings, state.clock.now());
        let new = parts.extensions.get::<NewVisits>().cloned().unwrap_or_default();
        Ok(Self { state: Arc::clone(state), session, visit, earlier, new, from })
    }
}
