-- Owners of tasks at servers. Of a task the row has only the SHA-256 of its server and its id.
CREATE TABLE task_owners (
    task BLOB NOT NULL,
    owner BLOB NOT NULL,
    server BLOB NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    client TEXT REFERENCES clients (id) ON DELETE CASCADE,
    api_key TEXT REFERENCES api_keys (id) ON DELETE CASCADE,
    expires INTEGER NOT NULL,
    ended INTEGER NOT NULL CHECK (ended IN (0, 1)),
    PRIMARY KEY (task, owner)
) STRICT, WITHOUT ROWID;
CREATE INDEX task_owners_owner ON task_owners (owner, server, expires);
CREATE INDEX task_owners_expires ON task_owners (expires);
CREATE INDEX task_owners_user ON task_owners (user_id);
CREATE INDEX task_owners_client ON task_owners (client) WHERE client IS NOT NULL;
CREATE INDEX task_owners_key ON task_owners (api_key) WHERE api_key IS NOT NULL;
