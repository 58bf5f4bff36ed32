-- See ../0250_rows_found_by_index.sql.
CREATE INDEX api_keys_user ON api_keys (user_id);
CREATE INDEX api_keys_expires ON api_keys (expires) WHERE expires IS NOT NULL;
CREATE INDEX api_keys_revoked ON api_keys (revoked) WHERE revoked IS NOT NULL;
CREATE INDEX users_deleted ON users (deleted) WHERE deleted IS NOT NULL;
CREATE INDEX data_keys_version ON data_keys (version);
CREATE INDEX upstream_tokens_server ON upstream_tokens (backend, server);
CREATE INDEX upstream_withdrawn_user ON upstream_withdrawn (user_id, backend);
CREATE INDEX grants_live ON grants (user_id, client) WHERE revoked IS NULL;
CREATE INDEX grants_expires ON grants (expires, id);
CREATE INDEX grants_unredeemed ON grants (created) WHERE last_used IS NULL;
CREATE INDEX codes_expires ON codes (expires);
CREATE INDEX revoked_tokens_expires ON revoked_tokens (expires);
CREATE INDEX revocations_at ON revocations (at);
CREATE INDEX limit_counts_full ON limit_counts (full_at);
CREATE INDEX browser_sessions_created ON browser_sessions (created_at);
CREATE INDEX mcp_sessions_unready ON mcp_sessions (last_seen) WHERE initialized = 0;
CREATE INDEX clients_unused_live ON clients (registered)
    WHERE consented IS NULL AND revoked IS NULL AND expired IS NULL;
CREATE INDEX clients_idle ON clients (registered, id)
    WHERE consented IS NOT NULL AND revoked IS NULL AND expired IS NULL;
CREATE INDEX clients_forgotten ON clients (expired)
    WHERE consented IS NULL AND revoked IS NULL AND expired IS NOT NULL;
