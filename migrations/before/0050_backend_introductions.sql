-- What each backend last said of itself. `server` is the SHA-256 of what tells one server from another.
CREATE TABLE backend_introductions (
    backend TEXT PRIMARY KEY NOT NULL,
    server BLOB NOT NULL,
    revision TEXT NOT NULL,
    result BLOB NOT NULL
) STRICT;
