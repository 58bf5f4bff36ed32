-- What a grant, a browser session and a verified credential rest on is a row of `api_keys`. Besides keys with a secret
-- there are accounts that somebody else vouches for: of a person at an OpenID provider, and of a client (its service
-- account). Nothing can be presented for those: their `mac` is empty, which no digest equals.
ALTER TABLE api_keys ADD COLUMN kind TEXT NOT NULL DEFAULT 'secret';
-- Who vouches, and for whom: issuer and subject of a person at a provider; an empty issuer and the id of a client.
ALTER TABLE api_keys ADD COLUMN issuer TEXT;
ALTER TABLE api_keys ADD COLUMN subject TEXT;
CREATE UNIQUE INDEX api_keys_account ON api_keys (kind, issuer, subject)
    WHERE subject IS NOT NULL AND revoked IS NULL;
CREATE INDEX api_keys_accounts ON api_keys (kind, issuer, subject, created) WHERE subject IS NOT NULL;
