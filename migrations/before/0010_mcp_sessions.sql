-- MCP sessions of legacy clients, so that they outlive the process. The id itself is never stored, only its SHA-256.
CREATE TABLE mcp_sessions (
    digest BLOB PRIMARY KEY NOT NULL,
    user TEXT NOT NULL,
    client TEXT,
    key TEXT,
    endpoint TEXT NOT NULL,
    revision TEXT NOT NULL,
    implementation BLOB NOT NULL,
    capabilities BLOB NOT NULL,
    log_level TEXT,
    initialized INTEGER NOT NULL,
    created INTEGER NOT NULL,
    last_seen INTEGER NOT NULL
) STRICT;

CREATE INDEX mcp_sessions_last_seen ON mcp_sessions (last_seen);
