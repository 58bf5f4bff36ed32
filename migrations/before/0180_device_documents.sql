-- A client that its metadata document describes may start the device grant before the first consent to it, when it has no row:
-- `client` refers to no table, and `document` is the digest of what the person is asked about.
CREATE TABLE device_authorizations_180 (
    device BLOB PRIMARY KEY NOT NULL,
    user_code BLOB NOT NULL UNIQUE,
    client TEXT NOT NULL,
    endpoint TEXT,
    scopes TEXT NOT NULL,
    expires INTEGER NOT NULL,
    denied INTEGER,
    grant_id TEXT REFERENCES grants (id) ON DELETE CASCADE,
    redeemed INTEGER,
    document TEXT
) STRICT;
INSERT INTO device_authorizations_180
    SELECT device, user_code, client, endpoint, scopes, expires, denied, grant_id, redeemed, NULL FROM device_authorizations;
DROP TABLE device_authorizations;
ALTER TABLE device_authorizations_180 RENAME TO device_authorizations;
CREATE INDEX device_authorizations_expires ON device_authorizations (expires);
CREATE INDEX device_authorizations_client ON device_authorizations (client, expires);
CREATE INDEX device_authorizations_grant ON device_authorizations (grant_id) WHERE grant_id IS NOT NULL;
