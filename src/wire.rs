//! Bytes to messages and back: framing and headers.

pub mod body;
pub mod events;
pub mod headers;
pub mod lines;
pub mod sent_requests;
pub mod sse;
pub mod websocket;
