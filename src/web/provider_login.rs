//! Login at an OpenID provider: the redirect to it and the return (`UP-12`, `UP-13`). `openid` checks the provider's
//! answer, `oauth` keeps the accounts; this file handles forms and redirects.
//!
//! Nothing is stored before the login (`OA-68`): a waiting authorization request travels sealed in the cookie of the
//! login, and opens only with a secret that is sealed in the same cookie.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    extract::{self, Path, RawQuery},
    response::{IntoResponse as _, Redirect, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};

use super::{
    authorize, choice, connect_address::ConnectAddress, forms::Purpose, login, login_cookie::LoginCookies,
    posted_form::PostedForm, problem::Problem, state::WebState, visitor::Visitor,
};
use crate::{
    audit::LoginEvent,
    model::{KeyAccount, LoginProvider},
    oauth::{AccountEntry, Browser, ClaimedAddress, KeyHolder, LoginPrompt, form::Params},
    openid::{FinishedLogin, LoginAnswer, OpenIdError, Person, ProviderPrompt, TokenProblem},
    storage::BoundLogin,
    support::Digest,
};

/// Separates a login from its waiting authorization request, in the cookie.
const SEPARATOR: char = '.';

/// The form with a button for each provider. A missing field counts as empty.
#[derive(Deserialize)]
pub(super) struct ProviderForm {
    #[serde(default)]
    token: String,
    /// The sealed authorization request waiting for the login.
    #[serde(default)]
    transaction: String,
    /// The connect page waiting for the login.
    connect: Option<String>,
    /// Code of a device waiting for the login; empty if it is entered later.
    device: Option<String>,
    #[serde(default)]
    provider: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AfterLogin {
    Account,
    /// The connect page at this address.
    Connect {
        address: String,
    },
    /// The page for entering a device's code, prefilled with this one.
    Device {
        code: String,
    },
    /// The consent page of the authorization request in the cookie, which is sealed for this secret.
    Authorization {
        secret: String,
    },
}

/// A login to begin at a provider.
struct ProviderLogin<'a> {
    provider: &'a str,
    prompt: ProviderPrompt,
    /// The next step after it, as JSON.
    after: &'a str,
    /// The waiting authorization request, sealed; empty if there is none.
    request: &'a str,
}

/// `POST /oauth/login/start`: sends the browser to a provider.
pub(super) async fn begin(
    extract::State(state): extract::State<Arc<WebState>>,
    visitor: Visitor,
    headers: HeaderMap,
    PostedForm(form): PostedForm<ProviderForm>,
) -> Result<Response, Problem> {
    let (mut is_fresh, mut chooses) = (false, choice::is_due(&headers, &state.settings));
    let mut request = String::new();
    let after = if form.transaction.is_empty() {
        visitor.shown(Purpose::Login, &form.token)?;
        match (form.connect.as_deref().and_then(ConnectAddress::parse), form.device) {
            (Some(address), _) => AfterLogin::Connect { address: address.text() },
            (None, Some(code)) => AfterLogin::Device { code },
            (None, None) => AfterLogin::Account,
        }
    } else {
        let shown = visitor.shown(Purpose::Transaction(&form.transaction), &form.token)?;
        let authorization = state.oauth.authorization();
        let transaction = authorization.unseal(&form.transaction, &shown.visit.browser()).await?;
        // even for a visitor who is not logged in here: the session at the provider may be older than the app wants
        is_fresh = transaction.login != LoginPrompt::IfNeeded;
        chooses |= transaction.chooses;
        let secret = state.random.token();
        request = authorization.seal(&transaction, &keeper(&secret))?;
        AfterLogin::Authorization { secret }
    };
    let after = serde_json::to_string(&after).map_err(|_| Problem::internal())?;
    let prompt = ProviderPrompt::new(is_fresh, chooses);
    let login = ProviderLogin { provider: &form.provider, prompt, after: &after, request: &request };
    depart(&state, &headers, visitor.from, login).await
}

