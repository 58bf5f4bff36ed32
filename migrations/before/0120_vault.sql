-- Secrets of users at servers behind the gateway: their tokens, and values that they enter. Each is sealed under a key of
-- the user (a data key), and that key under the master key, which is never in the database.
CREATE TABLE data_keys (
    -- a user; empty: the gateway itself
    owner TEXT PRIMARY KEY NOT NULL,
    sealed BLOB NOT NULL,
    -- number of the master key: it grows with each rotation
    version INTEGER NOT NULL,
    created INTEGER NOT NULL
) STRICT;

-- Tokens of a user at a protected server.
CREATE TABLE upstream_tokens (
    user TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    backend TEXT NOT NULL,
    -- digest of the server's address: tokens are for this server alone
    server BLOB NOT NULL,
    issuer TEXT NOT NULL,
    resource TEXT,
    scope TEXT,
    -- tokens, the client that got them, and the endpoints of the authorization server
    sealed BLOB NOT NULL,
    connected INTEGER NOT NULL,
    -- grows with each refresh
    version INTEGER NOT NULL,
    PRIMARY KEY (user, backend)
) STRICT;

-- Tokens that were deleted and are still to be revoked at their authorization server (RFC 7009).
CREATE TABLE upstream_withdrawn (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL,
    backend TEXT NOT NULL,
    issuer TEXT NOT NULL,
    sealed BLOB NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0
) STRICT;

-- whatever deletes tokens, the end of their user too
CREATE TRIGGER upstream_tokens_deleted AFTER DELETE ON upstream_tokens BEGIN
    INSERT INTO upstream_withdrawn (user, backend, issuer, sealed)
    VALUES (OLD.user, OLD.backend, OLD.issuer, OLD.sealed);
END;

-- The gateway's own registrations at authorization servers; used at no other issuer.
CREATE TABLE upstream_clients (
    backend TEXT NOT NULL,
    issuer TEXT NOT NULL,
    sealed BLOB NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (backend, issuer)
) STRICT;

-- Authorization requests that a browser was sent to an authorization server with.
CREATE TABLE upstream_requests (
    -- digest of `state`
    state BLOB PRIMARY KEY NOT NULL,
    user TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    backend TEXT NOT NULL,
    -- digest of the browser session that may end it
    browser BLOB NOT NULL,
    issuer TEXT NOT NULL,
    sealed BLOB NOT NULL,
    expires INTEGER NOT NULL
) STRICT;
CREATE INDEX upstream_requests_expires ON upstream_requests (expires);
CREATE INDEX upstream_requests_user ON upstream_requests (user);

-- Values that users enter for servers that need one from each of them.
CREATE TABLE user_secrets (
    user TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    sealed BLOB NOT NULL,
    changed INTEGER NOT NULL,
    PRIMARY KEY (user, name)
) STRICT;
