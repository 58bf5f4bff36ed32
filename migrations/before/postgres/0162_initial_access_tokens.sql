-- See ../0162_initial_access_tokens.sql.
CREATE TABLE initial_access_tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    digest BYTEA NOT NULL UNIQUE,
    created BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    uses BIGINT NOT NULL CHECK (uses > 0),
    used BIGINT NOT NULL DEFAULT 0 CHECK (used BETWEEN 0 AND uses),
    revoked BIGINT
);
CREATE INDEX initial_access_tokens_expires ON initial_access_tokens (expires);
