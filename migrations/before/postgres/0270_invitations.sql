-- See ../0270_invitations.sql.
CREATE TABLE invitations (
    id TEXT PRIMARY KEY NOT NULL,
    digest BYTEA UNIQUE,
    user_id TEXT,
    further BIGINT NOT NULL DEFAULT 0 CHECK (further IN (0, 1)),
    issuer TEXT,
    email TEXT,
    subject TEXT,
    rights TEXT NOT NULL,
    key_life BIGINT,
    inviter TEXT NOT NULL DEFAULT '',
    created_by TEXT NOT NULL,
    created BIGINT NOT NULL,
    expires BIGINT,
    accepted BIGINT,
    key_id TEXT,
    outcome BYTEA,
    revoked BIGINT,
    CHECK ((digest IS NULL) = (email IS NOT NULL))
);
CREATE INDEX invitations_user ON invitations (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX invitations_inviter ON invitations (inviter);
CREATE INDEX invitations_address ON invitations (issuer, email) WHERE email IS NOT NULL;
CREATE INDEX invitations_subject ON invitations (issuer, subject) WHERE subject IS NOT NULL;
CREATE INDEX invitations_expires ON invitations (expires) WHERE expires IS NOT NULL;
CREATE INDEX invitations_outcome ON invitations (accepted) WHERE outcome IS NOT NULL;

ALTER TABLE api_keys ADD COLUMN given_by TEXT;
ALTER TABLE api_keys ADD COLUMN changed BIGINT;
ALTER TABLE api_keys ADD COLUMN changed_by TEXT;

ALTER TABLE api_keys ADD COLUMN confirmed BIGINT;
UPDATE api_keys SET confirmed = CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) WHERE kind = 'provider' AND revoked IS NULL;
CREATE INDEX api_keys_confirmed ON api_keys (issuer, confirmed) WHERE confirmed IS NOT NULL;
