-- Certificates toward clients, from an ACME authority. `place` is the authority's directory and the names, and each place has one row,
-- also before its first certificate.
CREATE TABLE certificates (
    place TEXT PRIMARY KEY NOT NULL,
    -- PEM, with those up to the authority; the key is PEM under the gateway's data key.
    chain TEXT,
    sealed BYTEA,
    -- The time of the next order, in milliseconds since the epoch.
    due BIGINT NOT NULL,
    -- The order under way, and the key that it asks a certificate for, sealed in the same way.
    order_url TEXT,
    order_key BYTEA,
    -- The process that works on it, until then.
    holder TEXT,
    held_until BIGINT,
    -- Orders that failed since the last certificate, and the last of them.
    failures BIGINT NOT NULL DEFAULT 0,
    failed BIGINT,
    failure TEXT
);

-- Accounts at authorities: the credentials, sealed in the same way.
CREATE TABLE acme_accounts (
    directory TEXT PRIMARY KEY NOT NULL,
    sealed BYTEA NOT NULL
);

-- What proves to an authority that a name belongs to this gateway. Every replica answers.
CREATE TABLE acme_challenges (
    token TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    key_authorization TEXT NOT NULL,
    expires BIGINT NOT NULL
);
