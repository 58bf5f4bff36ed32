//! Bindings of clients: bytes, status codes and headers on one side, messages on the other. No other module of the client
//! side knows HTTP.

mod channel;
mod held_bytes;
mod mirrored_request;
mod refusal;
mod request_head;
mod response;
mod sse;
mod stateless;
pub(super) mod stdio;
mod streamable;
mod unheard;
mod websocket;

use std::sync::Arc;

use axum::{
    Router,
    routing::{self, MethodRouter},
};

pub(super) use self::unheard::take_unheard;
pub use self::{stdio::UpgradeOffer, streamable::StreamableHttp};
use super::state::FrontendState;

/// The routes of the MCP endpoints.
pub(super) fn router(state: Arc<FrontendState>) -> Router {
    let mcp = || -> MethodRouter<Arc<FrontendState>> {
        routing::post(streamable::post).get(streamable::get).delete(streamable::delete)
    };
    Router::new()
        .route("/mcp", mcp())
        .route("/mcp/", mcp())
        .route("/mcp/{backend}", mcp())
        .route("/mcp/{backend}/", mcp())
        .route("/sse", routing::get(sse::get))
        .route("/sse/{backend}", routing::get(sse::get))
        .route("/messages", routing::post(sse::post))
        .route("/ws", routing::get(websocket::get))
        .route("/ws/{backend}", routing::get(websocket::get))
        .with_state(state)
}
