//! The HTTP headers of MCP (transports pages of all versions).

use http::HeaderName;

/// The session of 2025-03-26 to 2025-11-25.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The protocol version, from 2025-06-18.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The event after which a stream is resumed.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
