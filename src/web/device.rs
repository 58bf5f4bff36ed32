//! The pages of the device grant (RFC 8628 3.3; `OA-146`): entry of the code, decision. `oauth` knows the devices; this file
//! has HTML and redirects.

use std::sync::Arc;

use axum::{
    extract::{self, Query, rejection::QueryRejection},
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;

use super::{
    accounts,
    forms::Purpose,
    login,
    opened_servers::OpenedServers,
    pages::{self, Alert, ConsentSubject, DeviceOutcome, PageResponse},
    posted_form::PostedForm,
    problem::Problem,
    state::WebState,
    texts,
    visitor::Visitor,
};
use crate::{
    model::{RefusalCode, RefusalReason},
    oauth::{DeviceRefusal, KeyHolder, UserCode},
    support::Secret,
};

/// Query of the page.
#[derive(Debug, Deserialize)]
pub(super) struct CodeQuery {
    #[serde(default)]
    user_code: String,
}

/// Form of the page on which the code is entered. A missing field counts as empty.
#[derive(Deserialize)]
pub(super) struct CodeForm {
    #[serde(default)]
    token: String,
    #[serde(default)]
    user_code: String,
}

/// Form of the consent page.
#[derive(Deserialize)]
pub(super) struct DeviceDecisionForm {
    #[serde(default)]
    token: String,
    #[serde(default)]
    user_code: String,
    decision: Option<DeviceDecision>,
}

/// Button that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DeviceDecision {
    Approve,
    Deny,
}

/// `GET /device`: after a login the page on which the code is entered. A code in the URL fills the field and is not tried
/// before the person sends it (RFC 8628 3.3.1).
pub(super) async fn show(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    query: Result<Query<CodeQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let given = query.map(|Query(query)| query.user_code).unwrap_or_default();
    let code = UserCode::parse(&given).map(|code| code.to_string()).unwrap_or_default();
    if let Some(holder) = visitor.holder().await? {
        return entry_page(&state, &mut visitor, &holder, (&code, None)).await;
    }
    let page = pages::LoginPage { device: Some(code), ..login::page(&state, &mut visitor, None).await? };
    Ok(PageResponse(StatusCode::OK, page).into_response())
}

/// `POST /device`: the consent page of the device with this code.
pub(super) async fn enter(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    PostedForm(form): PostedForm<CodeForm>,
) -> Result<Response, Problem> {
    visitor.shown(Purpose::DeviceCode, &form.token)?;
    let Some(holder) = visitor.holder().await? else { return Ok(login::to_device(&state, &form.user_code)) };
    let Some(code) = UserCode::parse(&form.user_code) else {
        return refused(&state, &mut visitor, (&holder, &form.user_code), DeviceRefusal::Unknown).await;
    };
    let pending = match state.oauth.devices().pending(&code, &holder, visitor.from).await {
        Ok(pending) => pending,
        Err(refusal) => return refused(&state, &mut visitor, (&holder, &form.user_code), refusal).await,
    };
    let code = code.to_string();
    let opened = OpenedServers::new(&state, &holder, &pending.endpoint.target, &pending.scopes);
    let page = pages::ConsentPage {
        layout: pages::Layout::new(&state.settings),
        token: visitor.token(Purpose::Device(&code)).await?,
        client: &pending.client.name,
        origin: &pending.origin,
        accounts: accounts::of_grant(&state, &holder, &opened).await?,
        permissions: texts::permissions(&pending.scopes, &state.oauth.settings().backends.groups()),
        servers: opened.sentence(&state),
        resource: &pending.resource,
        lifetime: texts::span(pending.grant_lifetime),
        user: holder.user_name(),
        subject: ConsentSubject::Device { code },
    };
    Ok(PageResponse(StatusCode::OK, page).into_response())
}

/// `POST /device/decision`: every approval is a click of a logged-in person.
pub(super) async fn decide(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    PostedForm(form): PostedForm<DeviceDecisionForm>,
) -> Result<Response, Problem> {
    let shown = visitor.shown(Purpose::Device(&form.user_code), &form.token)?;
    if !shown.is_current {
        // from before a login: it approves nothing, and the code is entered again
        return Ok(login::to_device(&state, &form.user_code));
    }
    let holder = visitor.holder().await?.ok_or_else(Problem::logged_out)?;
    let code = UserCode::parse(&form.user_code).ok_or_else(Problem::foreign_form)?;
    let (devices, token) = (state.oauth.devices(), Secret::new(&*form.token));
    let decided = match (devices.decided(&code, &token).await, form.decision) {
        (Ok(Some(earlier)), _) => Ok(earlier),
        (Err(refusal), _) => Err(refusal),
        (Ok(None), Some(DeviceDecision::Approve)) => devices.approve((&code, &token), &holder, visitor.from).await,
        (Ok(None), Some(DeviceDecision::Deny)) => devices.deny((&code, &token), &holder, visitor.from).await,
        (Ok(None), None) => return Ok(login::to_device(&state, &form.user_code)),
    };
    match decided {
        Ok(decided) => {
            let page = pages::DeviceDecidedPage {
                layout: pages::Layout::new(&state.settings),
                client: &decided.client_name,
                outcome: if decided.is_approved { DeviceOutcome::Approved } else { DeviceOutcome::Denied },
                when: texts::ago(state.clock.now().since(decided.at)),
            };
            Ok(PageResponse(StatusCode::OK, page).into_response())
        }
        Err(refusal) => refused(&state, &mut visitor, (&holder, &form.user_code), refusal).await,
    }
}

async fn entry_page(
    state: &WebState,
    visitor: &mut Visitor,
    holder: &KeyHolder,
    (code, alert): (&str, Option<Alert>),
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

/// The page on which a code is entered once more, with the reason.
async fn refused(
    state: &WebState,
    visitor: &mut Visitor,
    (holder, code): (&KeyHolder, &str),
    refusal: DeviceRefusal,
) -> Result<Response, Problem> {
    let (status, text, wait) = match refusal {
        DeviceRefusal::Unknown => (
            StatusCode::FORBIDDEN,
            "No device waits with this code. Check it; a code is valid for 10 minutes and once. If it has expired, start \
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
            "Too many wrong codes came from your network or with your key. Wait some minutes before the next try.",
            Some(wait.as_secs() + 1),
        ),
        DeviceRefusal::Unavailable(error) => return Err(error.into()),
    };
    let alert = Alert { text, refusal: RefusalCode::mint(&*state.random) };
    let shown: String = code.chars().take(20).collect();
    let mut response = entry_page(state, visitor, holder, (&shown, Some(alert))).await?;
    *response.status_mut() = status;
    response.extensions_mut().insert(RefusalReason { reason: text.into(), code: Some(alert.refusal) });
    if let Some(seconds) = wait {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    Ok(response)
}
