-- The URIs of the resources that a session's client is subscribed to: a JSON array.
ALTER TABLE mcp_sessions ADD COLUMN subscriptions TEXT NOT NULL DEFAULT '[]';
