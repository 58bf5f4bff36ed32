-- Clients that sign in place of sending a secret, and clients that the operator registered.

-- Public keys (RFC 7517, a JWK Set). A client that has them authenticates with `private_key_jwt`; its `auth` is 'none',
-- since the check of that column names the other methods alone.
ALTER TABLE clients ADD COLUMN jwks TEXT;
-- Who registered it: the client itself, or the operator.
ALTER TABLE clients ADD COLUMN origin TEXT NOT NULL DEFAULT 'registered';

-- Client assertions that were accepted: digests of client and `jti`. Each is good once (RFC 7523 3). Only an assertion
-- with a right signature leaves a row, and each client leaves 60 at once, then one a second; they live 6 minutes.
CREATE TABLE used_assertions (
    digest BLOB PRIMARY KEY NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX used_assertions_expires ON used_assertions (expires);
