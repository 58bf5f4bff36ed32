-- A signing key signs from a time on, until a newer one does, and verifies for as long as what it signed can live
-- (OA-101). What it is for follows from the times alone, so that no process has to move it from one state to the next.
CREATE TABLE timed_signing_keys (
    kid TEXT PRIMARY KEY NOT NULL,
    -- base64url coordinates of the public point on P-256
    x TEXT NOT NULL,
    y TEXT NOT NULL,
    -- PKCS#8 under the master key
    sealed BLOB NOT NULL,
    created INTEGER NOT NULL,
    signs_from INTEGER NOT NULL,
    -- neither signs nor verifies from then on
    withdrawn INTEGER
) STRICT;

INSERT INTO timed_signing_keys (kid, x, y, sealed, created, signs_from)
SELECT kid, x, y, sealed, created, created FROM signing_keys WHERE state = 'active';

DROP TABLE signing_keys;
ALTER TABLE timed_signing_keys RENAME TO signing_keys;
