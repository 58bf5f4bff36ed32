//! The page of an invitation (`OA-155`). `oauth` decides about links; this file handles HTML, and logins that happen
//! while the page is open.
//!
//! Chats load every link before anyone opens it, so reading the page changes nothing. The secret is in the query, which
//! the proxy configurations in `deploy/` do not log.

use std::sync::Arc;

use axum::{
    extract::{self, Query, Request, rejection::QueryRejection},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;

use super::{
    forms::Purpose,
    pages::{self, PageResponse},
    posted_form::PostedForm,
    problem::Problem,
    state::WebState,
    texts,
    visitor::Visitor,
};
use crate::{
    audit::LoginEvent,
    model::{Invitation, InvitationLink, InvitationOffer, Invitee},
    oauth::{InvitationRequest, KeyHolder},
    support::Secret,
};

/// Query of the page. A missing parameter counts as empty.
#[derive(Deserialize)]
pub(super) struct InviteQuery {
    #[serde(default)]
    i: String,
}

/// Form of the page. A missing field counts as empty.
#[derive(Deserialize)]
pub(super) struct InviteForm {
    #[serde(default)]
    token: String,
    /// The secret of the link.
    #[serde(default)]
    i: String,
    /// Id of the key of the person who is logged in. Only a page that warned this person of being logged out sends it.
    #[serde(default)]
    leave: String,
}

/// Middleware: keeps invitations out of search engines.
pub(super) async fn unlisted(request: Request, next: Next) -> Response {
    let mut answer = next.run(request).await;
    let rule = (HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex, nofollow"));
    answer.headers_mut().extend([rule]);
    answer
}

/// `GET /invite`: says who invites whom, and to what.
pub(super) async fn show(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    query: Result<Query<InviteQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let link = Secret::new(query.map(|Query(query)| query.i).unwrap_or_default());
    let present = visitor.holder().await?;
    if let Some(holder) = &present
        && state.oauth.invitations().made(&link, &holder.key).await?
    {
        return Ok(invited(&state, holder, None));
    }
    asked(&state, &mut visitor, &link, present).await
}

/// `POST /invite`: makes the key, once, and logs the browser in with it.
pub(super) async fn accept(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    PostedForm(form): PostedForm<InviteForm>,
) -> Result<Response, Problem> {
    visitor.shown(Purpose::Invitation(&form.i), &form.token)?;
    let (link, token) = (Secret::new(form.i), Secret::new(form.token));
    let request = InvitationRequest { link: &link, form: &token, from: visitor.from };
    let (invitations, present) = (state.oauth.invitations(), visitor.holder().await?);
    if let Some(holder) = present {
        if invitations.made(&link, &holder.key).await? {
            // pressed twice: this form shows its key again, a form in another tab does not
            let again = invitations.again(request).await?;
            return Ok(invited(&state, &holder, again.as_ref().map(|accepted| &accepted.key)));
        }
        if form.leave != holder.key.as_str() {
            // somebody logged in after the page was shown
            return asked(&state, &mut visitor, &link, Some(holder)).await;
        }
    }
    let accepted = invitations.accept(request).await?;
    visitor.log_in(&accepted.holder, Some(state.clock.now())).await?;
    let (user, key) = (accepted.holder.user.clone(), accepted.holder.key.clone());
    state.oauth.audit().record(LoginEvent::LoggedIn { user, key });
    Ok(invited(&state, &accepted.holder, Some(&accepted.key)))
}

/// The open invitation, with a warning to the person who is logged in, if any.
async fn asked(
    state: &WebState,
    visitor: &mut Visitor,
    link: &Secret,
    present: Option<KeyHolder>,
) -> Result<Response, Problem> {
    let Invitation { offer, rights, inviter, .. } = &state.oauth.invitations().find(link, visitor.from).await?;
    let InvitationOffer::Link(InvitationLink { user, invitee, key_life, expires, .. }) = offer else {
        return Err(Problem::unusable_link());
    };
    let page = pages::InvitePage {
        layout: pages::Layout::new(&state.settings),
        token: visitor.token(Purpose::Invitation(link.expose())).await?,
        link: link.expose(),
        inviter: inviter.as_ref().map_or("The operator of this gateway", |inviter| inviter.as_str()),
        user: user.as_str(),
        is_further: *invitee == Invitee::Existing,
        permissions: texts::rights(rights, &state.oauth.settings().backends.groups()),
        key_life: key_life.map(texts::span),
        valid: texts::span_left(expires.since(state.clock.now())),
        present: present
            .as_ref()
            .map(|holder| pages::PresentPerson { name: holder.user_name(), key: holder.key.as_str() }),
    };
    Ok(PageResponse(StatusCode::OK, page).into_response())
}

/// The page after an invitation was accepted, with the key if it may be shown.
fn invited(state: &WebState, holder: &KeyHolder, key: Option<&Secret>) -> Response {
    let page = pages::InvitedPage {
        layout: pages::Layout::new(&state.settings),
        user: holder.user_name(),
        key: key.map(Secret::expose),
    };
    PageResponse(StatusCode::OK, page).into_response()
}
