//! The documents by which authorization servers of servers know the gateway as their client (`UP-4`). They are the same
//! for every name of a server, so they tell nothing of which servers there are.

use axum::{
    Json, Router,
    extract::{Path, State},
    response::{IntoResponse, Response},
    routing::get,
};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use crate::{oauth::cors, upstream::Upstream};

/// The documents.
pub(super) fn router(upstream: Upstream) -> Router {
    cors::open(Router::new().route("/oauth/client-metadata/{file}", get(document)).with_state(upstream))
}

async fn document(State(upstream): State<Upstream>, Path(file): Path<String>) -> Response {
    let Some(document) = upstream.client_metadata(&file) else {
        return (StatusCode::NOT_FOUND, Json(json!({ "error": "not_found" }))).into_response();
    };
    let caching = (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    ([caching], Json(document)).into_response()
}
