-- `user` is a reserved word in other databases: columns with a user are called `user_id`.
ALTER TABLE api_keys RENAME COLUMN user TO user_id;
ALTER TABLE grants RENAME COLUMN user TO user_id;
ALTER TABLE transactions RENAME COLUMN user TO user_id;
ALTER TABLE mcp_sessions RENAME COLUMN user TO user_id;
ALTER TABLE audit_events RENAME COLUMN user TO user_id;
ALTER TABLE upstream_tokens RENAME COLUMN user TO user_id;
ALTER TABLE upstream_withdrawn RENAME COLUMN user TO user_id;
ALTER TABLE upstream_requests RENAME COLUMN user TO user_id;
ALTER TABLE user_secrets RENAME COLUMN user TO user_id;

-- the codes of a grant that is deleted
CREATE INDEX codes_grant ON codes (grant_id);
