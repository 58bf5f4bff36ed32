//! The start page: what this is, and the address to give to clients.

use std::sync::Arc;

use axum::response::IntoResponse as _;
use axum::{extract, response::Response};
use http::StatusCode;

use super::{
    account,
    pages::{Frame, Page, Start},
    problem::Problem,
    state::State,
    visit::Visitor,
};

/// `GET /`. The state of the backends is shown to those who are logged in.
pub(super) async fn show(
    extract::State(state): extract::State<Arc<State>>,
    visitor: Visitor,
) -> Result<Response, Problem> {
    let backends = visitor.holder().await?.map(|holder| account::backends(&(state.status)(), &holder));
    let page = Start {
        frame: Frame::new(&state.settings),
        root: state.settings.root(),
        backends,
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(Page(StatusCode::OK, page).into_response())
}
