//! The authorization server (OAuth 2.1, RFC 8414, RFC 7591, RFC 7009). Knows nothing of MCP messages and of pages.
