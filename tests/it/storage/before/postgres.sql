CREATE FUNCTION audit_trail_kept() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF (SELECT max(at) FROM deleted) > coalesce((SELECT max(at) FROM audit_events), 0) - 604800000
        OR EXISTS (SELECT 1 FROM audit_events WHERE sequence < (SELECT max(sequence) FROM deleted)) THEN
        RAISE EXCEPTION 'the audit trail is append-only: only its oldest rows can be deleted, and not before 7 days';
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION audit_trail_refused() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'the audit trail is append-only';
END
$$;

CREATE FUNCTION count_unused_client(of_network bytea, one bigint, its_bytes bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO unused_clients AS counted (network, clients, bytes)
        VALUES (coalesce(of_network, ''::BYTEA), one, one * its_bytes)
        ON CONFLICT (network) DO UPDATE
            SET clients = counted.clients + excluded.clients, bytes = counted.bytes + excluded.bytes;
    DELETE FROM unused_clients WHERE network = coalesce(of_network, ''::BYTEA) AND clients <= 0;
    UPDATE unused_clients_total SET clients = clients + one, bytes = bytes + one * its_bytes;
END
$$;

CREATE FUNCTION unused_client_added() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM count_unused_client(NEW.network, 1, NEW.bytes);
    RETURN NULL;
END
$$;

CREATE FUNCTION unused_client_ended() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM count_unused_client(OLD.network, -1, OLD.bytes);
    RETURN NULL;
END
$$;

CREATE FUNCTION upstream_token_withdrawn() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO upstream_withdrawn (user_id, backend, issuer, sealed)
    VALUES (OLD.user_id, OLD.backend, OLD.issuer, OLD.sealed);
    RETURN NULL;
END
$$;

CREATE FUNCTION user_secret_ended() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO ended_user_secrets (user_id, name) VALUES (OLD.user_id, OLD.name);
    RETURN NULL;
END
$$;

CREATE TABLE _sqlx_migrations (
    version bigint NOT NULL,
    description text NOT NULL,
    installed_on timestamp with time zone DEFAULT now() NOT NULL,
    success boolean NOT NULL,
    checksum bytea NOT NULL,
    execution_time bigint NOT NULL
);

CREATE TABLE acme_accounts (
    directory text NOT NULL,
    sealed bytea NOT NULL
);

CREATE TABLE acme_challenges (
    token text NOT NULL,
    name text NOT NULL,
    key_authorization text NOT NULL,
    expires bigint NOT NULL
);

CREATE TABLE api_keys (
    rowid bigint NOT NULL,
    id text NOT NULL,
    user_id text NOT NULL,
    name text NOT NULL,
    mac bytea NOT NULL,
    rights text NOT NULL,
    direct bigint NOT NULL,
    created bigint NOT NULL,
    expires bigint,
    last_used bigint,
    revoked bigint,
    successor text,
    retires bigint,
    kind text DEFAULT 'secret'::text NOT NULL,
    issuer text,
    subject text,
    networks text,
    given_by text,
    changed bigint,
    changed_by text,
    confirmed bigint,
    CONSTRAINT api_keys_direct_check CHECK ((direct = ANY (ARRAY[(0)::bigint, (1)::bigint])))
);

ALTER TABLE api_keys ALTER COLUMN rowid ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME api_keys_rowid_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE audit_events (
    sequence bigint NOT NULL,
    at bigint NOT NULL,
    event text NOT NULL,
    user_id text,
    client text,
    request text,
    fields text NOT NULL,
    count bigint NOT NULL
);

ALTER TABLE audit_events ALTER COLUMN sequence ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME audit_events_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE backend_eras (
    server bytea NOT NULL,
    era text NOT NULL,
    found bigint NOT NULL
);

CREATE TABLE backend_introductions (
    backend text NOT NULL,
    server bytea NOT NULL,
    revision text NOT NULL,
    result bytea NOT NULL
);

CREATE TABLE bound_logins (
    key_id text NOT NULL,
    issuer text NOT NULL,
    refresh_token bytea NOT NULL,
    due bigint NOT NULL
);

CREATE TABLE browser_sessions (
    id_digest bytea NOT NULL,
    key_id text NOT NULL,
    data text NOT NULL,
    created_at bigint NOT NULL,
    used_at bigint NOT NULL
);

CREATE TABLE certificates (
    place text NOT NULL,
    chain text,
    sealed bytea,
    due bigint NOT NULL,
    order_url text,
    order_key bytea,
    holder text,
    held_until bigint,
    failures bigint DEFAULT 0 NOT NULL,
    failed bigint,
    failure text
);

CREATE TABLE clients (
    rowid bigint NOT NULL,
    id text NOT NULL,
    name text NOT NULL,
    redirect_uris text NOT NULL,
    auth text NOT NULL,
    secret bytea,
    grant_types text NOT NULL,
    scope text,
    metadata text NOT NULL,
    fingerprint bytea,
    created bigint NOT NULL,
    consented bigint,
    revoked bigint,
    network bytea,
    bytes bigint DEFAULT 0 NOT NULL,
    registration bytea,
    registered bigint DEFAULT 0 NOT NULL,
    document bytea,
    document_read bigint,
    expired bigint,
    jwks text,
    origin text DEFAULT 'registered'::text NOT NULL,
    consent_skipped bigint DEFAULT 0 NOT NULL,
    jwks_uri text,
    any_secret bigint DEFAULT 0 NOT NULL,
    CONSTRAINT clients_auth_check CHECK ((auth = ANY (ARRAY['none'::text, 'client_secret_basic'::text, 'client_secret_post'::text]))),
    CONSTRAINT clients_consent_skipped_check CHECK ((consent_skipped = ANY (ARRAY[(0)::bigint, (1)::bigint])))
);

ALTER TABLE clients ALTER COLUMN rowid ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME clients_rowid_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE codes (
    digest bytea NOT NULL,
    grant_id text NOT NULL,
    challenge text NOT NULL,
    expires bigint NOT NULL,
    used bigint,
    repeated bigint
);

CREATE TABLE data_keys (
    owner text NOT NULL,
    sealed bytea NOT NULL,
    version bigint NOT NULL,
    created bigint NOT NULL
);

CREATE TABLE device_authorizations (
    device bytea NOT NULL,
    user_code bytea NOT NULL,
    client text NOT NULL,
    endpoint text,
    scopes text NOT NULL,
    expires bigint NOT NULL,
    denied bigint,
    grant_id text,
    redeemed bigint,
    document text,
    decided bigint,
    form bytea
);

CREATE TABLE ended_user_secrets (
    id bigint NOT NULL,
    user_id text NOT NULL,
    name text NOT NULL
);

ALTER TABLE ended_user_secrets ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ended_user_secrets_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE gateway (
    name text NOT NULL,
    value bytea NOT NULL
);

CREATE TABLE grants (
    rowid bigint NOT NULL,
    id text NOT NULL,
    user_id text NOT NULL,
    api_key text NOT NULL,
    client text NOT NULL,
    endpoint text NOT NULL,
    scopes text NOT NULL,
    redirect_uri text NOT NULL,
    created bigint NOT NULL,
    expires bigint NOT NULL,
    last_used bigint,
    revoked bigint
);

ALTER TABLE grants ALTER COLUMN rowid ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME grants_rowid_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE initial_access_tokens (
    id text NOT NULL,
    name text NOT NULL,
    digest bytea NOT NULL,
    created bigint NOT NULL,
    expires bigint NOT NULL,
    uses bigint NOT NULL,
    used bigint DEFAULT 0 NOT NULL,
    revoked bigint,
    CONSTRAINT initial_access_tokens_check CHECK (((used >= 0) AND (used <= uses))),
    CONSTRAINT initial_access_tokens_uses_check CHECK ((uses > 0))
);

CREATE TABLE invitations (
    id text NOT NULL,
    digest bytea,
    user_id text,
    further bigint DEFAULT 0 NOT NULL,
    issuer text,
    email text,
    subject text,
    rights text NOT NULL,
    key_life bigint,
    inviter text DEFAULT ''::text NOT NULL,
    created_by text NOT NULL,
    created bigint NOT NULL,
    expires bigint,
    accepted bigint,
    key_id text,
    outcome bytea,
    revoked bigint,
    CONSTRAINT invitations_check CHECK (((digest IS NULL) = (email IS NOT NULL))),
    CONSTRAINT invitations_further_check CHECK ((further = ANY (ARRAY[(0)::bigint, (1)::bigint])))
);

CREATE TABLE limit_counts (
    name text NOT NULL,
    key bytea NOT NULL,
    full_at bigint NOT NULL,
    changed bigint NOT NULL
);

CREATE TABLE mcp_sessions (
    digest bytea NOT NULL,
    user_id text NOT NULL,
    client text,
    key text,
    endpoint text NOT NULL,
    revision text NOT NULL,
    implementation bytea NOT NULL,
    capabilities bytea NOT NULL,
    log_level text,
    initialized bigint NOT NULL,
    created bigint NOT NULL,
    last_seen bigint NOT NULL,
    subscriptions text DEFAULT '[]'::text NOT NULL,
    owner bigint DEFAULT 0 NOT NULL
);

CREATE TABLE provider_logouts (
    report bytea NOT NULL,
    expires bigint NOT NULL
);

CREATE TABLE provider_sessions (
    session bytea NOT NULL,
    key_id text NOT NULL,
    created bigint NOT NULL
);

CREATE TABLE refresh_tokens (
    rowid bigint NOT NULL,
    digest bytea NOT NULL,
    generation text NOT NULL,
    grant_id text NOT NULL,
    expires bigint NOT NULL,
    used bigint,
    rotated bigint,
    successor bytea,
    sealed bytea,
    withdrawn bigint
);

ALTER TABLE refresh_tokens ALTER COLUMN rowid ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME refresh_tokens_rowid_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE replicas (
    number bigint NOT NULL,
    address text NOT NULL,
    public_key bytea NOT NULL,
    lease_until bigint NOT NULL,
    is_home bigint DEFAULT 0 NOT NULL,
    clock_ahead bigint
);

ALTER TABLE replicas ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME replicas_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE revocations (
    sequence bigint NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    at bigint NOT NULL
);

ALTER TABLE revocations ALTER COLUMN sequence ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME revocations_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE revoked_tokens (
    jti text NOT NULL,
    expires bigint NOT NULL
);

CREATE TABLE server_lists (
    server text NOT NULL,
    user_id text NOT NULL,
    capabilities bytea NOT NULL,
    method text NOT NULL,
    section bytea NOT NULL,
    revision text NOT NULL,
    list bytea NOT NULL,
    stored bigint NOT NULL
);

CREATE TABLE signing_keys (
    kid text NOT NULL,
    x text NOT NULL,
    y text NOT NULL,
    sealed bytea NOT NULL,
    created bigint NOT NULL,
    signs_from bigint NOT NULL,
    withdrawn bigint
);

CREATE TABLE task_owners (
    task bytea NOT NULL,
    owner bytea NOT NULL,
    server bytea NOT NULL,
    user_id text NOT NULL,
    client text,
    api_key text,
    expires bigint NOT NULL,
    ended bigint NOT NULL,
    CONSTRAINT task_owners_ended_check CHECK ((ended = ANY (ARRAY[(0)::bigint, (1)::bigint])))
);

CREATE TABLE transactions (
    rowid bigint NOT NULL,
    id bytea NOT NULL,
    browser bytea NOT NULL,
    user_id text NOT NULL,
    request text NOT NULL,
    expires bigint NOT NULL,
    decided bigint,
    decision text,
    outcome bytea
);

ALTER TABLE transactions ALTER COLUMN rowid ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME transactions_rowid_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE unused_clients (
    network bytea NOT NULL,
    clients bigint NOT NULL,
    bytes bigint NOT NULL
);

CREATE TABLE unused_clients_total (
    id bigint NOT NULL,
    clients bigint NOT NULL,
    bytes bigint NOT NULL,
    CONSTRAINT unused_clients_total_id_check CHECK ((id = 1))
);

CREATE TABLE upstream_clients (
    backend text NOT NULL,
    issuer text NOT NULL,
    sealed bytea NOT NULL,
    created bigint NOT NULL
);

CREATE TABLE upstream_requests (
    rowid bigint NOT NULL,
    state bytea NOT NULL,
    user_id text NOT NULL,
    backend text NOT NULL,
    browser bytea NOT NULL,
    issuer text NOT NULL,
    sealed bytea NOT NULL,
    expires bigint NOT NULL,
    form bytea,
    location bytea,
    taken bigint,
    outcome text
);

ALTER TABLE upstream_requests ALTER COLUMN rowid ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME upstream_requests_rowid_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE upstream_tokens (
    user_id text NOT NULL,
    backend text NOT NULL,
    server bytea NOT NULL,
    issuer text NOT NULL,
    resource text,
    scope text,
    sealed bytea NOT NULL,
    connected bigint NOT NULL,
    version bigint NOT NULL
);

CREATE TABLE upstream_withdrawn (
    id bigint NOT NULL,
    user_id text NOT NULL,
    backend text NOT NULL,
    issuer text NOT NULL,
    sealed bytea NOT NULL,
    attempts bigint DEFAULT 0 NOT NULL
);

ALTER TABLE upstream_withdrawn ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME upstream_withdrawn_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE used_assertions (
    digest bytea NOT NULL,
    expires bigint NOT NULL
);

CREATE TABLE user_secrets (
    user_id text NOT NULL,
    name text NOT NULL,
    sealed bytea NOT NULL,
    changed bigint NOT NULL
);

CREATE TABLE users (
    id text NOT NULL,
    created bigint NOT NULL,
    disabled bigint,
    deleted bigint
);

INSERT INTO _sqlx_migrations VALUES (159, 'baseline', '2026-11-30 12:21:57.809144+00', true, '\x3fcb2f98e62647923961537435fbf6a299daf182bf8cff75bd8dc94211abfd753db150e088cbf8ec36f6a3810451a67c', 138318834);
INSERT INTO _sqlx_migrations VALUES (160, 'client consent', '2026-11-30 12:21:57.948636+00', true, '\xa6998806db6e41074b75dc304fac6346592c2e972bf9862292e5e3fa6e7e255b4024ff180ecefe511e89c1a19ee71169', 1497384);
INSERT INTO _sqlx_migrations VALUES (161, 'key networks', '2026-11-30 12:21:57.949728+00', true, '\xde6e4a9b733991ee0634a7f85d5785915c99e67074b0efe72b84f2d5998f013ba096a360c85caaac404c8eaeb01557b1', 237458);
INSERT INTO _sqlx_migrations VALUES (162, 'initial access tokens', '2026-11-30 12:21:57.950032+00', true, '\x3b43143287e31cdcf451bfe7627eddb3398d6ce66cc5daae009c439868bb77aa2d556dcf2cc87edf39e0324f24cc3d41', 6697191);
INSERT INTO _sqlx_migrations VALUES (170, 'ended user secrets', '2026-11-30 12:21:57.956887+00', true, '\x05d011a58384e12b2037b84ddcf0f1c7bc1896a337a3588e72de82d38a20b2c3b136d458ebfc770333d041c09427f618', 2884237);
INSERT INTO _sqlx_migrations VALUES (171, 'client key urls', '2026-11-30 12:21:57.959869+00', true, '\x06235f0bbb0511a6d5bc17f2a544e93eb5a3b105be4d97f9be2940a53ba236891806282870cf27e788aab39ca344efb2', 238416);
INSERT INTO _sqlx_migrations VALUES (180, 'device documents', '2026-11-30 12:21:57.960168+00', true, '\xca46a9f501389ef924ea0ba70dd4423cfe13ae5cd5856fd3c756e7b6bd6b89971e9824cf30f7cfd04d3d47feebf6773a', 595257);
INSERT INTO _sqlx_migrations VALUES (190, 'replicas', '2026-11-30 12:21:57.960806+00', true, '\xd8a2d489efcd932caa6b0111e3d94b44c1bd87745311348ed011342729117ba5205edd9d219c1cfdd3cccfc5e078583a', 7112922);
INSERT INTO _sqlx_migrations VALUES (200, 'limit counts', '2026-11-30 12:21:57.967998+00', true, '\xe1d421d3e13d2b965b0dac6222252c7d04d9c4dc1c5b5e46852a6a1da0dfd1ec865b57b03d680b3db68bdf23baf1bbc7', 2985822);
INSERT INTO _sqlx_migrations VALUES (210, 'replica home', '2026-11-30 12:21:57.97104+00', true, '\x59b122a121a7fde56d2c0b8b4a8d665f85ca57e3025913fe3a751595a5231ab92238ea265afe869b4642d7e077f62026', 1308280);
INSERT INTO _sqlx_migrations VALUES (220, 'task owners', '2026-11-30 12:21:57.972474+00', true, '\xd69722b6077512fe6562f86b9325713891500c1ec4a3a1a7033ea3dc4dd2b0aa1fe0104157318f1518440c83e20768a2', 9261207);
INSERT INTO _sqlx_migrations VALUES (230, 'connections of clients', '2026-11-30 12:21:57.981814+00', true, '\x161cf7ef55af354b3a67bbbcf7c06214cb4460c16ae553d23d1a9b8c7faa8102700906dc110d4a8f50b3d708725c87d7', 878092);
INSERT INTO _sqlx_migrations VALUES (240, 'replica clocks', '2026-11-30 12:21:57.982751+00', true, '\x3874e1e18df299be61ac3d299bb3bc92f4fe09577cdc625b120cf42ad5de5cc7647af063abde6468c221af887550f142', 221332);
INSERT INTO _sqlx_migrations VALUES (250, 'rows found by index', '2026-11-30 12:21:57.983009+00', true, '\x2aa852ab57c11804b9061866e17820be50e477f8718faf91b75c939eb869556135f0a57126ffb920de0074b8725f1215', 17388048);
INSERT INTO _sqlx_migrations VALUES (255, 'form outcomes', '2026-11-30 12:21:58.000643+00', true, '\xd8363fbc04e2059fbe5a341b31ce84132a23e3f196ede7bdea741cdefc78badd8f829f2e4334afdc9bfb88aa2e58afb9', 6154401);
INSERT INTO _sqlx_migrations VALUES (256, 'client secrets', '2026-11-30 12:21:58.00687+00', true, '\x9b93d2a7dd91ac84851a404612b3ee406bce581a16756ef5672709a629e0447c344483cc9a64c78832e07dc8c80e6859', 384126);
INSERT INTO _sqlx_migrations VALUES (270, 'invitations', '2026-11-30 12:21:58.007307+00', true, '\x427413f35dc88759db19877eaa81477e2648165cb696f63153cec4e9113d5ed8b755e08efe975b15050c8f53a8a4d648', 7762294);
INSERT INTO _sqlx_migrations VALUES (275, 'certificates', '2026-11-30 12:21:58.015165+00', true, '\x820973f38a08c68a51854c622e5a1368faeef25b3a13a2c993b91ffdde9be0a6c7af392d80a71e15cb6ddbc28da75a2b', 11084943);
INSERT INTO _sqlx_migrations VALUES (280, 'server lists', '2026-11-30 12:21:58.026388+00', true, '\x60a8f37187800ef169ae0460f768d70c653e9b3a028e47a23585c0d1f53e9dae620fb92a6d0129e2fad343cef9d26905', 8468158);

INSERT INTO api_keys OVERRIDING SYSTEM VALUE VALUES (2, 'eCP4fvyOae', 'bob', 'phone', '\xdf3f4ce0de1c3114c20de9e7da013bfe97c259e4194fa66c551247dd2530d429', '{"servers":{"only":{"demo":"read-only"}},"admin":false}', 0, 1796041319058, NULL, NULL, NULL, NULL, NULL, 'secret', NULL, NULL, NULL, 'the operator root', NULL, NULL, NULL);
INSERT INTO api_keys OVERRIDING SYSTEM VALUE VALUES (3, 'k49DI76Nnx', 'bob', 'old', '\x021897657f45e3619eea0ca3c3cdc2ec3bb95245745aa3f92eb8dbcc6b17b89b', '{"servers":"all","admin":false}', 0, 1796041319231, NULL, NULL, NULL, NULL, NULL, 'secret', NULL, NULL, NULL, 'the operator root', NULL, NULL, NULL);
INSERT INTO api_keys OVERRIDING SYSTEM VALUE VALUES (1, 'TSf2xfa2dk', 'ada', 'laptop', '\xba5f645a62d247956e8331c144a87ae3f184d07c0981e92ced52fe7050499089', '{"servers":"all","admin":false}', 0, 1796041318918, NULL, 1796041319455, NULL, NULL, NULL, 'secret', NULL, NULL, NULL, 'the operator root', NULL, NULL, NULL);

INSERT INTO audit_events OVERRIDING SYSTEM VALUE VALUES (1, 1796041318189, 'invitation_created', 'owner', NULL, NULL, '{"by":"operator","invitation":"xgFDvhPvLw","user":"owner"}', 1);
INSERT INTO audit_events OVERRIDING SYSTEM VALUE VALUES (2, 1796041318922, 'key_created', 'ada', NULL, NULL, '{"by":"operator root","key":"TSf2xfa2dk","kind":"key","name":"laptop","rights":"all servers","user":"ada"}', 1);
INSERT INTO audit_events OVERRIDING SYSTEM VALUE VALUES (3, 1796041319064, 'key_created', 'bob', NULL, NULL, '{"by":"operator root","key":"eCP4fvyOae","kind":"key","name":"phone","rights":"demo:read","user":"bob"}', 1);
INSERT INTO audit_events OVERRIDING SYSTEM VALUE VALUES (4, 1796041319242, 'key_created', 'bob', NULL, NULL, '{"by":"operator root","key":"k49DI76Nnx","kind":"key","name":"old","rights":"all servers","user":"bob"}', 1);
INSERT INTO audit_events OVERRIDING SYSTEM VALUE VALUES (5, 1796041319342, 'client_registered', NULL, 'RhGL9UyD2KbOf4skeaOtP4', '0442057da10f82e6', '{"client":"RhGL9UyD2KbOf4skeaOtP4","ip":"127.0.0.1","name":"A test"}', 1);
INSERT INTO audit_events OVERRIDING SYSTEM VALUE VALUES (6, 1796041319597, 'invitation_created', 'eve', NULL, NULL, '{"by":"operator root","invitation":"yiuXPGorPz","user":"eve"}', 1);
INSERT INTO audit_events OVERRIDING SYSTEM VALUE VALUES (7, 1796041319424, 'login', 'ada', NULL, '40b0f8f09fa47b10', '{"key":"TSf2xfa2dk","user":"ada"}', 1);
INSERT INTO audit_events OVERRIDING SYSTEM VALUE VALUES (8, 1796041319468, 'consent', 'ada', 'RhGL9UyD2KbOf4skeaOtP4', '7d1fec639e39733a', '{"approved_by":"person","client":"RhGL9UyD2KbOf4skeaOtP4","endpoint":"/mcp","grant":"kKN9t5Ifq5zjq3tFoiyGso","scopes":"mcp:use","user":"ada"}', 1);
INSERT INTO audit_events OVERRIDING SYSTEM VALUE VALUES (9, 1796041319481, 'code_redeemed', 'ada', 'RhGL9UyD2KbOf4skeaOtP4', '1b57661d1d83ef4f', '{"client":"RhGL9UyD2KbOf4skeaOtP4","grant":"kKN9t5Ifq5zjq3tFoiyGso","user":"ada"}', 1);

INSERT INTO browser_sessions VALUES ('\xe2a23d92ed492844cc528669733947d3df99765a7182c5d06d086036dca68622', 'TSf2xfa2dk', '{"visit":{"at":1796041319424,"key":"TSf2xfa2dk","seed":"M_20wh-OOZRoovoqDT_vCzxGCy5QsO0WXOvx7AyTbHY"}}', 1796041319424, 1796041319424);

INSERT INTO clients OVERRIDING SYSTEM VALUE VALUES (1, 'RhGL9UyD2KbOf4skeaOtP4', 'A test', '["http://127.0.0.1:7777/callback"]', 'none', NULL, '["authorization_code","refresh_token"]', NULL, '{"client_name":"A test","grant_types":["authorization_code","refresh_token"],"redirect_uris":["http://127.0.0.1:7777/callback"],"response_types":["code"],"token_endpoint_auth_method":"none"}', '\x5e9d2c0fdc8f4b694d55a1d1aaf246a15b0c31431efd95898e1e6206039410cc', 1796041319270, 1796041319454, NULL, NULL, 782, '\x5e9d2c0fdc8f4b694d55a1d1aaf246a15b0c31431efd95898e1e6206039410cc', 1796041319454, NULL, NULL, NULL, NULL, 'registered', 0, NULL, 0);

INSERT INTO codes VALUES ('\xd095da5dd8db8c89484c103196ac9cb47f888dd1985342892b49cd98dbc72d05', 'kKN9t5Ifq5zjq3tFoiyGso', 'z8Vk8Qh4iklLMpwnEWassfpHLuFBbInPZdMdMlVEG3A', 1796041379454, 1796041319470, NULL);

INSERT INTO gateway VALUES ('request state', '\x88af8e1a8aadff36157f01870c7347e2f43a9b7fb19d9891a8bf721f1358653dac2aa8ca612bc5797ccd4c2501dec521835c320297353306f6fcaa2aa898978498c2ea365c134648');
INSERT INTO gateway VALUES ('pepper', '\x6576f8d782a8fb4041ac766a2d3f9591d8bf75b9e13df91c3646342561e90a2640229ea00b5145d074402d86d3cca72021400850f169f7154b69e32c8f93fcca27144c992fcf9d3b');

INSERT INTO grants OVERRIDING SYSTEM VALUE VALUES (1, 'kKN9t5Ifq5zjq3tFoiyGso', 'ada', 'TSf2xfa2dk', 'RhGL9UyD2KbOf4skeaOtP4', '/mcp', 'mcp:use', 'http://127.0.0.1:7777/callback', 1796041319454, 1811593319454, 1796041319470, NULL);

INSERT INTO invitations VALUES ('xgFDvhPvLw', '\x63b70cd77cdab0eeff959a0d897b0c5a2244c51ed512a571e60263ab4b05e429', 'owner', 0, NULL, NULL, NULL, '{"servers":"all","admin":true}', NULL, '', 'operator', 1796041318175, 1796300518175, NULL, NULL, NULL, NULL);
INSERT INTO invitations VALUES ('yiuXPGorPz', '\x05c9f18b3349bc7ab0e62c2882afc66956a316a99e3143a49eb3c80a682d50b7', 'eve', 0, NULL, NULL, NULL, '{"servers":"all","admin":false}', NULL, '', 'operator root', 1796041319588, 1796300519587, NULL, NULL, NULL, NULL);

INSERT INTO limit_counts VALUES ('registrations', '\xeb38c4832fd51738c2f10e647b4deff3f649a3790974b5e4e3b1faa423ec1c2c', 1796041319424, 1796041319916);

INSERT INTO mcp_sessions VALUES ('\x5efdb9dcde7381471209a2aaf71a099ad5513793b06947773b0c5f37cd49369f', 'ada', 'RhGL9UyD2KbOf4skeaOtP4', 'TSf2xfa2dk', '/mcp', '2025-06-18', '\x7b226e616d65223a2022412074657374222c202276657273696f6e223a202231227d', '\x7b7d', NULL, 1, 1796041319496, 1796041319499, '[]', 0);

INSERT INTO refresh_tokens OVERRIDING SYSTEM VALUE VALUES (1, '\x656ebc272ef0750b93bfca9518eca32c14f414e7abf7f2e8cf3f4d053bedee9a', 'tgHxFz00AXqzbIZK', 'kKN9t5Ifq5zjq3tFoiyGso', 1798633319470, 1796041319914, NULL, NULL, NULL, NULL);

INSERT INTO signing_keys VALUES ('Cp2np0dkS6FsHJemNxoUsmue5aq5W8Kc0v9jLdvOquI', '66oFA4qPXiKlSgeWCHe6GcpjMmmSD4_ctYHtd_QoYA4', '4gv3-tVedcmVZpR2i48pkOIjNWQeLtmrX2OtzZYvIzo', '\xa2981e1150686d45beb5cd5968564ceb6b7d034a8957be69aa394847ff1c6146a8d78e8e06eee559ace38307d80fed74b898911024ca260bac20200712b8be3c1ab19de846e34c766318d2f7da7ac8f2760e253c5b010981113ed8f17c98900ef80fa3c648ba52df332aebb9d30dc551bc11489f50b44dcb47b7124a1e25d484f60d4110777664bc83a987ad2bb850df5f48b1c60f7d7943d15a3b3370ac3458322c2066d09ed43500bbc1f7d28377d31090', 1796041318118, 1796041318118, NULL);

INSERT INTO transactions OVERRIDING SYSTEM VALUE VALUES (1, '\xca90b9b818f33f18153e0c03300b2a81cbd7bf0dda441678f347f6099d59e901', '\xf47cc0464e73ed15b578b2a9f9ef2a275c674740f3ba4fb77f2aea0a54fa9931', 'ada', '{"client":"RhGL9UyD2KbOf4skeaOtP4","document":null,"redirect_uri":"http://127.0.0.1:7777/callback","state":"s","challenge":"z8Vk8Qh4iklLMpwnEWassfpHLuFBbInPZdMdMlVEG3A","named":"/mcp","asked":"","login":"if-needed","chooses":false,"consent":"if-needed"}', 1796041919386, 1796041319455, 'approved', '\x01537cff9435753f9104c1f809f109fc04cdd24110a23010fc93d5457d3714e7400687735ce7cc9a9ed2b8b92ad662943e8c54d5196c1d034adf77c7103ddf86e4fa3b805568896b6e8437ed4858c665f5d52945abdef6758da9c33881f5aae85e543784faf44de55ebaf362a6a61402e3061dd7f2512651599094608a8e5d26dc9441faafa1f54d3d49ac228b444d2835457a8e09e4ba812075f7a669d704be9ac10fae63f6e8d40ab4d5a0fe6b424980c5bdd45cedf6cc76437e4d85f9a0b36288cd73b9856866aadd0e037fdc0190787528b18fbb055cf2db0d684484c40b74c409f392d1572976f84a0a6e10e1854ffafcd12536715f06a79fd49a6322ea5496ca3640d7399248027a1bff64672944ef42d659331c41dc08');

INSERT INTO unused_clients_total VALUES (1, 0, 0);

INSERT INTO users VALUES ('ada', 1796041318918, NULL, NULL);
INSERT INTO users VALUES ('bob', 1796041319058, NULL, NULL);

SELECT pg_catalog.setval('api_keys_rowid_seq', 3, true);

SELECT pg_catalog.setval('audit_events_sequence_seq', 9, true);

SELECT pg_catalog.setval('clients_rowid_seq', 1, true);

SELECT pg_catalog.setval('ended_user_secrets_id_seq', 1, false);

SELECT pg_catalog.setval('grants_rowid_seq', 1, true);

SELECT pg_catalog.setval('refresh_tokens_rowid_seq', 1, true);

SELECT pg_catalog.setval('replicas_number_seq', 1, false);

SELECT pg_catalog.setval('revocations_sequence_seq', 1, false);

SELECT pg_catalog.setval('transactions_rowid_seq', 1, true);

SELECT pg_catalog.setval('upstream_requests_rowid_seq', 1, false);

SELECT pg_catalog.setval('upstream_withdrawn_id_seq', 1, false);

ALTER TABLE ONLY _sqlx_migrations
    ADD CONSTRAINT _sqlx_migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY acme_accounts
    ADD CONSTRAINT acme_accounts_pkey PRIMARY KEY (directory);

ALTER TABLE ONLY acme_challenges
    ADD CONSTRAINT acme_challenges_pkey PRIMARY KEY (token);

ALTER TABLE ONLY api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY audit_events
    ADD CONSTRAINT audit_events_pkey PRIMARY KEY (sequence);

ALTER TABLE ONLY backend_eras
    ADD CONSTRAINT backend_eras_pkey PRIMARY KEY (server);

ALTER TABLE ONLY backend_introductions
    ADD CONSTRAINT backend_introductions_pkey PRIMARY KEY (backend);

ALTER TABLE ONLY bound_logins
    ADD CONSTRAINT bound_logins_pkey PRIMARY KEY (key_id);

ALTER TABLE ONLY browser_sessions
    ADD CONSTRAINT browser_sessions_pkey PRIMARY KEY (id_digest);

ALTER TABLE ONLY certificates
    ADD CONSTRAINT certificates_pkey PRIMARY KEY (place);

ALTER TABLE ONLY clients
    ADD CONSTRAINT clients_fingerprint_key UNIQUE (fingerprint);

ALTER TABLE ONLY clients
    ADD CONSTRAINT clients_pkey PRIMARY KEY (id);

ALTER TABLE ONLY codes
    ADD CONSTRAINT codes_pkey PRIMARY KEY (digest);

ALTER TABLE ONLY data_keys
    ADD CONSTRAINT data_keys_pkey PRIMARY KEY (owner);

ALTER TABLE ONLY device_authorizations
    ADD CONSTRAINT device_authorizations_pkey PRIMARY KEY (device);

ALTER TABLE ONLY device_authorizations
    ADD CONSTRAINT device_authorizations_user_code_key UNIQUE (user_code);

ALTER TABLE ONLY ended_user_secrets
    ADD CONSTRAINT ended_user_secrets_pkey PRIMARY KEY (id);

ALTER TABLE ONLY gateway
    ADD CONSTRAINT gateway_pkey PRIMARY KEY (name);

ALTER TABLE ONLY grants
    ADD CONSTRAINT grants_pkey PRIMARY KEY (id);

ALTER TABLE ONLY initial_access_tokens
    ADD CONSTRAINT initial_access_tokens_digest_key UNIQUE (digest);

ALTER TABLE ONLY initial_access_tokens
    ADD CONSTRAINT initial_access_tokens_pkey PRIMARY KEY (id);

ALTER TABLE ONLY invitations
    ADD CONSTRAINT invitations_digest_key UNIQUE (digest);

ALTER TABLE ONLY invitations
    ADD CONSTRAINT invitations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY limit_counts
    ADD CONSTRAINT limit_counts_pkey PRIMARY KEY (name, key);

ALTER TABLE ONLY mcp_sessions
    ADD CONSTRAINT mcp_sessions_pkey PRIMARY KEY (digest);

ALTER TABLE ONLY provider_logouts
    ADD CONSTRAINT provider_logouts_pkey PRIMARY KEY (report);

ALTER TABLE ONLY provider_sessions
    ADD CONSTRAINT provider_sessions_pkey PRIMARY KEY (session);

ALTER TABLE ONLY refresh_tokens
    ADD CONSTRAINT refresh_tokens_generation_key UNIQUE (generation);

ALTER TABLE ONLY refresh_tokens
    ADD CONSTRAINT refresh_tokens_pkey PRIMARY KEY (digest);

ALTER TABLE ONLY replicas
    ADD CONSTRAINT replicas_pkey PRIMARY KEY (number);

ALTER TABLE ONLY revocations
    ADD CONSTRAINT revocations_pkey PRIMARY KEY (sequence);

ALTER TABLE ONLY revoked_tokens
    ADD CONSTRAINT revoked_tokens_pkey PRIMARY KEY (jti);

ALTER TABLE ONLY server_lists
    ADD CONSTRAINT server_lists_pkey PRIMARY KEY (server, user_id, capabilities, method);

ALTER TABLE ONLY signing_keys
    ADD CONSTRAINT signing_keys_pkey PRIMARY KEY (kid);

ALTER TABLE ONLY task_owners
    ADD CONSTRAINT task_owners_pkey PRIMARY KEY (task, owner);

ALTER TABLE ONLY transactions
    ADD CONSTRAINT transactions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY unused_clients
    ADD CONSTRAINT unused_clients_pkey PRIMARY KEY (network);

ALTER TABLE ONLY unused_clients_total
    ADD CONSTRAINT unused_clients_total_pkey PRIMARY KEY (id);

ALTER TABLE ONLY upstream_clients
    ADD CONSTRAINT upstream_clients_pkey PRIMARY KEY (backend, issuer);

ALTER TABLE ONLY upstream_requests
    ADD CONSTRAINT upstream_requests_pkey PRIMARY KEY (state);

ALTER TABLE ONLY upstream_tokens
    ADD CONSTRAINT upstream_tokens_pkey PRIMARY KEY (user_id, backend);

ALTER TABLE ONLY upstream_withdrawn
    ADD CONSTRAINT upstream_withdrawn_pkey PRIMARY KEY (id);

ALTER TABLE ONLY used_assertions
    ADD CONSTRAINT used_assertions_pkey PRIMARY KEY (digest);

ALTER TABLE ONLY user_secrets
    ADD CONSTRAINT user_secrets_pkey PRIMARY KEY (user_id, name);

ALTER TABLE ONLY users
    ADD CONSTRAINT users_pkey PRIMARY KEY (id);

CREATE UNIQUE INDEX api_keys_account ON api_keys USING btree (kind, issuer, subject) WHERE ((subject IS NOT NULL) AND (revoked IS NULL));

CREATE INDEX api_keys_accounts ON api_keys USING btree (kind, issuer, subject, created) WHERE (subject IS NOT NULL);

CREATE INDEX api_keys_confirmed ON api_keys USING btree (issuer, confirmed) WHERE (confirmed IS NOT NULL);

CREATE INDEX api_keys_expires ON api_keys USING btree (expires) WHERE (expires IS NOT NULL);

CREATE INDEX api_keys_retires ON api_keys USING btree (retires) WHERE ((retires IS NOT NULL) AND (revoked IS NULL));

CREATE INDEX api_keys_revoked ON api_keys USING btree (revoked) WHERE (revoked IS NOT NULL);

CREATE INDEX api_keys_successor ON api_keys USING btree (successor) WHERE (successor IS NOT NULL);

CREATE INDEX api_keys_user ON api_keys USING btree (user_id);

CREATE INDEX audit_events_at ON audit_events USING btree (at);

CREATE INDEX audit_events_client ON audit_events USING btree (client, sequence) WHERE (client IS NOT NULL);

CREATE INDEX audit_events_request ON audit_events USING btree (request) WHERE (request IS NOT NULL);

CREATE INDEX audit_events_user ON audit_events USING btree (user_id, sequence) WHERE (user_id IS NOT NULL);

CREATE INDEX bound_logins_due ON bound_logins USING btree (due);

CREATE INDEX browser_sessions_created ON browser_sessions USING btree (created_at);

CREATE INDEX browser_sessions_key ON browser_sessions USING btree (key_id, used_at);

CREATE INDEX browser_sessions_used_at ON browser_sessions USING btree (used_at);

CREATE INDEX clients_expired ON clients USING btree (expired) WHERE (expired IS NOT NULL);

CREATE INDEX clients_forgotten ON clients USING btree (expired) WHERE ((consented IS NULL) AND (revoked IS NULL) AND (expired IS NOT NULL));

CREATE INDEX clients_idle ON clients USING btree (registered, id) WHERE ((consented IS NOT NULL) AND (revoked IS NULL) AND (expired IS NULL));

CREATE INDEX clients_revoked ON clients USING btree (registration) WHERE (revoked IS NOT NULL);

CREATE INDEX clients_unused ON clients USING btree (network, registered) WHERE ((consented IS NULL) AND (revoked IS NULL));

CREATE INDEX clients_unused_live ON clients USING btree (registered) WHERE ((consented IS NULL) AND (revoked IS NULL) AND (expired IS NULL));

CREATE INDEX clients_unused_registered ON clients USING btree (registered) WHERE ((consented IS NULL) AND (revoked IS NULL));

CREATE INDEX codes_expires ON codes USING btree (expires);

CREATE INDEX codes_grant ON codes USING btree (grant_id);

CREATE INDEX data_keys_version ON data_keys USING btree (version);

CREATE INDEX device_authorizations_client ON device_authorizations USING btree (client, expires);

CREATE INDEX device_authorizations_expires ON device_authorizations USING btree (expires);

CREATE INDEX device_authorizations_grant ON device_authorizations USING btree (grant_id) WHERE (grant_id IS NOT NULL);

CREATE INDEX grants_api_key ON grants USING btree (api_key);

CREATE INDEX grants_client ON grants USING btree (client);

CREATE INDEX grants_expires ON grants USING btree (expires, id);

CREATE INDEX grants_live ON grants USING btree (user_id, client) WHERE (revoked IS NULL);

CREATE INDEX grants_unredeemed ON grants USING btree (created) WHERE (last_used IS NULL);

CREATE INDEX grants_user ON grants USING btree (user_id);

CREATE INDEX initial_access_tokens_expires ON initial_access_tokens USING btree (expires);

CREATE INDEX invitations_address ON invitations USING btree (issuer, email) WHERE (email IS NOT NULL);

CREATE INDEX invitations_expires ON invitations USING btree (expires) WHERE (expires IS NOT NULL);

CREATE INDEX invitations_inviter ON invitations USING btree (inviter);

CREATE INDEX invitations_outcome ON invitations USING btree (accepted) WHERE (outcome IS NOT NULL);

CREATE INDEX invitations_subject ON invitations USING btree (issuer, subject) WHERE (subject IS NOT NULL);

CREATE INDEX invitations_user ON invitations USING btree (user_id) WHERE (user_id IS NOT NULL);

CREATE INDEX limit_counts_by_changed ON limit_counts USING btree (changed);

CREATE INDEX limit_counts_full ON limit_counts USING btree (full_at);

CREATE INDEX mcp_sessions_last_seen ON mcp_sessions USING btree (last_seen);

CREATE INDEX mcp_sessions_unready ON mcp_sessions USING btree (last_seen) WHERE (initialized = 0);

CREATE INDEX mcp_sessions_user ON mcp_sessions USING btree (user_id, endpoint, last_seen);

CREATE INDEX provider_logouts_expires ON provider_logouts USING btree (expires);

CREATE INDEX provider_sessions_key ON provider_sessions USING btree (key_id, created);

CREATE INDEX refresh_tokens_grant ON refresh_tokens USING btree (grant_id);

CREATE UNIQUE INDEX replicas_one_home ON replicas USING btree (is_home) WHERE (is_home = 1);

CREATE INDEX revocations_at ON revocations USING btree (at);

CREATE INDEX revoked_tokens_expires ON revoked_tokens USING btree (expires);

CREATE INDEX server_lists_by_age ON server_lists USING btree (stored);

CREATE INDEX server_lists_of_user ON server_lists USING btree (user_id);

CREATE INDEX task_owners_client ON task_owners USING btree (client) WHERE (client IS NOT NULL);

CREATE INDEX task_owners_expires ON task_owners USING btree (expires);

CREATE INDEX task_owners_key ON task_owners USING btree (api_key) WHERE (api_key IS NOT NULL);

CREATE INDEX task_owners_owner ON task_owners USING btree (owner, server, expires);

CREATE INDEX task_owners_user ON task_owners USING btree (user_id);

CREATE INDEX transactions_browser ON transactions USING btree (browser, expires);

CREATE INDEX transactions_expires ON transactions USING btree (expires);

CREATE INDEX transactions_user ON transactions USING btree (user_id, expires);

CREATE INDEX unused_clients_most ON unused_clients USING btree (clients DESC, network);

CREATE INDEX upstream_requests_expires ON upstream_requests USING btree (expires);

CREATE UNIQUE INDEX upstream_requests_form ON upstream_requests USING btree (form);

CREATE INDEX upstream_requests_user ON upstream_requests USING btree (user_id);

CREATE INDEX upstream_tokens_server ON upstream_tokens USING btree (backend, server);

CREATE INDEX upstream_withdrawn_user ON upstream_withdrawn USING btree (user_id, backend);

CREATE INDEX used_assertions_expires ON used_assertions USING btree (expires);

CREATE INDEX users_deleted ON users USING btree (deleted) WHERE (deleted IS NOT NULL);

CREATE TRIGGER audit_events_emptied BEFORE TRUNCATE ON audit_events FOR EACH STATEMENT EXECUTE FUNCTION audit_trail_refused();

CREATE TRIGGER audit_events_kept AFTER DELETE ON audit_events REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT EXECUTE FUNCTION audit_trail_kept();

CREATE TRIGGER audit_events_unchanged BEFORE UPDATE ON audit_events FOR EACH ROW EXECUTE FUNCTION audit_trail_refused();

CREATE TRIGGER clients_unused_added AFTER INSERT ON clients FOR EACH ROW WHEN (((new.consented IS NULL) AND (new.revoked IS NULL))) EXECUTE FUNCTION unused_client_added();

CREATE TRIGGER clients_unused_deleted AFTER DELETE ON clients FOR EACH ROW WHEN (((old.consented IS NULL) AND (old.revoked IS NULL))) EXECUTE FUNCTION unused_client_ended();

CREATE TRIGGER clients_unused_ended AFTER UPDATE OF consented, revoked ON clients FOR EACH ROW WHEN (((old.consented IS NULL) AND (old.revoked IS NULL) AND (NOT ((new.consented IS NULL) AND (new.revoked IS NULL))))) EXECUTE FUNCTION unused_client_ended();

CREATE TRIGGER clients_unused_restored AFTER UPDATE OF consented, revoked ON clients FOR EACH ROW WHEN (((new.consented IS NULL) AND (new.revoked IS NULL) AND (NOT ((old.consented IS NULL) AND (old.revoked IS NULL))))) EXECUTE FUNCTION unused_client_added();

CREATE TRIGGER upstream_tokens_deleted AFTER DELETE ON upstream_tokens FOR EACH ROW EXECUTE FUNCTION upstream_token_withdrawn();

CREATE TRIGGER user_secrets_deleted AFTER DELETE ON user_secrets FOR EACH ROW EXECUTE FUNCTION user_secret_ended();

ALTER TABLE ONLY api_keys
    ADD CONSTRAINT api_keys_successor_fkey FOREIGN KEY (successor) REFERENCES api_keys(id) DEFERRABLE;

ALTER TABLE ONLY api_keys
    ADD CONSTRAINT api_keys_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);

