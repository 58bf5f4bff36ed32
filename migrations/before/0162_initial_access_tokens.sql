-- Tokens with which clients may register where registration is not open (RFC 7591 3). Only the digest is stored.
CREATE TABLE initial_access_tokens (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    -- how many clients may register with it, and how many have
    uses INTEGER NOT NULL CHECK (uses > 0),
    used INTEGER NOT NULL DEFAULT 0 CHECK (used BETWEEN 0 AND uses),
    revoked INTEGER
) STRICT;
CREATE INDEX initial_access_tokens_expires ON initial_access_tokens (expires);
