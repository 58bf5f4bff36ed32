//! The page for an authorization request that was already decided, or that belongs to someone else.

use axum::response::{IntoResponse as _, Response};
use http::StatusCode;

use super::{
    pages::{self, PageResponse},
    problem::Problem,
    state::WebState,
    texts,
    visitor::Visitor,
};
use crate::oauth::{DecidedRequest, TransactionId};

/// The page that shows what was decided and when, with a plain link to the app.
pub(super) fn page(state: &WebState, request: &DecidedRequest) -> Response {
    let page = pages::DecidedPage {
        layout: pages::Layout::new(&state.settings),
        client: &request.client_name,
        decision: request.decision,
        when: texts::ago(state.clock.now().since(request.at)),
        home: &request.home,
    };
    PageResponse(StatusCode::OK, page).into_response()
}

/// The page for a request that belongs to someone else; `None` if it does not, or if nobody is logged in.
pub(super) async fn of_another(
    state: &WebState,
    visitor: &Visitor,
    id: &TransactionId,
) -> Result<Option<Problem>, Problem> {
    let Some(holder) = visitor.holder().await? else { return Ok(None) };
    let user = state.oauth.authorization().user_of(id).await?;
    Ok(user.filter(|user| *user != holder.user).map(|_| Problem::of_another_person(holder.user_name())))
}
