-- Of which era the servers behind the gateway were found to be. `server` is the SHA-256 of what tells one from another.
CREATE TABLE backend_eras (
    server BLOB PRIMARY KEY NOT NULL,
    era TEXT NOT NULL,
    found INTEGER NOT NULL
) STRICT;
