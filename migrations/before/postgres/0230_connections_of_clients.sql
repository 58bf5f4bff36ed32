-- See ../0230_connections_of_clients.sql.
CREATE INDEX mcp_sessions_user ON mcp_sessions (user_id, endpoint, last_seen);
