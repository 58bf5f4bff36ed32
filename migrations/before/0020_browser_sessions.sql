-- Browser sessions, for login and consent. Ids are stored as digests alone.
CREATE TABLE browser_sessions (
    id_digest BLOB PRIMARY KEY NOT NULL,
    -- The API key that the person logged in with; NULL before the login.
    key_id TEXT,
    -- What the pages remember: JSON.
    data TEXT NOT NULL,
    -- Milliseconds since 1970.
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX browser_sessions_used_at ON browser_sessions (used_at);
