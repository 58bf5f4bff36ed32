-- The schema for PostgreSQL. ../0300_baseline.sql says what tables and columns mean. `rowid` is the order of insertion, which
-- SQLite numbers by itself.
CREATE TABLE gateway (
    name TEXT PRIMARY KEY,
    value BYTEA NOT NULL
);

CREATE TABLE users (
    id TEXT PRIMARY KEY,
    created BIGINT NOT NULL,
    disabled BIGINT,
    deleted BIGINT
);
CREATE INDEX users_deleted ON users (deleted) WHERE deleted IS NOT NULL;

CREATE TABLE api_keys (
    rowid BIGINT GENERATED ALWAYS AS IDENTITY,
    id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id),
    name TEXT NOT NULL,
    mac BYTEA NOT NULL,
    rights TEXT NOT NULL,
    direct BIGINT NOT NULL CHECK (direct IN (0, 1)),
    created BIGINT NOT NULL,
    expires BIGINT,
    last_used BIGINT,
    revoked BIGINT,
    successor TEXT REFERENCES api_keys (id) DEFERRABLE,
    retires BIGINT,
    kind TEXT NOT NULL DEFAULT 'secret',
    issuer TEXT,
    subject TEXT,
    networks TEXT,
    given_by TEXT,
    changed BIGINT,
    changed_by TEXT,
    confirmed BIGINT
);
CREATE INDEX api_keys_retires ON api_keys (retires) WHERE retires IS NOT NULL AND revoked IS NULL;
CREATE INDEX api_keys_successor ON api_keys (successor) WHERE successor IS NOT NULL;
CREATE UNIQUE INDEX api_keys_account ON api_keys (kind, issuer, subject)
    WHERE subject IS NOT NULL AND revoked IS NULL;
CREATE INDEX api_keys_accounts ON api_keys (kind, issuer, subject, created) WHERE subject IS NOT NULL;
CREATE INDEX api_keys_user ON api_keys (user_id);
CREATE INDEX api_keys_expires ON api_keys (expires) WHERE expires IS NOT NULL;
CREATE INDEX api_keys_revoked ON api_keys (revoked) WHERE revoked IS NOT NULL;
CREATE INDEX api_keys_confirmed ON api_keys (issuer, confirmed) WHERE confirmed IS NOT NULL;

