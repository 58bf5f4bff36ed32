//! Bytes to messages and back: framing and headers. Knows nothing of policy, sessions and calls.

pub mod headers;
pub mod sse;
