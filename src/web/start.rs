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
    let backends = visitor.holder().await?.map(|holder| account::backends(&(state.status)(), &holder));
    let page = StartPage {
        layout: Layout::new(&state.settings),
        root: state.settings.root(),
        backends,
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(PageResponse(StatusCode::OK, page).into_response())
}
