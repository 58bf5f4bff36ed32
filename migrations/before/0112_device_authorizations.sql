-- Devices that wait for a person (RFC 8628). `device` is the SHA-256 of the device code, `user_code` the MAC of the code
-- that the person enters. Neither is stored itself.
CREATE TABLE device_authorizations (
    device BLOB PRIMARY KEY NOT NULL,
    user_code BLOB NOT NULL UNIQUE,
    client TEXT NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
    -- the endpoint of `resource`, if the request names one, and the scopes that it asks for
    endpoint TEXT,
    scopes TEXT NOT NULL,
    expires INTEGER NOT NULL,
    -- the decision: one of the two, once
    denied INTEGER,
    grant_id TEXT REFERENCES grants (id) ON DELETE CASCADE,
    redeemed INTEGER
) STRICT;
CREATE INDEX device_authorizations_expires ON device_authorizations (expires);
CREATE INDEX device_authorizations_client ON device_authorizations (client, expires);
CREATE INDEX device_authorizations_grant ON device_authorizations (grant_id) WHERE grant_id IS NOT NULL;
