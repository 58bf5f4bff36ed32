-- See ../0220_task_owners.sql.
CREATE TABLE task_owners (
    task BYTEA NOT NULL,
    owner BYTEA NOT NULL,
    server BYTEA NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    client TEXT REFERENCES clients (id) ON DELETE CASCADE,
    api_key TEXT REFERENCES api_keys (id) ON DELETE CASCADE,
    expires BIGINT NOT NULL,
    ended BIGINT NOT NULL CHECK (ended IN (0, 1)),
    PRIMARY KEY (task, owner)
);
CREATE INDEX task_owners_owner ON task_owners (owner, server, expires);
CREATE INDEX task_owners_expires ON task_owners (expires);
CREATE INDEX task_owners_user ON task_owners (user_id);
CREATE INDEX task_owners_client ON task_owners (client) WHERE client IS NOT NULL;
CREATE INDEX task_owners_key ON task_owners (api_key) WHERE api_key IS NOT NULL;
