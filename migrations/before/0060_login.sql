-- Nothing is stored for people who have not logged in: a request that waits for a login is sealed in the form. Here are
-- the requests that wait for the decision of somebody who has. What waited without a login is dropped.
DROP TABLE transactions;
CREATE TABLE transactions (
    id BLOB PRIMARY KEY NOT NULL,
    browser BLOB NOT NULL,
    user TEXT NOT NULL,
    request TEXT NOT NULL,
    expires INTEGER NOT NULL,
    -- When the person decided. The row stays until it expires, so that the same request cannot be added again.
    decided INTEGER
) STRICT;
CREATE INDEX transactions_expires ON transactions (expires);
CREATE INDEX transactions_browser ON transactions (browser, expires);
CREATE INDEX transactions_user ON transactions (user, expires);

-- Browser sessions of people who have logged in.
CREATE TABLE browser_logins (
    id_digest BLOB PRIMARY KEY NOT NULL,
    key_id TEXT NOT NULL,
    data TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO browser_logins (id_digest, key_id, data, created_at, used_at)
    SELECT id_digest, key_id,
        json_object('visit', json_object(
            'key', key_id, 'seed', json_extract(data, '$.visit.seed'), 'forms', json_extract(data, '$.visit.forms')
        )),
        created_at, used_at
    FROM browser_sessions
    WHERE key_id IS NOT NULL AND json_extract(data, '$.visit.login') IS NOT NULL;
DROP TABLE browser_sessions;
ALTER TABLE browser_logins RENAME TO browser_sessions;
CREATE INDEX browser_sessions_used_at ON browser_sessions (used_at);
CREATE INDEX browser_sessions_key ON browser_sessions (key_id, used_at);
