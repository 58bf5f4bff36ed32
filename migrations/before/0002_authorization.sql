-- Authorization: people, their API keys, OAuth clients, grants and what rests on them. Times are milliseconds since the
-- epoch. No secret is stored: digests (SHA-256), MACs (HMAC-SHA-256 under the pepper) or ciphertext alone.

CREATE TABLE users (
    id TEXT PRIMARY KEY NOT NULL,
    created INTEGER NOT NULL
) STRICT;

CREATE TABLE api_keys (
    id TEXT PRIMARY KEY NOT NULL,
    user TEXT NOT NULL REFERENCES users (id),
    name TEXT NOT NULL,
    mac BLOB NOT NULL,
    rights TEXT NOT NULL,
    direct INTEGER NOT NULL CHECK (direct IN (0, 1)),
    created INTEGER NOT NULL,
    expires INTEGER,
    last_used INTEGER,
    revoked INTEGER
) STRICT;

CREATE TABLE clients (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,
    auth TEXT NOT NULL CHECK (auth IN ('none', 'client_secret_basic', 'client_secret_post')),
    secret BLOB,
    grant_types TEXT NOT NULL,
    scope TEXT,
    metadata TEXT NOT NULL,
    -- digest of the normalised metadata of a public client: the same registration gets the same id
    fingerprint BLOB UNIQUE,
    created INTEGER NOT NULL,
    -- when somebody first consented to it
    consented INTEGER,
    revoked INTEGER
) STRICT;
CREATE INDEX clients_unused ON clients (created) WHERE consented IS NULL;

-- Authorization requests that wait for a person.
CREATE TABLE transactions (
    id BLOB PRIMARY KEY NOT NULL,
    browser BLOB NOT NULL,
    request TEXT NOT NULL,
    expires INTEGER NOT NULL
) STRICT;
CREATE INDEX transactions_expires ON transactions (expires);

CREATE TABLE grants (
    id TEXT PRIMARY KEY NOT NULL,
    user TEXT NOT NULL REFERENCES users (id),
    api_key TEXT NOT NULL REFERENCES api_keys (id),
    client TEXT NOT NULL REFERENCES clients (id),
    endpoint TEXT NOT NULL,
    scopes TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    last_used INTEGER,
    revoked INTEGER
) STRICT;
CREATE INDEX grants_user ON grants (user);
CREATE INDEX grants_api_key ON grants (api_key);
CREATE INDEX grants_client ON grants (client);

CREATE TABLE codes (
    digest BLOB PRIMARY KEY NOT NULL,
    grant_id TEXT NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    challenge TEXT NOT NULL,
    expires INTEGER NOT NULL,
    used INTEGER
) STRICT;

CREATE TABLE refresh_tokens (
    digest BLOB PRIMARY KEY NOT NULL,
    -- begins the `jti` of every access token that was issued beside this token
    generation TEXT NOT NULL UNIQUE,
    grant_id TEXT NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    expires INTEGER NOT NULL,
    -- when it, or an access token beside it, was first used
    used INTEGER,
    rotated INTEGER,
    -- the digest of what replaced it, and that token itself under a key derived from this one
    successor BLOB,
    sealed BLOB,
    -- when it was replaced as a successor that nobody had received
    withdrawn INTEGER
) STRICT;
CREATE INDEX refresh_tokens_grant ON refresh_tokens (grant_id);

-- Access tokens revoked by themselves.
CREATE TABLE revoked_tokens (
    jti TEXT PRIMARY KEY NOT NULL,
    expires INTEGER NOT NULL
) STRICT;

-- What was revoked, in order: how one process tells the others.
CREATE TABLE revocations (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('grant', 'key', 'token')),
    subject TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

CREATE TABLE signing_keys (
    kid TEXT PRIMARY KEY NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('next', 'active', 'retired')),
    -- base64url coordinates of the public point on P-256
    x TEXT NOT NULL,
    y TEXT NOT NULL,
    -- PKCS#8 under the master key
    sealed BLOB NOT NULL,
    created INTEGER NOT NULL,
    retired INTEGER
) STRICT;
CREATE UNIQUE INDEX signing_keys_active ON signing_keys (state) WHERE state = 'active';