/// Sends the browser to a provider; the cookie of the login carries the waiting request.
async fn depart(
    state: &WebState,
    headers: &HeaderMap,
    from: IpAddr,
    login: ProviderLogin<'_>,
) -> Result<Response, Problem> {
    let ProviderLogin { provider, prompt, after, request } = login;
    let start = state.providers.begin(provider, prompt, after, from).await;
    let start = start.map_err(|error| failed(state, provider, &error))?;
    let content = format!("{}{SEPARATOR}{request}", start.sealed);
    let cookies = LoginCookies::read(headers, &state.settings).set(&start.state, &content);
    let cookies = cookies.ok_or_else(Problem::internal)?;
    let mut answer = Redirect::to(start.location.as_str()).into_response();
    set_cookies(&mut answer, cookies);
    Ok(answer)
}

/// `GET /oauth/login/callback/{provider}`: the provider sends the browser back here.
pub(super) async fn finish(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    headers: HeaderMap,
    Path(provider): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let params = Params::parse(query.as_deref().unwrap_or_default()).unwrap_or_default();
    let cookies = LoginCookies::read(&headers, &state.settings);
    let used = params.get("state").ok().flatten().unwrap_or_default();
    let outcome = match answer(&params) {
        Some(answer) => {
            let content = cookies.content(used);
            match log_in(&state, &mut visitor, &provider, &answer, &content).await {
                Ok(ProviderReturn::In(answer)) => Ok(answer),
                Ok(ProviderReturn::Back { prompt, after }) => {
                    let request = content.split_once(SEPARATOR).unwrap_or_default().1;
                    let login = ProviderLogin { provider: &provider, prompt, after: &after, request };
                    depart(&state, &headers, visitor.from, login).await
                }
                Err(problem) => Err(problem),
            }
        }
        None => Err(failed(&state, &provider, &OpenIdError::Foreign)),
    };
    let chooses_next = outcome.as_ref().is_err_and(|problem| problem.status == StatusCode::FORBIDDEN);
    let is_in = visitor.is_logged_in() && outcome.is_ok();
    let mut answer = outcome.unwrap_or_else(Problem::into_response);
    set_cookies(&mut answer, cookies.remove(used));
    if chooses_next || (is_in && choice::is_due(&headers, &state.settings)) {
        set_cookies(&mut answer, vec![choice::cookie(&state.settings, chooses_next)]);
    }
    answer
}

/// The outcome of a return from a provider.
enum ProviderReturn {
    /// The person is logged in.
    In(Response),
    /// The provider is asked again: it cannot offer a choice of accounts, or its answer came before.
    Back { prompt: ProviderPrompt, after: String },
}

/// The parameters of an answer; `None` if any is repeated.
fn answer(params: &Params) -> Option<LoginAnswer<'_>> {
    Some(LoginAnswer {
        state: params.get("state").ok()?.unwrap_or_default(),
        issuer: params.get("iss").ok()?,
        code: params.get("code").ok()?,
        error: params.get("error").ok()?,
    })
}

async fn log_in(
    state: &WebState,
    visitor: &mut Visitor,
    provider: &str,
    answer: &LoginAnswer<'_>,
    content: &str,
) -> Result<ProviderReturn, Problem> {
    let (sealed, request) = content.split_once(SEPARATOR).unwrap_or_default();
    let finished = match state.providers.finish(provider, answer, sealed, visitor.from).await {
        Ok(finished) => finished,
        Err(OpenIdError::NoChoice { prompt, after }) => {
            tracing::info!(
                provider,
                "the provider rejects `prompt=select_account`; the gateway uses `prompt=login` instead"
            );
            return Ok(ProviderReturn::Back { prompt, after });
        }
        Err(OpenIdError::Again { prompt, after }) => return Ok(ProviderReturn::Back { prompt, after }),
        Err(OpenIdError::Foreign) if visitor.is_logged_in() => return Err(logged_in_already()),
        Err(error @ OpenIdError::Declined) if !request.is_empty() => {
            let problem = failed(state, provider, &error);
            return Err(Problem { text: format!("{} The app received nothing.", problem.text), ..problem });
        }
        Err(error) => return Err(failed(state, provider, &error)),
    };
    let spec = state.providers.spec(provider).ok_or_else(Problem::not_found)?;
    let after: AfterLogin = serde_json::from_str(&finished.after).map_err(|_| Problem::internal())?;
    let holder = admit(state, spec, &finished).await?;
    visitor.log_in(&holder, finished.person.logged_in).await?;
    Ok(ProviderReturn::In(match after {
        AfterLogin::Account => login::go_on(state, None),
        AfterLogin::Connect { address } => login::go_on(state, ConnectAddress::parse(&address).as_ref()),
        AfterLogin::Device { code } => login::to_device(state, &code),
        AfterLogin::Authorization { secret } => {
            let transaction = state.oauth.authorization().unseal(request, &keeper(&secret)).await?;
            authorize::logged_in(state, visitor, &transaction, &holder).await?
        }
    }))
}