CREATE TABLE invitations (
    id TEXT PRIMARY KEY,
    digest BYTEA UNIQUE,
    user_id TEXT,
    further BIGINT NOT NULL DEFAULT 0 CHECK (further IN (0, 1)),
    issuer TEXT,
    email TEXT,
    subject TEXT,
    rights TEXT NOT NULL,
    key_life BIGINT,
    inviter TEXT NOT NULL DEFAULT '',
    created_by TEXT NOT NULL,
    created BIGINT NOT NULL,
    expires BIGINT,
    accepted BIGINT,
    key_id TEXT,
    outcome BYTEA,
    revoked BIGINT,
    CHECK ((digest IS NULL) = (email IS NOT NULL))
);
CREATE INDEX invitations_user ON invitations (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX invitations_inviter ON invitations (inviter);
CREATE INDEX invitations_address ON invitations (issuer, email) WHERE email IS NOT NULL;
CREATE INDEX invitations_subject ON invitations (issuer, subject) WHERE subject IS NOT NULL;
CREATE INDEX invitations_expires ON invitations (expires) WHERE expires IS NOT NULL;
CREATE INDEX invitations_outcome ON invitations (accepted) WHERE outcome IS NOT NULL;

CREATE TABLE provider_sessions (
    session BYTEA PRIMARY KEY,
    key_id TEXT NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
    created BIGINT NOT NULL
);
CREATE INDEX provider_sessions_key ON provider_sessions (key_id, created);

CREATE TABLE provider_logouts (
    report BYTEA PRIMARY KEY,
    expires BIGINT NOT NULL
);
CREATE INDEX provider_logouts_expires ON provider_logouts (expires);

CREATE TABLE bound_logins (
    key_id TEXT PRIMARY KEY REFERENCES api_keys (id) ON DELETE CASCADE,
    issuer TEXT NOT NULL,
    refresh_token BYTEA NOT NULL,
    due BIGINT NOT NULL
);
CREATE INDEX bound_logins_due ON bound_logins (due);

CREATE TABLE browser_sessions (
    id_digest BYTEA PRIMARY KEY,
    key_id TEXT NOT NULL,
    data TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    used_at BIGINT NOT NULL
);
CREATE INDEX browser_sessions_used_at ON browser_sessions (used_at);
CREATE INDEX browser_sessions_key ON browser_sessions (key_id, used_at);
CREATE INDEX browser_sessions_created ON browser_sessions (created_at);

CREATE TABLE clients (
    rowid BIGINT GENERATED ALWAYS AS IDENTITY,
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,
    auth TEXT NOT NULL CHECK (auth IN ('none', 'client_secret_basic', 'client_secret_post')),
    secret BYTEA,
    grant_types TEXT NOT NULL,
    scope TEXT,
    metadata TEXT NOT NULL,
    fingerprint BYTEA UNIQUE,
    created BIGINT NOT NULL,
    consented BIGINT,
    revoked BIGINT,
    network BYTEA,
    bytes BIGINT NOT NULL DEFAULT 0,
    registration BYTEA,
    registered BIGINT NOT NULL DEFAULT 0,
    document BYTEA,
    document_read BIGINT,
    expired BIGINT,
    jwks TEXT,
    origin TEXT NOT NULL DEFAULT 'registered',
    consent_skipped BIGINT NOT NULL DEFAULT 0 CHECK (consent_skipped IN (0, 1)),
    jwks_uri TEXT,
    any_secret BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX clients_revoked ON clients (registration) WHERE revoked IS NOT NULL;
CREATE INDEX clients_unused ON clients (network, registered) WHERE consented IS NULL AND revoked IS NULL;
CREATE INDEX clients_unused_registered ON clients (registered) WHERE consented IS NULL AND revoked IS NULL;
CREATE INDEX clients_expired ON clients (expired) WHERE expired IS NOT NULL;
CREATE INDEX clients_unused_live ON clients (registered)
    WHERE consented IS NULL AND revoked IS NULL AND expired IS NULL;
CREATE INDEX clients_idle ON clients (registered, id)
    WHERE consented IS NOT NULL AND revoked IS NULL AND expired IS NULL;
CREATE INDEX clients_forgotten ON clients (expired)
    WHERE consented IS NULL AND revoked IS NULL AND expired IS NOT NULL;

CREATE TABLE unused_clients (
    network BYTEA PRIMARY KEY,
    clients BIGINT NOT NULL,
    bytes BIGINT NOT NULL
);
CREATE INDEX unused_clients_most ON unused_clients (clients DESC, network);

CREATE TABLE unused_clients_total (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    clients BIGINT NOT NULL,
    bytes BIGINT NOT NULL
);
INSERT INTO unused_clients_total (id, clients, bytes) VALUES (1, 0, 0);

CREATE FUNCTION count_unused_client(of_network BYTEA, one BIGINT, its_bytes BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO unused_clients AS counted (network, clients, bytes)
        VALUES (coalesce(of_network, ''::BYTEA), one, one * its_bytes)
        ON CONFLICT (network) DO UPDATE
            SET clients = counted.clients + excluded.clients, bytes = counted.bytes + excluded.bytes;
    DELETE FROM unused_clients WHERE network = coalesce(of_network, ''::BYTEA) AND clients <= 0;
    UPDATE unused_clients_total SET clients = clients + one, bytes = bytes + one * its_bytes;
END
$$;

CREATE FUNCTION unused_client_added() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_unused_client(NEW.network, 1, NEW.bytes);
    RETURN NULL;
END
$$;
CREATE FUNCTION unused_client_ended() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_unused_client(OLD.network, -1, OLD.bytes);
    RETURN NULL;
END
$$;
CREATE TRIGGER clients_unused_added AFTER INSERT ON clients FOR EACH ROW
    WHEN (NEW.consented IS NULL AND NEW.revoked IS NULL)
    EXECUTE FUNCTION unused_client_added();
CREATE TRIGGER clients_unused_deleted AFTER DELETE ON clients FOR EACH ROW
    WHEN (OLD.consented IS NULL AND OLD.revoked IS NULL)
    EXECUTE FUNCTION unused_client_ended();
CREATE TRIGGER clients_unused_ended AFTER UPDATE OF consented, revoked ON clients FOR EACH ROW
    WHEN (OLD.consented IS NULL AND OLD.revoked IS NULL AND NOT (NEW.consented IS NULL AND NEW.revoked IS NULL))
    EXECUTE FUNCTION unused_client_ended();
CREATE TRIGGER clients_unused_restored AFTER UPDATE OF consented, revoked ON clients FOR EACH ROW
    WHEN (NEW.consented IS NULL AND NEW.revoked IS NULL AND NOT (OLD.consented IS NULL AND OLD.revoked IS NULL))
    EXECUTE FUNCTION unused_client_added();

CREATE TABLE initial_access_tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    digest BYTEA NOT NULL UNIQUE,
    created BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    uses BIGINT NOT NULL CHECK (uses > 0),
    used BIGINT NOT NULL DEFAULT 0 CHECK (used BETWEEN 0 AND uses),
    revoked BIGINT
);
CREATE INDEX initial_access_tokens_expires ON initial_access_tokens (expires);

CREATE TABLE used_assertions (
    digest BYTEA PRIMARY KEY,
    expires BIGINT NOT NULL
);
CREATE INDEX used_assertions_expires ON used_assertions (expires);

CREATE TABLE transactions (
    rowid BIGINT GENERATED ALWAYS AS IDENTITY,
    id BYTEA PRIMARY KEY,
    browser BYTEA NOT NULL,
    user_id TEXT NOT NULL,
    request TEXT NOT NULL,
    expires BIGINT NOT NULL,
    decided BIGINT,
    decision TEXT,
    outcome BYTEA
);
CREATE INDEX transactions_expires ON transactions (expires);
CREATE INDEX transactions_browser ON transactions (browser, expires);
CREATE INDEX transactions_user ON transactions (user_id, expires);

CREATE TABLE grants (
    rowid BIGINT GENERATED ALWAYS AS IDENTITY,
    id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id),
    api_key TEXT NOT NULL REFERENCES api_keys (id),
    client TEXT NOT NULL REFERENCES clients (id),
    endpoint TEXT NOT NULL,
    scopes TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    created BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    last_used BIGINT,
    revoked BIGINT
);
CREATE INDEX grants_user ON grants (user_id);
CREATE INDEX grants_api_key ON grants (api_key);
CREATE INDEX grants_client ON grants (client);
CREATE INDEX grants_live ON grants (user_id, client) WHERE revoked IS NULL;
CREATE INDEX grants_expires ON grants (expires, id);
CREATE INDEX grants_unredeemed ON grants (created) WHERE last_used IS NULL;

CREATE TABLE codes (
    digest BYTEA PRIMARY KEY,
    grant_id TEXT NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    challenge TEXT NOT NULL,
    expires BIGINT NOT NULL,
    used BIGINT,
    repeated BIGINT
);
CREATE INDEX codes_grant ON codes (grant_id);
CREATE INDEX codes_expires ON codes (expires);

CREATE TABLE refresh_tokens (
    rowid BIGINT GENERATED ALWAYS AS IDENTITY,
    digest BYTEA PRIMARY KEY,
    generation TEXT NOT NULL UNIQUE,
    grant_id TEXT NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    expires BIGINT NOT NULL,
    used BIGINT,
    rotated BIGINT,
    successor BYTEA,
    sealed BYTEA,
    withdrawn BIGINT
);
CREATE INDEX refresh_tokens_grant ON refresh_tokens (grant_id);

CREATE TABLE revoked_tokens (
    jti TEXT PRIMARY KEY,
    expires BIGINT NOT NULL
);
CREATE INDEX revoked_tokens_expires ON revoked_tokens (expires);

CREATE TABLE revocations (
    sequence BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX revocations_at ON revocations (at);

CREATE TABLE device_authorizations (
    device BYTEA PRIMARY KEY,
    user_code BYTEA NOT NULL UNIQUE,
    client TEXT NOT NULL,
    endpoint TEXT,
    scopes TEXT NOT NULL,
    expires BIGINT NOT NULL,
    denied BIGINT,
    grant_id TEXT REFERENCES grants (id) ON DELETE CASCADE,
    redeemed BIGINT,
    document TEXT,
    decided BIGINT,
    form BYTEA
);
CREATE INDEX device_authorizations_expires ON device_authorizations (expires);
CREATE INDEX device_authorizations_client ON device_authorizations (client, expires);
CREATE INDEX device_authorizations_grant ON device_authorizations (grant_id) WHERE grant_id IS NOT NULL;

CREATE TABLE signing_keys (
    kid TEXT PRIMARY KEY,
    x TEXT NOT NULL,
    y TEXT NOT NULL,
    sealed BYTEA NOT NULL,
    created BIGINT NOT NULL,
    signs_from BIGINT NOT NULL,
    withdrawn BIGINT
);

CREATE TABLE data_keys (
    owner TEXT PRIMARY KEY,
    sealed BYTEA NOT NULL,
    version BIGINT NOT NULL,
    created BIGINT NOT NULL
);
CREATE INDEX data_keys_version ON data_keys (version);

CREATE TABLE upstream_tokens (
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    backend TEXT NOT NULL,
    server BYTEA NOT NULL,
    issuer TEXT NOT NULL,
    resource TEXT,
    scope TEXT,
    sealed BYTEA NOT NULL,
    connected BIGINT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (user_id, backend)
);
CREATE INDEX upstream_tokens_server ON upstream_tokens (backend, server);

CREATE TABLE upstream_withdrawn (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    user_id TEXT NOT NULL,
    backend TEXT NOT NULL,
    issuer TEXT NOT NULL,
    sealed BYTEA NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX upstream_withdrawn_user ON upstream_withdrawn (user_id, backend);

CREATE FUNCTION upstream_token_withdrawn() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO upstream_withdrawn (user_id, backend, issuer, sealed)
    VALUES (OLD.user_id, OLD.backend, OLD.issuer, OLD.sealed);
    RETURN NULL;
END
$$;
CREATE TRIGGER upstream_tokens_deleted AFTER DELETE ON upstream_tokens FOR EACH ROW
    EXECUTE FUNCTION upstream_token_withdrawn();

CREATE TABLE upstream_clients (
    backend TEXT NOT NULL,
    issuer TEXT NOT NULL,
    sealed BYTEA NOT NULL,
    created BIGINT NOT NULL,
    PRIMARY KEY (backend, issuer)
);

CREATE TABLE upstream_requests (
    rowid BIGINT GENERATED ALWAYS AS IDENTITY,
    state BYTEA PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    backend TEXT NOT NULL,
    browser BYTEA NOT NULL,
    issuer TEXT NOT NULL,
    sealed BYTEA NOT NULL,
    expires BIGINT NOT NULL,
    form BYTEA,
    location BYTEA,
    taken BIGINT,
    outcome TEXT
);
CREATE INDEX upstream_requests_expires ON upstream_requests (expires);
CREATE INDEX upstream_requests_user ON upstream_requests (user_id);
CREATE UNIQUE INDEX upstream_requests_form ON upstream_requests (form);

CREATE TABLE user_secrets (
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    sealed BYTEA NOT NULL,
    changed BIGINT NOT NULL,
    PRIMARY KEY (user_id, name)
);

CREATE TABLE ended_user_secrets (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL
);

CREATE FUNCTION user_secret_ended() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ended_user_secrets (user_id, name) VALUES (OLD.user_id, OLD.name);
    RETURN NULL;
END
$$;
CREATE TRIGGER user_secrets_deleted AFTER DELETE ON user_secrets FOR EACH ROW
    EXECUTE FUNCTION user_secret_ended();

CREATE TABLE mcp_sessions (
    digest BYTEA PRIMARY KEY,
    user_id TEXT NOT NULL,
    client TEXT,
    key TEXT,
    endpoint TEXT NOT NULL,
    revision TEXT NOT NULL,
    implementation BYTEA NOT NULL,
    capabilities BYTEA NOT NULL,
    log_level TEXT,
    initialized BIGINT NOT NULL,
    created BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    subscriptions TEXT NOT NULL DEFAULT '[]',
    owner BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX mcp_sessions_last_seen ON mcp_sessions (last_seen);
CREATE INDEX mcp_sessions_user ON mcp_sessions (user_id, endpoint, last_seen);
CREATE INDEX mcp_sessions_unready ON mcp_sessions (last_seen) WHERE initialized = 0;

CREATE TABLE backend_eras (
    server BYTEA PRIMARY KEY,
    era TEXT NOT NULL,
    found BIGINT NOT NULL
);

CREATE TABLE backend_introductions (
    backend TEXT PRIMARY KEY,
    server BYTEA NOT NULL,
    revision TEXT NOT NULL,
    result BYTEA NOT NULL
);

CREATE TABLE server_lists (
    server TEXT NOT NULL,
    user_id TEXT NOT NULL,
    capabilities BYTEA NOT NULL,
    method TEXT NOT NULL,
    section BYTEA NOT NULL,
    revision TEXT NOT NULL,
    list BYTEA NOT NULL,
    stored BIGINT NOT NULL,
    PRIMARY KEY (server, user_id, capabilities, method)
);
CREATE INDEX server_lists_of_user ON server_lists (user_id);
CREATE INDEX server_lists_by_age ON server_lists (stored);

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

CREATE TABLE audit_events (
    sequence BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    at BIGINT NOT NULL,
    event TEXT NOT NULL,
    user_id TEXT,
    client TEXT,
    request TEXT,
    fields TEXT NOT NULL,
    count BIGINT NOT NULL
);
CREATE INDEX audit_events_at ON audit_events (at);
CREATE INDEX audit_events_user ON audit_events (user_id, sequence) WHERE user_id IS NOT NULL;
CREATE INDEX audit_events_client ON audit_events (client, sequence) WHERE client IS NOT NULL;
CREATE INDEX audit_events_request ON audit_events (request) WHERE request IS NOT NULL;

CREATE FUNCTION audit_trail_refused() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit trail is append-only';
END
$$;
-- the whole statement at once: it may delete in any order
CREATE FUNCTION audit_trail_kept() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT max(at) FROM deleted) > coalesce((SELECT max(at) FROM audit_events), 0) - 604800000
        OR EXISTS (SELECT 1 FROM audit_events WHERE sequence < (SELECT max(sequence) FROM deleted)) THEN
        RAISE EXCEPTION 'the audit trail is append-only: only its oldest rows can be deleted, and not before 7 days';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER audit_events_unchanged BEFORE UPDATE ON audit_events FOR EACH ROW
    EXECUTE FUNCTION audit_trail_refused();
CREATE TRIGGER audit_events_emptied BEFORE TRUNCATE ON audit_events
    EXECUTE FUNCTION audit_trail_refused();
CREATE TRIGGER audit_events_kept AFTER DELETE ON audit_events REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT
    EXECUTE FUNCTION audit_trail_kept();

CREATE TABLE limit_counts (
    name TEXT NOT NULL,
    key BYTEA NOT NULL,
    full_at BIGINT NOT NULL,
    changed BIGINT NOT NULL,
    PRIMARY KEY (name, key)
);
CREATE INDEX limit_counts_by_changed ON limit_counts (changed);
CREATE INDEX limit_counts_full ON limit_counts (full_at);

CREATE TABLE replicas (
    number BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    address TEXT NOT NULL,
    public_key BYTEA NOT NULL,
    lease_until BIGINT NOT NULL,
    is_home BIGINT NOT NULL DEFAULT 0,
    clock_ahead BIGINT
);
CREATE UNIQUE INDEX replicas_one_home ON replicas (is_home) WHERE is_home = 1;

CREATE TABLE certificates (
    place TEXT PRIMARY KEY,
    chain TEXT,
    sealed BYTEA,
    due BIGINT NOT NULL,
    order_url TEXT,
    order_key BYTEA,
    holder TEXT,
    held_until BIGINT,
    failures BIGINT NOT NULL DEFAULT 0,
    failed BIGINT,
    failure TEXT
);

CREATE TABLE acme_accounts (
    directory TEXT PRIMARY KEY,
    sealed BYTEA NOT NULL
);

CREATE TABLE acme_challenges (
    token TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    key_authorization TEXT NOT NULL,
    expires BIGINT NOT NULL
);
