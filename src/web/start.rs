//! The start page: a short description, and the URL for clients.

use std::sync::Arc;

use axum::response::IntoResponse as _;
use axum::{extract, response::Response};
use http::StatusCode;

use super::{
    account,
    pages::{Layout, PageResponse, StartPage},
    problem::Problem,
    state::WebState,
    visitor::Visitor,
};

/// `GET /`. Shows the state of the backends after a login.
pub(super) async fn show(
    extract::State(state): extract::State<Arc<WebState>>,
    visitor: Visitor,
) -> Result<Response, Problem> {
    let (holder, status) = (visitor.holder().await?, (state.status)());
    // whose key does not open the merged endpoint is shown one that it opens
    let group = holder.as_ref().and_then(|holder| account::only_group(&status, holder));
    let page = StartPage {
        layout: Layout::new(&state.settings),
        root: state.settings.root(),
        path: group.map(|group| format!("/{}", group.id)).unwrap_or_default(),
        backends: holder.map(|holder| account::backends(&status, &holder)),
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(PageResponse(StatusCode::OK, page).into_response())
}
