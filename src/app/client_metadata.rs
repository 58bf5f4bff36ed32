//! Client metadata documents, which tell authorization servers of MCP servers about the gateway as their client
//! (`UP-4`). There is one for any name of a server, so they do not reveal which servers exist.

use axum::{
    Json, Router,
    extract::{Path, State},
    response::{IntoResponse, Response},
    routing::get,
};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use crate::{oauth::cors, upstream::Upstream};

/// Route of the documents.
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
