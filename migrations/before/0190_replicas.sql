-- Gateways that share the database, each until its lease ends. Numbers are never used again.
CREATE TABLE replicas (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    address TEXT NOT NULL,
    public_key BLOB NOT NULL,
    lease_until INTEGER NOT NULL
) STRICT;

-- The replica whose process has the session; 0 without replicas.
ALTER TABLE mcp_sessions ADD COLUMN owner INTEGER NOT NULL DEFAULT 0;
