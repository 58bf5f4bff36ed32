-- The schema. Times are milliseconds since the epoch; flags are 0 or 1. No secret is stored in the clear: rows hold digests
-- (SHA-256), MACs (HMAC-SHA-256 under the pepper) or ciphertext. `sealed` is ciphertext, under the key that the table names.
-- Columns keep the order in which databases from before this file have them.

-- Values of the gateway itself, such as its pepper. Each is written once.
CREATE TABLE gateway (
    name TEXT PRIMARY KEY NOT NULL,
    value BLOB NOT NULL
) STRICT;

-- People and their keys.

CREATE TABLE users (
    id TEXT PRIMARY KEY NOT NULL,
    created INTEGER NOT NULL,
    -- While disabled, keys and grants stay and open nothing.
    disabled INTEGER,
    -- The row of a deleted user stays for the revoked keys. A new key with this name makes it another user.
    deleted INTEGER
) STRICT;
CREATE INDEX users_deleted ON users (deleted) WHERE deleted IS NOT NULL;

-- Whatever a grant or browser session rests on: API keys, and accounts that somebody else vouches for. An account has an
-- empty `mac`, which no digest equals.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id),
    name TEXT NOT NULL,
    mac BLOB NOT NULL,
    rights TEXT NOT NULL,
    direct INTEGER NOT NULL CHECK (direct IN (0, 1)),
    created INTEGER NOT NULL,
    expires INTEGER,
    last_used INTEGER,
    revoked INTEGER,
    -- After a rotation: the key that took its place, and until when this one still works.
    successor TEXT REFERENCES api_keys (id),
    retires INTEGER,
    kind TEXT NOT NULL DEFAULT 'secret',
    -- Who vouches for whom: issuer and subject of a person at a login provider, or an empty issuer and a client's id.
    issuer TEXT,
    subject TEXT,
    -- Networks it may be used from, in CIDR notation, separated by spaces; NULL: any.
    networks TEXT,
    -- Who gave it its rights, and when and by whom they were last changed.
    given_by TEXT,
    changed INTEGER,
    changed_by TEXT,
    -- The last time the login provider confirmed the account; NULL once its apps have ended for lack of that.
    confirmed INTEGER
) STRICT;
CREATE INDEX api_keys_retires ON api_keys (retires) WHERE retires IS NOT NULL AND revoked IS NULL;
CREATE INDEX api_keys_successor ON api_keys (successor) WHERE successor IS NOT NULL;
CREATE UNIQUE INDEX api_keys_account ON api_keys (kind, issuer, subject)
    WHERE subject IS NOT NULL AND revoked IS NULL;
CREATE INDEX api_keys_accounts ON api_keys (kind, issuer, subject, created) WHERE subject IS NOT NULL;
CREATE INDEX api_keys_user ON api_keys (user_id);
CREATE INDEX api_keys_expires ON api_keys (expires) WHERE expires IS NOT NULL;
CREATE INDEX api_keys_revoked ON api_keys (revoked) WHERE revoked IS NOT NULL;
CREATE INDEX api_keys_confirmed ON api_keys (issuer, confirmed) WHERE confirmed IS NOT NULL;

