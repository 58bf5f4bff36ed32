-- People are invited. A link makes its user's key once: of its secret only the digest is stored. A rule lets a verified email
-- address in at a login provider, until it is revoked.
CREATE TABLE invitations (
    id TEXT PRIMARY KEY NOT NULL,
    -- SHA-256 of the secret of a link; a rule has none
    digest BLOB UNIQUE,
    -- user whose key a link makes, and 1 if that is a user who exists
    user_id TEXT,
    further INTEGER NOT NULL DEFAULT 0 CHECK (further IN (0, 1)),
    -- issuer and address of a rule, and the subject there that it let in first
    issuer TEXT,
    email TEXT,
    subject TEXT,
    rights TEXT NOT NULL,
    -- life of the key, in milliseconds
    key_life INTEGER,
    -- user who invites; empty: the operator
    inviter TEXT NOT NULL DEFAULT '',
    -- who made it
    created_by TEXT NOT NULL,
    created INTEGER NOT NULL,
    -- end of a link, or of a rule that was revoked
    expires INTEGER,
    accepted INTEGER,
    -- key that a link made
    key_id TEXT,
    -- that key, sealed under the token of the form that took the link, for ten minutes
    outcome BLOB,
    revoked INTEGER,
    CHECK ((digest IS NULL) = (email IS NOT NULL))
) STRICT;
CREATE INDEX invitations_user ON invitations (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX invitations_inviter ON invitations (inviter);
CREATE INDEX invitations_address ON invitations (issuer, email) WHERE email IS NOT NULL;
CREATE INDEX invitations_subject ON invitations (issuer, subject) WHERE subject IS NOT NULL;
CREATE INDEX invitations_expires ON invitations (expires) WHERE expires IS NOT NULL;
CREATE INDEX invitations_outcome ON invitations (accepted) WHERE outcome IS NOT NULL;

-- Who gave a key its rights, and when and by whom they were changed last.
ALTER TABLE api_keys ADD COLUMN given_by TEXT;
ALTER TABLE api_keys ADD COLUMN changed INTEGER;
ALTER TABLE api_keys ADD COLUMN changed_by TEXT;

-- When the login provider of an account last confirmed it; NULL once its apps have ended for want of that. Accounts that exist
-- count as confirmed at the first start with this.
ALTER TABLE api_keys ADD COLUMN confirmed INTEGER;
UPDATE api_keys SET confirmed = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE kind = 'provider' AND revoked IS NULL;
CREATE INDEX api_keys_confirmed ON api_keys (issuer, confirmed) WHERE confirmed IS NOT NULL;
