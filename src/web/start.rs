//! The start page: a short description, and the URL for clients.

use std::sync::Arc;

use axum::response::IntoResponse as _;
use axum::{extract, response::Response};
use http::StatusCode;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::{
    account, accounts,
    pages::{Layout, PageResponse, StartPage},
    problem::Problem,
    state::WebState,
    visitor::Visitor,
};
use crate::model::status::ListedClients;

/// `GET /`. Shows the state of the backends after a login.
pub(super) async fn show(
    extract::State(state): extract::State<Arc<WebState>>,
    visitor: Visitor,
) -> Result<Response, Problem> {
    let (holder, status) = (visitor.holder().await?, (state.status)(ListedClients::Nobodys));
    // a visitor whose key does not open the merged endpoint sees one that it opens
    let group = holder.as_ref().and_then(|holder| account::only_group(&state, &status, holder));
    let path = group.map(|group| format!("/{}", group.id)).unwrap_or_default();
    let endpoint = format!("{}/mcp{path}", state.settings.root());
    let backends = match &holder {
        Some(holder) => {
            let missing = accounts::missing(&state, holder).await?;
            Some(account::backends(&state, &status, holder, &missing))
        }
        None => None,
    };
    let page = StartPage {
        layout: Layout::new(&state.settings),
        root: state.settings.root(),
        path,
        cursor: cursor_link(&endpoint),
        vs_code: vs_code_link(&endpoint),
        backends,
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(PageResponse(StatusCode::OK, page).into_response())
}

/// The link that adds the server to Cursor (Cursor, MCP install links).
fn cursor_link(endpoint: &str) -> String {
    let entry = BASE64_STANDARD.encode(json!({ "url": endpoint }).to_string());
    let entry = utf8_percent_encode(&entry, NON_ALPHANUMERIC);
    format!("cursor://anysphere.cursor-deeplink/mcp/install?name=lockkeeper&config={entry}")
}

/// The link that adds the server to VS Code (VS Code, MCP installation URL).
fn vs_code_link(endpoint: &str) -> String {
    let entry = json!({ "name": "lockkeeper", "type": "http", "url": endpoint }).to_string();
    format!("vscode:mcp/install?{}", utf8_percent_encode(&entry, NON_ALPHANUMERIC))
}
