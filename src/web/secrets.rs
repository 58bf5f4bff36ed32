//! The secrets that users enter for servers, on the connect page of a server and on the account page. No page shows a
//! value.

use std::sync::Arc;

use axum::{
    extract,
    response::{IntoResponse as _, Redirect, Response},
};
use http::StatusCode;
use serde::Deserialize;

use super::{
    accounts,
    connect_address::ConnectAddress,
    forms::Purpose,
    login,
    pages::{self, PageResponse},
    posted_form::PostedForm,
    problem::Problem,
    state::WebState,
    texts,
    visitor::Visitor,
};
use crate::{
    model::{BackendId, InvalidUserSecret, SecretName, user_secret},
    oauth::KeyHolder,
    support::Secret,
    upstream::SecretView,
};

/// Form of a secret. A missing field counts as empty.
#[derive(Deserialize)]
pub(super) struct SecretForm {
    #[serde(default)]
    token: String,
    /// Address of the connect page that asks for it; `None` on the account page.
    address: Option<String>,
    #[serde(default)]
    name: String,
    value: Option<Secret>,
    decision: Option<SecretDecision>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SecretDecision {
    Save,
    Delete,
    Cancel,
}

/// The secrets that servers visible to the holder need, and entered secrets that no server needs any more.
pub(super) async fn of(state: &WebState, holder: &KeyHolder) -> Result<Vec<pages::SecretItem>, Problem> {
    let now = state.clock.now();
    let item = |view: SecretView| pages::SecretItem {
        name: view.name.to_string(),
        servers: view.servers.iter().map(BackendId::as_str).collect::<Vec<_>>().join(", "),
        entered: view.entered.map(|entered| texts::ago(now.since(entered))),
    };
    Ok(accounts::secrets(state, holder).await?.into_iter().map(item).collect())
}

/// The page where the user enters the secret that a server needs.
pub(super) async fn ask_for(
    state: &WebState,
    visitor: &mut Visitor,
    holder: &KeyHolder,
    address: &ConnectAddress,
    name: &SecretName,
) -> Result<Response, Problem> {
    let text = address.text();
    let page = pages::SecretPage {
        layout: pages::Layout::new(&state.settings),
        token: visitor.token(Purpose::Secret(&text)).await?,
        address: &text,
        backend: address.backend.as_str(),
        name: name.as_str(),
        user: holder.user_name(),
    };
    Ok(PageResponse(StatusCode::OK, page).into_response())
}

/// `POST /account/secret`: stores or deletes a secret.
pub(super) async fn decide(
    extract::State(state): extract::State<Arc<WebState>>,
    visitor: Visitor,
    PostedForm(form): PostedForm<SecretForm>,
) -> Result<Response, Problem> {
    let purpose = form.address.as_deref().map_or(Purpose::Account, Purpose::Secret);
    let shown = visitor.shown(purpose, &form.token)?;
    let address = form.address.as_deref().map(|text| ConnectAddress::parse(text).ok_or_else(Problem::foreign_form));
    let address = address.transpose()?;
    if !shown.is_current {
        return Ok(login::go_on(&state, address.as_ref()));
    }
    let holder = visitor.holder().await?.ok_or_else(Problem::logged_out)?;
    let name = SecretName::parse(&form.name).map_err(|_| Problem::not_found())?;
    // a secret that this person's account page does not list looks like one that does not exist
    if !accounts::secrets(&state, &holder).await?.iter().any(|view| view.name == name) {
        return Err(Problem::not_found());
    }
    let secrets = state.upstream.secrets();
    let done = match form.decision {
        Some(SecretDecision::Save) => {
            let entered = form.value.ok_or(InvalidUserSecret::Empty)?;
            secrets.set(&holder.user, &name, &user_secret(entered.expose())?).await?;
            "secret-saved"
        }
        Some(SecretDecision::Delete) => {
            // pressed twice: it is deleted either way
            secrets.delete(&holder.user, &name).await?;
            "secret-deleted"
        }
        Some(SecretDecision::Cancel) | None => return Ok(left(&state, address.as_ref())),
    };
    let base = state.settings.base();
    Ok(Redirect::to(&match address {
        // the page asks for the next thing that the server needs
        Some(address) => format!("{base}/connect/{}", address.text()),
        None => format!("{base}/account?done={done}"),
    })
    .into_response())
}

/// Redirects a person who cancels to the consent page to continue with, or to the account page.
fn left(state: &WebState, address: Option<&ConnectAddress>) -> Response {
    let base = state.settings.base();
    let consent = address.and_then(|address| address.consent.as_ref());
    Redirect::to(
        &consent.map_or_else(|| format!("{base}/account"), |consent| format!("{base}/oauth/consent/{consent}")),
    )
    .into_response()
}

impl From<InvalidUserSecret> for Problem {
    fn from(error: InvalidUserSecret) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            error: "invalid_request",
            title: "This cannot be a secret",
            text: format!("The secret was not saved: {error}. Any earlier one is kept."),
            advice: vec!["Go back, and paste the secret as a single line."],
            retry_after: None,
            reason: None,
        }
    }
}
