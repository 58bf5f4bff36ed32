-- What is known of a client over HTTP+SSE that comes back is found by its owner.
CREATE INDEX mcp_sessions_user ON mcp_sessions (user_id, endpoint, last_seen);