/// The account of a person whom the rules let in, with the rights that they give now. A person without an account gets
/// one.
async fn admit(state: &WebState, spec: &LoginProvider, finished: &FinishedLogin) -> Result<KeyHolder, Problem> {
    let person = &finished.person;
    let address = person.email.as_deref().map_or(ClaimedAddress::None, ClaimedAddress::Verified);
    let keys = state.oauth.keys();
    let by_tables = person.rights(spec);
    let Some(given) = keys.rights_of_person(&person.issuer, &person.subject, address, by_tables).await? else {
        refuse(state, &spec.name, &format!("no rule lets the subject {} in{}", person.subject, doubts(person)));
        return Err(not_let_in(spec, person));
    };
    let account = KeyAccount::Provider { issuer: person.issuer.clone(), subject: person.subject.clone() };
    let holder = match keys.admit(account, &person.name, &given).await? {
        AccountEntry::Open(holder) => holder,
        AccountEntry::Ended(key) => {
            refuse(state, &spec.name, &format!("the account {key} is revoked or disabled"));
            return Err(ended(spec));
        }
        AccountEntry::Unknown => return Err(Problem::internal()),
    };
    let (logins, now) = (state.storage.provider_logins(), state.clock.now());
    if let Some(session) = &person.session {
        let session = session_digest(&person.issuer, session);
        logins.add_session(&session, &holder.key, now).await.map_err(|error| Problem::from_storage(&error))?;
    }
    if let Some(refresh_token) = finished.refresh.clone() {
        let (key, issuer) = (holder.key.clone(), person.issuer.clone());
        let login = BoundLogin { key, issuer, refresh_token, due: now + spec.asked_every() };
        logins.bind(&login).await.map_err(|error| Problem::from_storage(&error))?;
    }
    let (user, key) = (holder.user.clone(), holder.key.clone());
    state.oauth.audit().record(LoginEvent::LoggedIn { user, key });
    Ok(holder)
}

/// The digest under which a session at a provider is stored.
pub(super) fn session_digest(issuer: &str, session: &str) -> Digest {
    Digest::sha256(format!("{issuer} {session}"))
}

/// The identity that an authorization request is sealed for while the person is at the provider.
fn keeper(secret: &str) -> Browser {
    Browser(Digest::sha256(format!("login {secret}")))
}

fn set_cookies(answer: &mut Response, cookies: Vec<HeaderValue>) {
    for cookie in cookies {
        answer.headers_mut().append(header::SET_COOKIE, cookie);
    }
}

fn refuse(state: &WebState, provider: &str, reason: &str) {
    let (provider, reason) = (provider.to_owned(), reason.to_owned());
    state.oauth.audit().record(LoginEvent::Refused { provider, reason });
}

const AGAIN: &str = "Go back to the app that you want to connect, or to the login page, and start again.";
const OPERATOR: &str = "If it happens again, tell the operator: the log has the reason.";

