-- Gateways that share the database, each until its lease ends. Numbers are never used again.
CREATE TABLE replicas (
    number BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    address TEXT NOT NULL,
    public_key BYTEA NOT NULL,
    lease_until BIGINT NOT NULL
);

-- The replica whose process has the session; 0 without replicas.
ALTER TABLE mcp_sessions ADD COLUMN owner BIGINT NOT NULL DEFAULT 0;
