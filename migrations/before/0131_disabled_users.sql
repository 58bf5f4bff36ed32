-- When the operator disabled a user: keys and grants stay, and open nothing until the user is enabled again.
ALTER TABLE users ADD COLUMN disabled INTEGER;
-- When the operator deleted a user. The row stays for its revoked keys; a new key of this name makes another user of it.
ALTER TABLE users ADD COLUMN deleted INTEGER;