/// The page for a failed login. It never repeats what the provider says.
fn failed(state: &WebState, provider: &str, error: &OpenIdError) -> Problem {
    if !matches!(error, OpenIdError::Unknown | OpenIdError::Limited) {
        refuse(state, provider, &error.to_string());
    }
    let label = state.providers.spec(provider).map_or("the provider", |spec| &spec.label);
    let (status, error, title, text, advice) = match error {
        OpenIdError::Unknown => return Problem::not_found(),
        OpenIdError::Foreign => (
            StatusCode::BAD_REQUEST,
            "invalid_request",
            "This login has expired",
            "A login works once, within 10 minutes, in the browser where it began.".to_owned(),
            vec![
                AGAIN,
                "If this happens every time, allow cookies for this site: the gateway recognizes your browser by them.",
            ],
        ),
        OpenIdError::Declined => (
            StatusCode::FORBIDDEN,
            "access_denied",
            "You are not logged in",
            format!("You did not log in at {label}, or it did not let you in."),
            vec![AGAIN],
        ),
        OpenIdError::Limited => (
            StatusCode::TOO_MANY_REQUESTS,
            "temporarily_unavailable",
            "Too many logins",
            "Too many logins came from your network.".to_owned(),
            vec!["Wait a minute and try again."],
        ),
        OpenIdError::Unavailable(_) => (
            StatusCode::BAD_GATEWAY,
            "temporarily_unavailable",
            "You cannot log in there now",
            format!("{label} does not answer, or its answer cannot be used for a login."),
            vec!["Try again in a minute, or log in with an API key.", OPERATOR],
        ),
        OpenIdError::Refused(_)
        | OpenIdError::RefusedTokens(_)
        | OpenIdError::NoChoice { .. }
        | OpenIdError::Again { .. } => (
            StatusCode::BAD_GATEWAY,
            "server_error",
            "You cannot log in there",
            format!("{label} refused the gateway's request."),
            vec![AGAIN, OPERATOR],
        ),
        OpenIdError::Token(TokenProblem::Stale) => return not_fresh(label),
        OpenIdError::Issuer | OpenIdError::Token(_) => (
            StatusCode::FORBIDDEN,
            "access_denied",
            "This login cannot be verified",
            format!("The answer from {label} does not prove who you are. You are not logged in."),
            vec![AGAIN, OPERATOR],
        ),
    };
    let retry_after = (status == StatusCode::TOO_MANY_REQUESTS).then_some(Duration::from_mins(1));
    Problem { status, error, title, text, advice, retry_after, reason: None }
}

/// The page for a late or repeated answer of a provider if somebody is logged in here.
fn logged_in_already() -> Problem {
    Problem {
        status: StatusCode::BAD_REQUEST,
        error: "invalid_request",
        title: "You are logged in already",
        text: "This address completes a login once, within 10 minutes, in the browser where it began. Nothing was \
             changed this time."
            .to_owned(),
        advice: vec!["To connect an app, go back to it. What you have connected is on the account page."],
        retry_after: None,
        reason: None,
    }
}

fn not_fresh(label: &str) -> Problem {
    Problem {
        status: StatusCode::FORBIDDEN,
        error: "access_denied",
        title: "You have to log in again",
        text: format!("The app wants a new login, and {label} answered with an earlier one. The app received nothing."),
        advice: vec!["Log out there, go back to the app, and start again.", OPERATOR],
        retry_after: None,
        reason: None,
    }
}

fn not_let_in(spec: &LoginProvider, person: &Person) -> Problem {
    Problem {
        status: StatusCode::FORBIDDEN,
        error: "access_denied",
        title: "Your account has no access here",
        text: format!(
            "You are {} at {}, and the operator of this gateway has not given that account access. Its subject is {}.",
            person.name, spec.label, person.subject
        ),
        advice: vec![
            "Ask the operator for access, and send this text.",
            if person.doubts.unverified_email {
                "The provider does not say that your email address is verified (`email_verified`), as Microsoft Entra ID \
                 never does: the operator can let you in by a group or by this subject."
            } else {
                "If your email address gives you access, verify it at the provider."
            },
            "If you have another account there, start again: the provider lets you choose one.",
        ],
        retry_after: None,
        reason: None,
    }
}

/// A possible reason why no rule lets the person in, for the log.
fn doubts(person: &Person) -> &'static str {
    match (person.doubts.unverified_email, person.doubts.groups_elsewhere) {
        (false, false) => "",
        (true, false) => {
            "; there is an email address without `email_verified`, as Microsoft Entra ID gives it: let people in by groups or subjects"
        }
        (false, true) => {
            "; the token has too many groups and names another place for them (overage): have the provider give app roles, or only groups that are assigned to the app"
        }
        (true, true) => {
            "; there is an email address without `email_verified`, and too many groups for the token (overage): let people in by app roles or subjects"
        }
    }
}

fn ended(spec: &LoginProvider) -> Problem {
    Problem {
        status: StatusCode::FORBIDDEN,
        error: "access_denied",
        title: "Your access was revoked",
        text: format!("The operator of this gateway revoked your account of {}.", spec.label),
        advice: vec!["Ask the operator for access, or for an API key."],
        retry_after: None,
        reason: None,
    }
}
