-- The last lists of each server, shown after a restart until it answers. An empty `user_id` is everybody; the lists of a user are
-- sealed under that user's data key.
CREATE TABLE server_lists (
    server TEXT NOT NULL,
    user_id TEXT NOT NULL,
    -- SHA-256 of the client capabilities that the server was told.
    capabilities BYTEA NOT NULL,
    -- The method that lists.
    method TEXT NOT NULL,
    -- SHA-256 of the server's section in the configuration.
    section BYTEA NOT NULL,
    -- The protocol version of the list.
    revision TEXT NOT NULL,
    list BYTEA NOT NULL,
    stored BIGINT NOT NULL,
    PRIMARY KEY (server, user_id, capabilities, method)
);
CREATE INDEX server_lists_of_user ON server_lists (user_id);
CREATE INDEX server_lists_by_age ON server_lists (stored);