-- A link makes its user's key once. A rule lets a verified email address in at a login provider, until it is revoked.
CREATE TABLE invitations (
    id TEXT PRIMARY KEY NOT NULL,
    -- SHA-256 of a link's secret; NULL for a rule.
    digest BLOB UNIQUE,
    -- The user a link makes a key for, and 1 if that user exists already.
    user_id TEXT,
    further INTEGER NOT NULL DEFAULT 0 CHECK (further IN (0, 1)),
    -- A rule's issuer and address, and the subject it let in first.
    issuer TEXT,
    email TEXT,
    subject TEXT,
    rights TEXT NOT NULL,
    key_life INTEGER,
    -- The user who invites; empty: the operator.
    inviter TEXT NOT NULL DEFAULT '',
    created_by TEXT NOT NULL,
    created INTEGER NOT NULL,
    -- The end of a link, or of a rule that was revoked.
    expires INTEGER,
    accepted INTEGER,
    -- The key a link made, and for ten minutes that key again, sealed under the token of the form that took the link.
    key_id TEXT,
    outcome BLOB,
    revoked INTEGER,
    CHECK ((digest IS NULL) = (email IS NOT NULL))
) STRICT;
CREATE INDEX invitations_user ON invitations (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX invitations_inviter ON invitations (inviter);
CREATE INDEX invitations_address ON invitations (issuer, email) WHERE email IS NOT NULL;
CREATE INDEX invitations_subject ON invitations (issuer, subject) WHERE subject IS NOT NULL;
CREATE INDEX invitations_expires ON invitations (expires) WHERE expires IS NOT NULL;
CREATE INDEX invitations_outcome ON invitations (accepted) WHERE outcome IS NOT NULL;

-- Sessions at login providers, which name one when they report a logout: the digest of issuer and session, and the account
-- that logged in with it.
CREATE TABLE provider_sessions (
    session BLOB PRIMARY KEY NOT NULL,
    key_id TEXT NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
    created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX provider_sessions_key ON provider_sessions (key_id, created);

-- Digests of the logouts that were reported, since each counts once.
CREATE TABLE provider_logouts (
    report BLOB PRIMARY KEY NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX provider_logouts_expires ON provider_logouts (expires);

-- Logins that last as long as the provider says: its refresh token, sealed, and when it is asked next.
CREATE TABLE bound_logins (
    key_id TEXT PRIMARY KEY NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
    issuer TEXT NOT NULL,
    refresh_token BLOB NOT NULL,
    due INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX bound_logins_due ON bound_logins (due);

-- Browsers that are logged in, by the digest of their session id.
CREATE TABLE browser_sessions (
    id_digest BLOB PRIMARY KEY NOT NULL,
    key_id TEXT NOT NULL,
    -- JSON.
    data TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX browser_sessions_used_at ON browser_sessions (used_at);
CREATE INDEX browser_sessions_key ON browser_sessions (key_id, used_at);
CREATE INDEX browser_sessions_created ON browser_sessions (created_at);

-- Clients.

CREATE TABLE clients (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,
    auth TEXT NOT NULL CHECK (auth IN ('none', 'client_secret_basic', 'client_secret_post')),
    secret BLOB,
    grant_types TEXT NOT NULL,
    scope TEXT,
    metadata TEXT NOT NULL,
    -- Digest of a public client's normalised metadata: the same registration gets the same id.
    fingerprint BLOB UNIQUE,
    created INTEGER NOT NULL,
    -- The first consent.
    consented INTEGER,
    revoked INTEGER,
    -- Where it registered, as a MAC of the network; only until the first consent.
    network BLOB,
    -- Size of the row: its text, and 512 for ids, digests and index entries.
    bytes INTEGER NOT NULL DEFAULT 0,
    -- Digest of any client's normalised metadata, by which a revoked client is refused if it registers again. NULL for
    -- confidential clients that are older than the column.
    registration BLOB,
    -- When it was last active: it registered, was consented to, or a grant to it ended.
    registered INTEGER NOT NULL DEFAULT 0,
    -- For a client whose id is the URL of its metadata document: the digest of what people consented to, and when the
    -- document was read. `metadata` is the document.
    document BLOB,
    document_read INTEGER,
    -- An expired client keeps its row, so that an app that still has the id can come back.
    expired INTEGER,
    -- A client with keys (RFC 7517, a JWK Set) or with their URL signs assertions (private_key_jwt); its `auth` is 'none'.
    jwks TEXT,
    origin TEXT NOT NULL DEFAULT 'registered',
    -- 1 if the operator vouches for it, so that people are not asked.
    consent_skipped INTEGER NOT NULL DEFAULT 0 CHECK (consent_skipped IN (0, 1)),
    jwks_uri TEXT,
    -- 1 if it may send its secret in the Authorization header or in the form.
    any_secret INTEGER NOT NULL DEFAULT 0
) STRICT;
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

-- Clients that nobody consented to, counted for each network by the triggers, so that no registration counts rows. An
-- unknown network is the empty one.
CREATE TABLE unused_clients (
    network BLOB PRIMARY KEY NOT NULL,
    clients INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
CREATE INDEX unused_clients_most ON unused_clients (clients DESC, network);

-- The sums of `unused_clients`: one row.
CREATE TABLE unused_clients_total (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
    clients INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
INSERT INTO unused_clients_total (id, clients, bytes) VALUES (1, 0, 0);

CREATE TRIGGER clients_unused_added AFTER INSERT ON clients
WHEN NEW.consented IS NULL AND NEW.revoked IS NULL
BEGIN
    INSERT INTO unused_clients (network, clients, bytes) VALUES (coalesce(NEW.network, x''), 1, NEW.bytes)
        ON CONFLICT (network) DO UPDATE SET clients = clients + 1, bytes = bytes + excluded.bytes;
    UPDATE unused_clients_total SET clients = clients + 1, bytes = bytes + NEW.bytes;
END;
CREATE TRIGGER clients_unused_deleted AFTER DELETE ON clients
WHEN OLD.consented IS NULL AND OLD.revoked IS NULL
BEGIN
    UPDATE unused_clients SET clients = clients - 1, bytes = bytes - OLD.bytes
        WHERE network = coalesce(OLD.network, x'');
    DELETE FROM unused_clients WHERE network = coalesce(OLD.network, x'') AND clients <= 0;
    UPDATE unused_clients_total SET clients = clients - 1, bytes = bytes - OLD.bytes;
END;
CREATE TRIGGER clients_unused_ended AFTER UPDATE OF consented, revoked ON clients
WHEN OLD.consented IS NULL AND OLD.revoked IS NULL AND NOT (NEW.consented IS NULL AND NEW.revoked IS NULL)
BEGIN
    UPDATE unused_clients SET clients = clients - 1, bytes = bytes - OLD.bytes
        WHERE network = coalesce(OLD.network, x'');
    DELETE FROM unused_clients WHERE network = coalesce(OLD.network, x'') AND clients <= 0;
    UPDATE unused_clients_total SET clients = clients - 1, bytes = bytes - OLD.bytes;
END;
CREATE TRIGGER clients_unused_restored AFTER UPDATE OF consented, revoked ON clients
WHEN NEW.consented IS NULL AND NEW.revoked IS NULL AND NOT (OLD.consented IS NULL AND OLD.revoked IS NULL)
BEGIN
    INSERT INTO unused_clients (network, clients, bytes) VALUES (coalesce(NEW.network, x''), 1, NEW.bytes)
        ON CONFLICT (network) DO UPDATE SET clients = clients + 1, bytes = bytes + excluded.bytes;
    UPDATE unused_clients_total SET clients = clients + 1, bytes = bytes + NEW.bytes;
END;

-- Tokens that let clients register where registration is not open (RFC 7591, section 3).
CREATE TABLE initial_access_tokens (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    -- The clients that may register with it, and those that have.
    uses INTEGER NOT NULL CHECK (uses > 0),
    used INTEGER NOT NULL DEFAULT 0 CHECK (used BETWEEN 0 AND uses),
    revoked INTEGER
) STRICT;
CREATE INDEX initial_access_tokens_expires ON initial_access_tokens (expires);

-- Client assertions that were accepted: digests of client and `jti`, since each is good once (RFC 7523, section 3). Only a
-- good signature leaves a row. A client leaves 60 at once, then one a second, and each lives 6 minutes.
CREATE TABLE used_assertions (
    digest BLOB PRIMARY KEY NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX used_assertions_expires ON used_assertions (expires);

-- Authorization.

-- Requests that wait for the decision of somebody who is logged in. Before the login nothing is stored.
CREATE TABLE transactions (
    id BLOB PRIMARY KEY NOT NULL,
    browser BLOB NOT NULL,
    user_id TEXT NOT NULL,
    request TEXT NOT NULL,
    expires INTEGER NOT NULL,
    -- The row stays until it expires: the same request cannot be added again, and a second submission of the form gets the
    -- outcome of the first. `outcome` is sealed under a key derived from the form's token, which is not stored.
    decided INTEGER,
    decision TEXT,
    outcome BLOB
) STRICT;
CREATE INDEX transactions_expires ON transactions (expires);
CREATE INDEX transactions_browser ON transactions (browser, expires);
CREATE INDEX transactions_user ON transactions (user_id, expires);

CREATE TABLE grants (
    id TEXT PRIMARY KEY NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id),
    api_key TEXT NOT NULL REFERENCES api_keys (id),
    client TEXT NOT NULL REFERENCES clients (id),
    endpoint TEXT NOT NULL,
    scopes TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    last_used INTEGER,
    revoked INTEGER
) STRICT;
CREATE INDEX grants_user ON grants (user_id);
CREATE INDEX grants_api_key ON grants (api_key);
CREATE INDEX grants_client ON grants (client);
CREATE INDEX grants_live ON grants (user_id, client) WHERE revoked IS NULL;
CREATE INDEX grants_expires ON grants (expires, id);
CREATE INDEX grants_unredeemed ON grants (created) WHERE last_used IS NULL;

CREATE TABLE codes (
    digest BLOB PRIMARY KEY NOT NULL,
    grant_id TEXT NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    challenge TEXT NOT NULL,
    expires INTEGER NOT NULL,
    used INTEGER,
    -- The one repeated exchange that a client may make without losing its login.
    repeated INTEGER
) STRICT;
CREATE INDEX codes_grant ON codes (grant_id);
CREATE INDEX codes_expires ON codes (expires);

CREATE TABLE refresh_tokens (
    digest BLOB PRIMARY KEY NOT NULL,
    -- Begins the `jti` of every access token issued beside this token.
    generation TEXT NOT NULL UNIQUE,
    grant_id TEXT NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    expires INTEGER NOT NULL,
    -- The first use, of this token or of an access token beside it.
    used INTEGER,
    rotated INTEGER,
    -- The digest of the token that replaced it, and that token itself, sealed under a key derived from this one.
    successor BLOB,
    sealed BLOB,
    -- When it was replaced as a successor that nobody had received.
    withdrawn INTEGER
) STRICT;
CREATE INDEX refresh_tokens_grant ON refresh_tokens (grant_id);

-- Access tokens that were revoked on their own.
CREATE TABLE revoked_tokens (
    jti TEXT PRIMARY KEY NOT NULL,
    expires INTEGER NOT NULL
) STRICT;
CREATE INDEX revoked_tokens_expires ON revoked_tokens (expires);

-- Revocations in order, by which one process tells the others.
CREATE TABLE revocations (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
CREATE INDEX revocations_at ON revocations (at);

-- Devices that wait for a person (RFC 8628): the SHA-256 of the device code, and the MAC of the code the person enters.
CREATE TABLE device_authorizations (
    device BLOB PRIMARY KEY NOT NULL,
    user_code BLOB NOT NULL UNIQUE,
    -- May have no row yet: a client with a metadata document gets one at the first consent.
    client TEXT NOT NULL,
    -- The endpoint of the requested `resource`, if there was one.
    endpoint TEXT,
    scopes TEXT NOT NULL,
    expires INTEGER NOT NULL,
    -- The decision: one of the two, once.
    denied INTEGER,
    grant_id TEXT REFERENCES grants (id) ON DELETE CASCADE,
    redeemed INTEGER,
    -- Digest of what the person is asked about a client with a document.
    document TEXT,
    -- The time of the decision, and the SHA-256 of the token of the form that made it.
    decided INTEGER,
    form BLOB
) STRICT;
CREATE INDEX device_authorizations_expires ON device_authorizations (expires);
CREATE INDEX device_authorizations_client ON device_authorizations (client, expires);
CREATE INDEX device_authorizations_grant ON device_authorizations (grant_id) WHERE grant_id IS NOT NULL;

-- A key signs from `signs_from` until a newer one does, and verifies for as long as what it signed can live (OA-101).
CREATE TABLE signing_keys (
    kid TEXT PRIMARY KEY NOT NULL,
    -- The public point on P-256, as base64url coordinates.
    x TEXT NOT NULL,
    y TEXT NOT NULL,
    -- PKCS#8 under the master key.
    sealed BLOB NOT NULL,
    created INTEGER NOT NULL,
    signs_from INTEGER NOT NULL,
    -- From then on it neither signs nor verifies.
    withdrawn INTEGER
) STRICT;

-- Secrets of users at servers behind the gateway, each under the data key of its user.

CREATE TABLE data_keys (
    -- A user; empty: the gateway itself.
    owner TEXT PRIMARY KEY NOT NULL,
    -- Under the master key, which is never in the database.
    sealed BLOB NOT NULL,
    -- Number of the master key; each rotation adds one.
    version INTEGER NOT NULL,
    created INTEGER NOT NULL
) STRICT;
CREATE INDEX data_keys_version ON data_keys (version);

CREATE TABLE upstream_tokens (
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    backend TEXT NOT NULL,
    -- Digest of the server's address: tokens are for this server alone.
    server BLOB NOT NULL,
    issuer TEXT NOT NULL,
    resource TEXT,
    scope TEXT,
    -- The tokens, the client that got them, and the endpoints of the authorization server.
    sealed BLOB NOT NULL,
    connected INTEGER NOT NULL,
    -- Each refresh adds one.
    version INTEGER NOT NULL,
    PRIMARY KEY (user_id, backend)
) STRICT;
CREATE INDEX upstream_tokens_server ON upstream_tokens (backend, server);

-- Deleted tokens that are still to be revoked at their authorization server (RFC 7009), whatever deleted them.
CREATE TABLE upstream_withdrawn (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id TEXT NOT NULL,
    backend TEXT NOT NULL,
    issuer TEXT NOT NULL,
    sealed BLOB NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX upstream_withdrawn_user ON upstream_withdrawn (user_id, backend);
CREATE TRIGGER upstream_tokens_deleted AFTER DELETE ON upstream_tokens
BEGIN
    INSERT INTO upstream_withdrawn (user_id, backend, issuer, sealed)
    VALUES (OLD.user_id, OLD.backend, OLD.issuer, OLD.sealed);
END;

-- The gateway's own registrations, each for one authorization server.
CREATE TABLE upstream_clients (
    backend TEXT NOT NULL,
    issuer TEXT NOT NULL,
    sealed BLOB NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (backend, issuer)
) STRICT;

-- Authorization requests that a browser took to an authorization server. A row stays until it expires, also after the
-- response.
CREATE TABLE upstream_requests (
    -- Digest of `state`.
    state BLOB PRIMARY KEY NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    backend TEXT NOT NULL,
    -- Digest of the browser session that may complete it.
    browser BLOB NOT NULL,
    issuer TEXT NOT NULL,
    sealed BLOB NOT NULL,
    expires INTEGER NOT NULL,
    -- SHA-256 of the token of the form that began it, the address the browser was sent to, sealed under a key derived from
    -- that token, and what became of it.
    form BLOB,
    location BLOB,
    taken INTEGER,
    outcome TEXT
) STRICT;
CREATE INDEX upstream_requests_expires ON upstream_requests (expires);
CREATE INDEX upstream_requests_user ON upstream_requests (user_id);
CREATE UNIQUE INDEX upstream_requests_form ON upstream_requests (form);

-- Values that users enter for servers that need one from each.
CREATE TABLE user_secrets (
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    sealed BLOB NOT NULL,
    changed INTEGER NOT NULL,
    PRIMARY KEY (user_id, name)
) STRICT;

-- Deleted secrets, whatever deleted them: what runs with one is ended, and then its row goes.
CREATE TABLE ended_user_secrets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL
) STRICT;
CREATE TRIGGER user_secrets_deleted AFTER DELETE ON user_secrets
BEGIN
    INSERT INTO ended_user_secrets (user_id, name) VALUES (OLD.user_id, OLD.name);
END;

-- Sessions, servers and tasks.

-- Sessions of clients, so that they outlive the process, by the SHA-256 of their id.
CREATE TABLE mcp_sessions (
    digest BLOB PRIMARY KEY NOT NULL,
    user_id TEXT NOT NULL,
    client TEXT,
    key TEXT,
    endpoint TEXT NOT NULL,
    revision TEXT NOT NULL,
    implementation BLOB NOT NULL,
    capabilities BLOB NOT NULL,
    log_level TEXT,
    initialized INTEGER NOT NULL,
    created INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    -- URIs of the resources the client subscribed to, as a JSON array.
    subscriptions TEXT NOT NULL DEFAULT '[]',
    -- The replica whose process has the session; 0 without replicas.
    owner INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX mcp_sessions_last_seen ON mcp_sessions (last_seen);
CREATE INDEX mcp_sessions_user ON mcp_sessions (user_id, endpoint, last_seen);
CREATE INDEX mcp_sessions_unready ON mcp_sessions (last_seen) WHERE initialized = 0;

-- The era of each server. `server` is the SHA-256 of what tells one server from another.
CREATE TABLE backend_eras (
    server BLOB PRIMARY KEY NOT NULL,
    era TEXT NOT NULL,
    found INTEGER NOT NULL
) STRICT;

-- What each server last said of itself.
CREATE TABLE backend_introductions (
    backend TEXT PRIMARY KEY NOT NULL,
    server BLOB NOT NULL,
    revision TEXT NOT NULL,
    result BLOB NOT NULL
) STRICT;

-- The last lists of each server, shown after a restart until it answers. An empty `user_id` is everybody; the lists of a
-- user are sealed under that user's data key.
CREATE TABLE server_lists (
    server TEXT NOT NULL,
    user_id TEXT NOT NULL,
    -- SHA-256 of the client capabilities that the server was sent.
    capabilities BLOB NOT NULL,
    -- The method that lists.
    method TEXT NOT NULL,
    -- SHA-256 of the server's section in the configuration.
    section BLOB NOT NULL,
    -- The protocol version of the list.
    revision TEXT NOT NULL,
    list BLOB NOT NULL,
    stored INTEGER NOT NULL,
    PRIMARY KEY (server, user_id, capabilities, method)
) STRICT;
CREATE INDEX server_lists_of_user ON server_lists (user_id);
CREATE INDEX server_lists_by_age ON server_lists (stored);

-- Owners of tasks at servers. `task` is the SHA-256 of its server and its id.
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

-- The gateway as a whole.

-- Rows are only added. The oldest may go once they are 7 days older than the newest; a program that deletes or changes
-- others has to drop the triggers first.
CREATE TABLE audit_events (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    event TEXT NOT NULL,
    user_id TEXT,
    client TEXT,
    -- The correlation id of the HTTP request.
    request TEXT,
    -- Further names and texts, as a JSON object.
    fields TEXT NOT NULL,
    -- The number of events that the row stands for.
    count INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_events_at ON audit_events (at);
CREATE INDEX audit_events_user ON audit_events (user_id, sequence) WHERE user_id IS NOT NULL;
CREATE INDEX audit_events_client ON audit_events (client, sequence) WHERE client IS NOT NULL;
CREATE INDEX audit_events_request ON audit_events (request) WHERE request IS NOT NULL;
CREATE TRIGGER audit_events_added BEFORE INSERT ON audit_events
WHEN EXISTS (SELECT 1 FROM audit_events WHERE sequence = new.sequence)
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only');
END;
CREATE TRIGGER audit_events_unchanged BEFORE UPDATE ON audit_events
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only');
END;
CREATE TRIGGER audit_events_kept BEFORE DELETE ON audit_events
WHEN old.sequence > (SELECT min(sequence) FROM audit_events)
    OR old.at > (SELECT max(at) FROM audit_events) - 604800000
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only: only its oldest rows can be deleted, and not before 7 days');
END;

-- Rate limits that all gateways on the database share.
CREATE TABLE limit_counts (
    name TEXT NOT NULL,
    key BLOB NOT NULL,
    full_at INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    PRIMARY KEY (name, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX limit_counts_by_changed ON limit_counts (changed);
CREATE INDEX limit_counts_full ON limit_counts (full_at);

-- Gateways that share the database, each until its lease ends. Numbers are never used again.
CREATE TABLE replicas (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    address TEXT NOT NULL,
    public_key BLOB NOT NULL,
    lease_until INTEGER NOT NULL,
    -- 1 for the replica that runs the servers of which there is one for all replicas.
    is_home INTEGER NOT NULL DEFAULT 0,
    -- Milliseconds by which its clock was ahead of the database's at its last renewal; NULL if it does not say.
    clock_ahead INTEGER
) STRICT;
CREATE UNIQUE INDEX replicas_one_home ON replicas (is_home) WHERE is_home = 1;

-- Certificates for clients, from an ACME authority. `place` is the authority's directory with the names. Each place has one
-- row, also before its first certificate.
CREATE TABLE certificates (
    place TEXT PRIMARY KEY NOT NULL,
    -- The certificate and those up to the authority, as PEM, and the key, as PEM under the gateway's data key.
    chain TEXT,
    sealed BLOB,
    -- The next order.
    due INTEGER NOT NULL,
    -- The order under way, and the key it asks a certificate for, sealed in the same way.
    order_url TEXT,
    order_key BLOB,
    -- The process that works on it, and until when.
    holder TEXT,
    held_until INTEGER,
    -- Orders that failed since the last certificate, and the last of them.
    failures INTEGER NOT NULL DEFAULT 0,
    failed INTEGER,
    failure TEXT
) STRICT;

-- Accounts at authorities: the credentials, sealed in the same way.
CREATE TABLE acme_accounts (
    directory TEXT PRIMARY KEY NOT NULL,
    sealed BLOB NOT NULL
) STRICT;

-- The proofs that a name belongs to this gateway. Every replica shows them.
CREATE TABLE acme_challenges (
    token TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    key_authorization TEXT NOT NULL,
    expires INTEGER NOT NULL
) STRICT;
