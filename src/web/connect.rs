//! The connect page of a server asks for everything that the server needs from a user, one thing at a time: first
//! secrets, then consent to a login at its authorization server (`UP-6`, `UP-7`). `upstream` does the login; this file
//! handles HTML and redirects, and also the end of the login.

use std::sync::Arc;

use axum::{
    extract::{self, Path, RawQuery},
    response::{IntoResponse as _, Redirect, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;

use super::{
    account, accounts,
    connect_address::ConnectAddress,
    forms::Purpose,
    login,
    pages::{self, PageResponse},
    posted_form::PostedForm,
    problem::Problem,
    secrets,
    state::WebState,
    visitor::Visitor,
};
use crate::{
    model::BackendId,
    oauth::{KeyHolder, TransactionId},
    support::{Digest, Secret},
    upstream::{LoginBeginning, LoginOutcome, LoginProblem, ServerLogin, TicketRefusal, UpstreamError},
};

/// Form of the connect page. A missing field counts as empty.
#[derive(Deserialize)]
pub(super) struct ConnectForm {
    #[serde(default)]
    token: String,
    /// The address of the page.
    #[serde(default)]
    address: String,
    decision: Option<ConnectDecision>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ConnectDecision {
    Connect,
    Cancel,
}

/// Form of the disconnect button of an account.
#[derive(Deserialize)]
pub(super) struct DisconnectForm {
    #[serde(default)]
    token: String,
    #[serde(default)]
    backend: String,
}

/// A logged-in person on the connect page of a server.
struct Connecting {
    holder: KeyHolder,
    browser: Digest,
    address: ConnectAddress,
}

/// `GET /connect/{backend}`: asks for a missing secret, or explains the login before it begins.
pub(super) async fn show(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    Path(backend): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let address =
        ConnectAddress::read(&backend, query.as_deref().unwrap_or_default()).ok_or_else(Problem::not_found)?;
    let Some(connecting) = Connecting::of(&state, &mut visitor, address.clone()).await? else {
        return login::ask_for(&state, &mut visitor, &address).await;
    };
    if let Some(name) = state.upstream.secrets().missing(connecting.request()).await? {
        return secrets::ask_for(&state, &mut visitor, &connecting.holder, &address, &name).await;
    }
    let has_login = state.upstream.connections().is_protected(&address.backend);
    if !has_login && state.upstream.secrets().are_needed_by(&address.backend) {
        return Ok(match &address.consent {
            Some(consent) => go_on(&state, Some(consent)).into_response(),
            None => to_done(&state, &address.backend),
        });
    }
    let preview = state.upstream.logins().preview(connecting.request()).await?;
    let text = address.text();
    let page = pages::ConnectPage {
        layout: pages::Layout::new(&state.settings),
        token: visitor.token(Purpose::Connect(&text)).await?,
        address: &text,
        backend: address.backend.as_str(),
        server: &preview.server,
        authorization_server: &preview.authorization_server,
        resource: preview.resource.as_deref(),
        scopes: &preview.scopes,
        user: connecting.holder.user_name(),
    };
    Ok(PageResponse(StatusCode::OK, page).into_response())
}

/// `POST /connect/{backend}`: with consent, sends the browser to the authorization server.
pub(super) async fn decide(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    Path(backend): Path<String>,
    PostedForm(form): PostedForm<ConnectForm>,
) -> Result<Response, Problem> {
    let shown = visitor.shown(Purpose::Connect(&form.address), &form.token)?;
    let address = ConnectAddress::parse(&form.address).filter(|address| address.backend.as_str() == backend);
    let address = address.ok_or_else(Problem::foreign_form)?;
    if !shown.is_current {
        return Ok(login::go_on(&state, Some(&address)));
    }
    let connecting = Connecting::of(&state, &mut visitor, address).await?.ok_or_else(Problem::logged_out)?;
    if form.decision != Some(ConnectDecision::Connect) {
        return Ok(go_on(&state, connecting.address.consent.as_ref()).into_response());
    }
    let begun = state.upstream.logins().begin(connecting.request(), &Secret::new(&*form.token)).await?;
    let LoginBeginning::Away(url) = begun else { return Ok(to_done(&state, &connecting.address.backend)) };
    let location = HeaderValue::try_from(url.as_str()).map_err(|_| Problem::internal())?;
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response())
}

/// `GET /oauth/upstream/callback/{backend}`: the browser comes back from the authorization server.
pub(super) async fn finish(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    Path(backend): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let address = ConnectAddress::read(&backend, "").ok_or_else(Problem::not_found)?;
    let connecting = Connecting::of(&state, &mut visitor, address).await?.ok_or(LoginProblem::NoRequest)?;
    let query = query.unwrap_or_default();
    let outcome = state.upstream.logins().finish(connecting.request(), &query).await?;
    let (is_connected, next) = match outcome {
        LoginOutcome::Connected(next) => (true, next),
        LoginOutcome::Denied(next) => (false, next),
    };
    if let Some(consent) = next.as_deref().and_then(TransactionId::parse) {
        return Ok(go_on(&state, Some(&consent)).into_response());
    }
    let backend = connecting.address.backend.as_str();
    let layout = pages::Layout::new(&state.settings);
    if is_connected {
        return Ok(to_done(&state, &connecting.address.backend));
    }
    Ok(PageResponse(StatusCode::OK, pages::ConnectDeniedPage { layout, backend }).into_response())
}

/// `GET /connect/{backend}/done`: the page after a login or a secret; leads to the account page if anything is missing.
pub(super) async fn done(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    Path(backend): Path<String>,
) -> Result<Response, Problem> {
    let address = ConnectAddress::read(&backend, "").ok_or_else(Problem::not_found)?;
    let Some(connecting) = Connecting::of(&state, &mut visitor, address).await? else {
        return Ok(go_on(&state, None).into_response());
    };
    let Connecting { holder, address, .. } = &connecting;
    let all = state.upstream.connections().of(&holder.user).await?;
    let login = all.iter().find(|one| one.backend == address.backend).map(|one| one.login.is_some());
    let is_given = login.unwrap_or_else(|| state.upstream.secrets().are_needed_by(&address.backend));
    if !is_given || state.upstream.secrets().missing(connecting.request()).await?.is_some() {
        return Ok(go_on(&state, None).into_response());
    }
    let (layout, backend) = (pages::Layout::new(&state.settings), address.backend.as_str());
    Ok(PageResponse(StatusCode::OK, pages::ConnectDonePage { layout, backend }).into_response())
}

/// `POST /account/disconnect`: ends a login at a server.
pub(super) async fn disconnect(
    extract::State(state): extract::State<Arc<WebState>>,
    visitor: Visitor,
    PostedForm(form): PostedForm<DisconnectForm>,
) -> Result<Response, Problem> {
    let Some(holder) = account::holder_of(&visitor, &form.token).await? else { return Ok(login::go_on(&state, None)) };
    let backend = BackendId::parse(&form.backend).map_err(|_| Problem::not_found())?;
    if !accounts::sees(&state, &holder, &backend) {
        return Err(Problem::not_found());
    }
    // pressed twice: it is disconnected either way
    state.upstream.connections().disconnect(&holder.user, &backend).await?;
    Ok(Redirect::to(&format!("{}/account?done=account-disconnected", state.settings.base())).into_response())
}

/// Redirects to the page that confirms that a server has everything it needs. The page has its own address, so that a
/// reload repeats nothing.
fn to_done(state: &WebState, backend: &BackendId) -> Response {
    Redirect::to(&format!("{}/connect/{backend}/done", state.settings.base())).into_response()
}

/// Redirects to the consent page to continue with, or to the account page.
fn go_on(state: &WebState, consent: Option<&TransactionId>) -> Redirect {
    let base = state.settings.base();
    match consent {
        Some(consent) => Redirect::to(&format!("{base}/oauth/consent/{consent}")),
        None => Redirect::to(&format!("{base}/account")),
    }
}

// === impl Connecting ===

impl Connecting {
    /// The logged-in person; `None` if nobody is logged in.
    async fn of(state: &WebState, visitor: &mut Visitor, address: ConnectAddress) -> Result<Option<Self>, Problem> {
        let Some(holder) = visitor.holder().await? else { return Ok(None) };
        if !accounts::sees(state, &holder, &address.backend) {
            return Err(Problem::not_found());
        }
        let browser = visitor.browser().await?.0;
        Ok(Some(Self { holder, browser, address }))
    }

    fn request(&self) -> ServerLogin<'_> {
        ServerLogin {
            user: &self.holder.user,
            browser: self.browser,
            backend: &self.address.backend,
            ticket: self.address.ticket.as_deref(),
            next: self.address.consent.as_ref().map(TransactionId::as_str),
        }
    }
}

impl From<LoginProblem> for Problem {
    fn from(problem: LoginProblem) -> Self {
        match problem {
            LoginProblem::UnknownServer => Self::not_found(),
            LoginProblem::Ticket(TicketRefusal::OtherUser) => Self {
                status: StatusCode::FORBIDDEN,
                error: "access_denied",
                title: "This page is for somebody else",
                text: "It connects the account of the user whose app asked for it, and you are logged in as another \
                       user. Nothing was stored."
                    .to_owned(),
                advice: vec!["If you asked for it, log out here, and log in with the key that the app uses."],
                retry_after: None,
                reason: None,
            },
            LoginProblem::Ticket(TicketRefusal::Lapsed) => Self {
                status: StatusCode::BAD_REQUEST,
                error: "invalid_request",
                title: "This address has expired",
                text: "The address of a connect page is valid for an hour.".to_owned(),
                advice: vec!["Use the tool in your app again, or connect the server on the account page."],
                retry_after: None,
                reason: None,
            },
            LoginProblem::NoRequest => Self {
                status: StatusCode::BAD_REQUEST,
                error: "invalid_request",
                title: "This login cannot be finished",
                text:
                    "This answer does not belong to a login that this browser started in the last 10 minutes. Nothing \
                     was stored this time."
                        .to_owned(),
                advice: vec!["The account page shows what is connected; connect the server there."],
                retry_after: None,
                reason: None,
            },
            LoginProblem::Failed(reason) => Self {
                status: StatusCode::BAD_REQUEST,
                error: "invalid_request",
                title: "The server cannot be connected",
                text: format!("The login at the server did not succeed: {reason}."),
                advice: vec!["Try again later. If the error persists, tell the operator of this gateway."],
                retry_after: None,
                reason: None,
            },
            LoginProblem::Unknown => Self {
                status: StatusCode::SERVICE_UNAVAILABLE,
                error: "temporarily_unavailable",
                title: "This login is not finished yet",
                text: "Its answer has already arrived, and the outcome is not known yet.".to_owned(),
                advice: vec!["Check on the account page in a minute whether the server is connected."],
                retry_after: Some(std::time::Duration::from_secs(10)),
                reason: None,
            },
            LoginProblem::Upstream(UpstreamError::Login(error)) => {
                tracing::warn!(%error, "a login at a server did not succeed");
                Self::unconnectable(&error)
            }
            LoginProblem::Upstream(error) => error.into(),
        }
    }
}
