-- Secrets of users that were deleted, whatever deleted them: what runs with one is ended, and then its row goes.
CREATE TABLE ended_user_secrets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL
) STRICT;

CREATE TRIGGER user_secrets_deleted AFTER DELETE ON user_secrets BEGIN
    INSERT INTO ended_user_secrets (user_id, name) VALUES (OLD.user_id, OLD.name);
END;
