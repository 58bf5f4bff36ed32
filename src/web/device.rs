//! The pages of the device grant (RFC 8628 3.3; `OA-146`): entry of the code, decision. `oauth` stores the devices;
//! this file handles HTML and redirects.

use std::sync::Arc;

use axum::{
    extract::{self, Query, rejection::QueryRejection},
    response::{IntoResponse as _, Redirect, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use url::form_urlencoded;

use super::{
    consent::{self, ConsentRequest, RefusedChoice},
    consent_page::{self, ConsentSubject},
    form_fields::FormFields,
    forms::Purpose,
    login,
    pages::{self, Alert, DeviceOutcome, PageResponse},
    posted_form::PostedForm,
    problem::Problem,
    state::WebState,
    texts,
    visitor::Visitor,
};
use crate::{
    model::{RefusalCode, RefusalReason},
    oauth::{ChosenServers, DeviceRefusal, DeviceVerdict, KeyHolder, ServerChoice, UserCode},
    support::Secret,
};

#[derive(Debug, Deserialize)]
pub(super) struct CodeQuery {
    #[serde(default)]
    user_code: String,
}

#[derive(Deserialize)]
pub(super) struct DecisionQuery {
    user_code: String,
    token: String,
}

/// Form for entering the code. A missing field counts as empty.
#[derive(Deserialize)]
pub(super) struct CodeForm {
    #[serde(default)]
    token: String,
    #[serde(default)]
    user_code: String,
}

/// Form of the consent page.
#[derive(Deserialize)]
#[serde(try_from = "FormFields")]
pub(super) struct DeviceDecisionForm {
    token: String,
    user_code: String,
    decision: Option<DeviceDecision>,
    servers: ChosenServers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DeviceDecision {
    Approve,
    Deny,
}

/// `GET /device`: after a login, the page for entering the code. A code in the URL only fills in the field: nothing
/// looks it up before the person submits it (RFC 8628 3.3.1).
pub(super) async fn show(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    query: Result<Query<CodeQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let given = query.map(|Query(query)| query.user_code).unwrap_or_default();
    let code = UserCode::parse(&given).map(|code| code.to_string()).unwrap_or_default();
    if let Some(holder) = visitor.holder().await? {
        return entry_page(&state, &mut visitor, &holder, &code, None).await;
    }
    let page = pages::LoginPage { device: Some(code), ..login::page(&state, &mut visitor, None).await? };
    Ok(PageResponse(StatusCode::OK, page).into_response())
}

/// `POST /device`: leads to the consent page of the device with this code. Every page except a refusal has its own
/// address, so that *Back* and a reload show it again and send nothing.
pub(super) async fn enter(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    PostedForm(form): PostedForm<CodeForm>,
) -> Result<Response, Problem> {
    visitor.shown(Purpose::DeviceCode, &form.token)?;
    let Some(holder) = visitor.holder().await? else { return Ok(login::to_device(&state, &form.user_code)) };
    let Some(code) = UserCode::parse(&form.user_code) else {
        return refused(&state, &mut visitor, &holder, &form.user_code, DeviceRefusal::Unknown).await;
    };
    if let Err(refusal) = state.oauth.devices().pending(&code, &holder, visitor.from).await {
        return refused(&state, &mut visitor, &holder, &form.user_code, refusal).await;
    }
    let code = code.to_string();
    let token = visitor.token(Purpose::Device(&code)).await?;
    Ok(to_decision(&state, &code, &token))
}

/// `GET /device/decision`: the consent page of a device, or its outcome. The form's token is in the address, so that no
/// other site can link here.
pub(super) async fn show_decision(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    query: Result<Query<DecisionQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|_| Problem::foreign_form())?;
    let shown = visitor.shown(Purpose::Device(&query.user_code), &query.token)?;
    let Some(holder) = visitor.holder().await?.filter(|_| shown.is_current) else {
        return Ok(login::to_device(&state, &query.user_code));
    };
    let code = UserCode::parse(&query.user_code).ok_or_else(Problem::foreign_form)?;
    let devices = state.oauth.devices();
    match devices.decided(&code, &Secret::new(&*query.token)).await {
        Ok(Some(decided)) => return Ok(decided_page(&state, &decided)),
        Ok(None) => {}
        Err(refusal) => return refused(&state, &mut visitor, &holder, &query.user_code, refusal).await,
    }
    ask(&state, &mut visitor, &holder, &code, &query.token, None).await
}

/// The consent page of a device. After a choice that grants nothing, it says why.
async fn ask(
    state: &WebState,
    visitor: &mut Visitor,
    holder: &KeyHolder,
    code: &UserCode,
    token: &str,
    unchosen: Option<RefusedChoice<'_>>,
) -> Result<Response, Problem> {
    let pending = match state.oauth.devices().pending(code, holder, visitor.from).await {
        Ok(pending) => pending,
        Err(refusal) => return refused(state, visitor, holder, &code.to_string(), refusal).await,
    };
    let (target, scopes) = (&pending.endpoint.target, &pending.scopes);
    let page = consent_page::ConsentPage {
        layout: pages::Layout::new(&state.settings),
        token: token.to_owned(),
        client: &pending.client.name,
        origin: (&pending.origin).into(),
        choice: consent::choice(state, ConsentRequest { holder, target, scopes, refused: unchosen }).await?,
        resource: &pending.resource,
        lifetime: texts::span(pending.grant_lifetime),
        user: holder.user_name(),
        subject: ConsentSubject::Device { code: code.to_string() },
    };
    let status = if unchosen.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    Ok(PageResponse(status, page).into_response())
}

/// `POST /device/decision`: every approval takes a click by a logged-in person.
pub(super) async fn decide(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    PostedForm(form): PostedForm<DeviceDecisionForm>,
) -> Result<Response, Problem> {
    let shown = visitor.shown(Purpose::Device(&form.user_code), &form.token)?;
    if !shown.is_current {
        // shown before a login: it approves nothing, and the person enters the code again
        return Ok(login::to_device(&state, &form.user_code));
    }
    let holder = visitor.holder().await?.ok_or_else(Problem::logged_out)?;
    let code = UserCode::parse(&form.user_code).ok_or_else(Problem::foreign_form)?;
    let (devices, token) = (state.oauth.devices(), Secret::new(&*form.token));
    let decided = match (devices.decided(&code, &token).await, form.decision) {
        (Ok(Some(_)), _) => Ok(()),
        (Err(refusal), _) => Err(refusal),
        (Ok(None), Some(DeviceDecision::Approve)) => {
            let choice = ServerChoice::Of(&form.servers);
            devices.approve(&code, &token, &holder, choice, visitor.from).await.map(drop)
        }
        (Ok(None), Some(DeviceDecision::Deny)) => devices.deny(&code, &token, &holder, visitor.from).await.map(drop),
        (Ok(None), None) => return Ok(login::to_device(&state, &form.user_code)),
    };
    match decided {
        Ok(()) => Ok(to_decision(&state, &form.user_code, &form.token)),
        Err(DeviceRefusal::Unchosen(refusal)) => {
            let unchosen = RefusedChoice { servers: &form.servers, refusal };
            ask(&state, &mut visitor, &holder, &code, &form.token, Some(unchosen)).await
        }
        Err(refusal) => refused(&state, &mut visitor, &holder, &form.user_code, refusal).await,
    }
}

/// Redirects to the consent page of a device, which shows the outcome once there is one.
fn to_decision(state: &WebState, code: &str, token: &str) -> Response {
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("user_code", code)
        .append_pair("token", token)
        .finish();
    Redirect::to(&format!("{}/device/decision?{query}", state.settings.base())).into_response()
}

fn decided_page(state: &WebState, decided: &DeviceVerdict) -> Response {
    let page = pages::DeviceDecidedPage {
        layout: pages::Layout::new(&state.settings),
        client: &decided.client_name,
        outcome: if decided.is_approved { DeviceOutcome::Approved } else { DeviceOutcome::Denied },
        when: texts::ago(state.clock.now().since(decided.at)),
    };
    PageResponse(StatusCode::OK, page).into_response()
}

async fn entry_page(
    state: &WebState,
    visitor: &mut Visitor,
    holder: &KeyHolder,
    code: &str,
    alert: Option<Alert>,
) -> Result<Response, Problem> {
    let page = pages::DevicePage {
        layout: pages::Layout::new(&state.settings),
        token: visitor.token(Purpose::DeviceCode).await?,
        code,
        alert,
        user: holder.user_name(),
    };
    Ok(PageResponse(StatusCode::OK, page).into_response())
}

/// The page for entering the code again, with the reason.
async fn refused(
    state: &WebState,
    visitor: &mut Visitor,
    holder: &KeyHolder,
    code: &str,
    refusal: DeviceRefusal,
) -> Result<Response, Problem> {
    let (status, text, wait) = match refusal {
        DeviceRefusal::Unknown => (
            StatusCode::FORBIDDEN,
            "No device is waiting with this code. Check it; a code can be used once, within 10 minutes. If it has expired, start \
             again on the device.",
            None,
        ),
        DeviceRefusal::NotAllowed => (
            StatusCode::FORBIDDEN,
            "Your key does not open what this device asks for. Log in with another key, or change the address on the \
             device.",
            None,
        ),
        DeviceRefusal::Limited(wait) => (
            StatusCode::TOO_MANY_REQUESTS,
            "Too many wrong codes came from your network or with your key. Wait a few minutes before you try again.",
            Some(wait.as_secs() + 1),
        ),
        // only a decision ends like this, and `decide` shows the consent page again
        DeviceRefusal::Unchosen(_) => return Err(Problem::internal()),
        DeviceRefusal::Unavailable(error) => return Err(error.into()),
    };
    let alert = Alert { text, refusal: RefusalCode::mint(&*state.random) };
    let shown: String = code.chars().take(20).collect();
    let mut response = entry_page(state, visitor, holder, &shown, Some(alert)).await?;
    *response.status_mut() = status;
    response.extensions_mut().insert(RefusalReason { reason: text.into(), code: Some(alert.refusal) });
    if let Some(seconds) = wait {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    Ok(response)
}

// === impl DeviceDecisionForm ===

impl TryFrom<FormFields> for DeviceDecisionForm {
    type Error = serde::de::value::Error;

    fn try_from(mut fields: FormFields) -> Result<Self, Self::Error> {
        Ok(Self {
            token: fields.once("token")?.unwrap_or_default(),
            user_code: fields.once("user_code")?.unwrap_or_default(),
            decision: fields.button()?,
            servers: fields.servers(),
        })
    }
}
