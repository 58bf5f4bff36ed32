-- Logins through OpenID providers. A provider may name a session of its own when it reports a logout: the digest of issuer
-- and session, and the account that logged in by it.
CREATE TABLE provider_sessions (
    session BLOB PRIMARY KEY NOT NULL,
    key_id TEXT NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
    -- Milliseconds since 1970.
    created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX provider_sessions_key ON provider_sessions (key_id, created);

-- Reports of logouts that were accepted, by a digest: each counts once.
CREATE TABLE provider_logouts (
    report BLOB PRIMARY KEY NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX provider_logouts_expires ON provider_logouts (expires);

-- Logins that last as long as the provider says so: its refresh token, sealed, and when it is asked next.
CREATE TABLE bound_logins (
    key_id TEXT PRIMARY KEY NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
    issuer TEXT NOT NULL,
    refresh_token BLOB NOT NULL,
    due INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX bound_logins_due ON bound_logins (due);
