//! Logouts that OpenID providers report (Back-Channel Logout 1.0; `UP-14`). `openid` verifies the reports.

use std::sync::Arc;

use axum::{
    extract::{self, Path},
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::json;

use super::{posted_form::PostedForm, problem::Problem, provider_login::session_digest, state::WebState};
use crate::{
    model::KeyId,
    openid::{Logout, OpenIdError},
    support::Digest,
};

/// The form sent by a provider.
#[derive(Deserialize)]
pub(super) struct LogoutForm {
    #[serde(default)]
    logout_token: String,
}

/// `POST /oauth/login/backchannel/{provider}`: ends the browser sessions and the grants of the person who logged out
/// there. A report about an unknown person succeeds: nobody is logged in.
pub(super) async fn receive(
    extract::State(state): extract::State<Arc<WebState>>,
    Path(provider): Path<String>,
    PostedForm(form): PostedForm<LogoutForm>,
) -> Result<Response, Problem> {
    let logout = match state.providers.logout(&provider, &form.logout_token).await {
        Ok(logout) => logout,
        Err(OpenIdError::Unknown) => return Err(Problem::not_found()),
        Err(error) => {
            tracing::warn!(provider, %error, "a logout report was refused");
            return Ok(refusal("the logout token is not valid"));
        }
    };
    let report = Digest::sha256(format!("{} {}", logout.issuer, logout.id));
    let logins = state.storage.provider_logins();
    let is_new = logins.add_report(&report, logout.expires, state.clock.now()).await;
    if !is_new.map_err(|error| Problem::from_storage(&error))? {
        return Ok(refusal("the logout token was used before"));
    }
    if let Some(key) = account(&state, &logout).await? {
        state.oauth.keys().log_out_account(&key, &logout.issuer).await?;
    }
    Ok((StatusCode::OK, [no_store()]).into_response())
}

/// The account that logged out: the subject's, else the one that logged in with the ended session.
async fn account(state: &WebState, logout: &Logout) -> Result<Option<KeyId>, Problem> {
    match (&logout.subject, &logout.session) {
        (Some(subject), _) => Ok(state.oauth.keys().find_person(&logout.issuer, subject).await?),
        (None, Some(session)) => {
            let session = session_digest(&logout.issuer, session);
            let found = state.storage.provider_logins().find_by_session(&session).await;
            found.map_err(|error| Problem::from_storage(&error))
        }
        (None, None) => Ok(None),
    }
}

fn refusal(description: &str) -> Response {
    let body = json!({ "error": "invalid_request", "error_description": description });
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    (StatusCode::BAD_REQUEST, [kind, no_store()], body.to_string()).into_response()
}

const fn no_store() -> (header::HeaderName, HeaderValue) {
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))
}
