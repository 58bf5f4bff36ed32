//! The transports toward clients: they turn bytes, status codes and headers into messages, and messages back. HTTP
//! stays in this module.

mod channel;
mod held_bytes;
mod meant_transport;
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
        routing::post(streamable::post).get(meant_transport::get_at_mcp).delete(streamable::delete)
    };
    let sse = || -> MethodRouter<Arc<FrontendState>> {
        routing::get(meant_transport::get_at_sse)
            .post(meant_transport::post_at_sse)
            .delete(meant_transport::delete_at_sse)
    };
    Router::new()
        .route("/mcp", mcp())
        .route("/mcp/", mcp())
        .route("/mcp/{backend}", mcp())
        .route("/mcp/{backend}/", mcp())
        .route("/sse", sse())
        .route("/sse/{backend}", sse())
        .route("/messages", routing::post(sse::post))
        .route("/ws", routing::get(websocket::get))
        .route("/ws/{backend}", routing::get(websocket::get))
        .with_state(state)
}