ALTER TABLE ONLY bound_logins
    ADD CONSTRAINT bound_logins_key_id_fkey FOREIGN KEY (key_id) REFERENCES api_keys(id) ON DELETE CASCADE;

ALTER TABLE ONLY codes
    ADD CONSTRAINT codes_grant_id_fkey FOREIGN KEY (grant_id) REFERENCES grants(id) ON DELETE CASCADE;

ALTER TABLE ONLY device_authorizations
    ADD CONSTRAINT device_authorizations_grant_id_fkey FOREIGN KEY (grant_id) REFERENCES grants(id) ON DELETE CASCADE;

ALTER TABLE ONLY grants
    ADD CONSTRAINT grants_api_key_fkey FOREIGN KEY (api_key) REFERENCES api_keys(id);

ALTER TABLE ONLY grants
    ADD CONSTRAINT grants_client_fkey FOREIGN KEY (client) REFERENCES clients(id);

ALTER TABLE ONLY grants
    ADD CONSTRAINT grants_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);

ALTER TABLE ONLY provider_sessions
    ADD CONSTRAINT provider_sessions_key_id_fkey FOREIGN KEY (key_id) REFERENCES api_keys(id) ON DELETE CASCADE;

ALTER TABLE ONLY refresh_tokens
    ADD CONSTRAINT refresh_tokens_grant_id_fkey FOREIGN KEY (grant_id) REFERENCES grants(id) ON DELETE CASCADE;

ALTER TABLE ONLY task_owners
    ADD CONSTRAINT task_owners_api_key_fkey FOREIGN KEY (api_key) REFERENCES api_keys(id) ON DELETE CASCADE;

ALTER TABLE ONLY task_owners
    ADD CONSTRAINT task_owners_client_fkey FOREIGN KEY (client) REFERENCES clients(id) ON DELETE CASCADE;

ALTER TABLE ONLY task_owners
    ADD CONSTRAINT task_owners_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE;

ALTER TABLE ONLY upstream_requests
    ADD CONSTRAINT upstream_requests_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE;

ALTER TABLE ONLY upstream_tokens
    ADD CONSTRAINT upstream_tokens_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE;

ALTER TABLE ONLY user_secrets
    ADD CONSTRAINT user_secrets_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE;
