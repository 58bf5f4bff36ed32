BEGIN TRANSACTION;
CREATE TABLE _sqlx_migrations (
    version BIGINT PRIMARY KEY,
    description TEXT NOT NULL,
    installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    success BOOLEAN NOT NULL,
    checksum BLOB NOT NULL,
    execution_time BIGINT NOT NULL
);
INSERT INTO "_sqlx_migrations" VALUES(1,'gateway','2026-11-30 12:21:52',1,X'F3F9081577174CF2C787DB3155694EFF8401719E9E07D8302B4FEF102C2D77ED0F2C57B32B6E96BD93EB1E3F98AE7A3F',595488);
INSERT INTO "_sqlx_migrations" VALUES(2,'authorization','2026-11-30 12:21:52',1,X'5D068B90F0EF7C256A4D6F975E5F1AED8F6A9129291A060FB2E3FF9A817D245280DDB1159CED2117AA1A19FE250C6BD0',1911384);
INSERT INTO "_sqlx_migrations" VALUES(10,'mcp sessions','2026-11-30 12:21:52',1,X'7101DA40DD4B28CADC4FBCFCCD7225301C79AF552BC948CA6D14D16861D724F32A2E72C6174A4CBE391ECCAF2324ED1B',856247);
INSERT INTO "_sqlx_migrations" VALUES(20,'browser sessions','2026-11-30 12:21:52',1,X'048A141DF53F297509669A2F029E7E641B26AD399C92DA7338E2B8932E20CF4FD6BA26A6DAE5D1A9F06D4A225B2036ED',550811);
INSERT INTO "_sqlx_migrations" VALUES(30,'session subscriptions','2026-11-30 12:21:52',1,X'C047912B448DBDD11456A8E09B0A64C8ACBFF71BA20C98083A3F4D35937D1F47F86949E5EE9C78174FFB365E72A451EC',693171);
INSERT INTO "_sqlx_migrations" VALUES(40,'backend eras','2026-11-30 12:21:52',1,X'956563AE295363148AC65B7576B548DEFCC5376425AB30445A33CF2131DB594FC9AB328B74FD535C75522DB6916D8682',509531);
INSERT INTO "_sqlx_migrations" VALUES(50,'backend introductions','2026-11-30 12:21:52',1,X'EFDEAB1C55649D143FCE352212BC254B2D8EA580DCCF51E7AA9EBD403B3572A1F681F1DA61306F6C57402E7451BED908',418484);
INSERT INTO "_sqlx_migrations" VALUES(60,'login','2026-11-30 12:21:52',1,X'1C80B2445323B65F4AB56694A04435B50873925986442E48A823D163642B109429B97D69EEBD4C7509B8C362EC12066F',1629886);
INSERT INTO "_sqlx_migrations" VALUES(70,'registration limits','2026-11-30 12:21:52',1,X'1DAF06F54FA0B61D5DD575DBA7EF5D7A0F053C4015B47BB7BFF150EAB11A6A5147768FE42622735E335FC75460A0A5B1',3389656);
INSERT INTO "_sqlx_migrations" VALUES(80,'users','2026-11-30 12:21:52',1,X'210B4A099AEB0B925035F3774D2F8054ECB1CF5D956F5076FBEC5FC41D094F8F9D7AC79E63DAC77DFA75B70BC5DFB0ED',1407829);
INSERT INTO "_sqlx_migrations" VALUES(90,'signing keys','2026-11-30 12:21:52',1,X'5CD79C3526AB5D72E9B3D62E219F8D32F23EA60FD755E21602BFA4767B8C3C394FF4349AA4D4C9B234F31742EC02F322',1789244);
INSERT INTO "_sqlx_migrations" VALUES(100,'client documents','2026-11-30 12:21:52',1,X'F41B03FF796DF46BF5EE157D97D291AB741466E11AA873E33547C48EFB4000F597EB790F5962F442FDE61A275D5619B1',1274226);
INSERT INTO "_sqlx_migrations" VALUES(101,'client expiry','2026-11-30 12:21:52',1,X'59B85B24E2DB4EC03328C627E5431EE2B04E6753B0CA0A9AFBB5034975D77F876B16E2CD893E7327C89505114E118059',871783);
INSERT INTO "_sqlx_migrations" VALUES(110,'key kinds','2026-11-30 12:21:52',1,X'DC46F8E333BBFDCFDC86405E22429190C1D6F0467E009723119704424EC739D398CD999B3A5BBD22955BA6BFC0DC878C',4349568);
INSERT INTO "_sqlx_migrations" VALUES(111,'confidential clients','2026-11-30 12:21:52',1,X'7175C6C12EAD4C17FD1ED1697F0A3F7F6123F232922F17963DFFB36EC18070E99829AF982BCED572CBA352C3DFCDA7C6',1325342);
INSERT INTO "_sqlx_migrations" VALUES(112,'device authorizations','2026-11-30 12:21:52',1,X'22AD06C5AA27FB01DDF8D136B25FCD8C9C2DC5FF3E34AE07844EDC54583BE873994FF6590D5AE56B7FA1B474806816F5',608544);
INSERT INTO "_sqlx_migrations" VALUES(120,'vault','2026-11-30 12:21:52',1,X'024DC051AE144380DF66766AB0F51A3153C050FC0D523613DFED9CDEAA9BDC106434D587F532B0EFB9FB855EAD43ADA2',929780);
INSERT INTO "_sqlx_migrations" VALUES(130,'audit events','2026-11-30 12:21:52',1,X'F27BC96B8D25CC90BF0400472897FFCF58936B31E1EFF5B1D7EDD8977DB783F3FB75EDAFA34B5BE7E977160541B3CAC9',832264);
INSERT INTO "_sqlx_migrations" VALUES(131,'disabled users','2026-11-30 12:21:52',1,X'B82B48A7F54B1766B7AA2A7508A093C429DC0A1393D83CD4E1FE3DDD2CE87425DBBE667C913B82A4F8ED79109D610A34',1521820);
INSERT INTO "_sqlx_migrations" VALUES(150,'provider logins','2026-11-30 12:21:52',1,X'CA94CA8C54D9ADC1144D763B3AE34E8C305B5889284EA62C74ED0C61CFBE66DD4606BBD1BE8D6E8191D2A908BBDB1775',823618);
INSERT INTO "_sqlx_migrations" VALUES(159,'user id','2026-11-30 12:21:52',1,X'6C4EDB60B438AF72C6FA43EEEC0BA7F3913553B67E0B09CE80C87E7CC9315AEB29261408A8357C14F2B3B618B4EF2F35',24782044);
INSERT INTO "_sqlx_migrations" VALUES(160,'client consent','2026-11-30 12:21:52',1,X'D68FDE113818308D5DE5D42634FF57964C945A19F8D5F6BF04C9EE38427F82E821297424D829CB73BF358199F30A7208',4414003);
INSERT INTO "_sqlx_migrations" VALUES(161,'key networks','2026-11-30 12:21:52',1,X'0CFB37526D82E72E09E5A3C534019C181200ECD98B35D016BB596F46AD68514BF01F2957BBCB958810C6EABFFAEEEB74',3958487);
INSERT INTO "_sqlx_migrations" VALUES(162,'initial access tokens','2026-11-30 12:21:52',1,X'89CABF9774A7DFC1DB0CE77ABC142A0F1B9785AFEC53EB0F89925062C195D216FAAF3A564DE5A6528A2AB8D9205B66FB',713565);
INSERT INTO "_sqlx_migrations" VALUES(170,'ended user secrets','2026-11-30 12:21:52',1,X'928095E56DFD35083B10CEE982E9EC7C31ABA75D925C0B8DA24DBF912ACC49D592A15CEBA0DBCCBC3B1092F3FB9DC7BA',545461);
INSERT INTO "_sqlx_migrations" VALUES(171,'client key urls','2026-11-30 12:21:52',1,X'F5A88CEAE886E8ABA1D2D95CC0F640CB0CCFF17F10C7DAB01D9EEBD871F9A9605E147C2441BB2EE20BB25FF30382185B',1142291);
INSERT INTO "_sqlx_migrations" VALUES(180,'device documents','2026-11-30 12:21:52',1,X'DABAD7339DB8AA7D07DA712692849BCDC0FE9659A824F3E015DD55E148AED40A68883BEDB76EB43A00A6EFF079B45964',2375741);
INSERT INTO "_sqlx_migrations" VALUES(190,'replicas','2026-11-30 12:21:52',1,X'D2296C655D167B116F9313CBAECF8F993B4EAE43E7A4F0B56EB60385B55EC211ED0A84B0832E6F46F9A52473F19DE517',1012508);
INSERT INTO "_sqlx_migrations" VALUES(200,'limit counts','2026-11-30 12:21:52',1,X'7E04B161B653E07D9BD54EB2BC1F695CA1802A95BB591DBB2E65203F553CA5B022E7B7A66A58500577BB8CA7B3C36E25',529658);
INSERT INTO "_sqlx_migrations" VALUES(210,'replica home','2026-11-30 12:21:52',1,X'05817830BF2BE50C6A2B91AE54EA53BDA6FC16760E0450DAC441DF02BFEFA672172ACF6D9925E019A235E16E4BCAF292',1055330);
INSERT INTO "_sqlx_migrations" VALUES(220,'task owners','2026-11-30 12:21:52',1,X'3E7914C5FC9C1109690C0109D15C89ABBD57ADB5F26BB1B663A2A32F69B2B66EA4416F2A6D3BB3B23CA55C4E5F711358',721691);
INSERT INTO "_sqlx_migrations" VALUES(230,'connections of clients','2026-11-30 12:21:52',1,X'8691A80ECF1B94E774F6A90BA43ACB4E004F50BBCB6DF609B1926B5FC77631208925D173322752D18EE28AD2F14AB541',407546);
INSERT INTO "_sqlx_migrations" VALUES(240,'replica clocks','2026-11-30 12:21:52',1,X'C0EB8D95920E13B5F3D3877D96F3D801DED1C1BA277DD388BF8F6DF7CCD2906B5936613149DB119DD286B0FB093C96A2',1169764);
INSERT INTO "_sqlx_migrations" VALUES(250,'rows found by index','2026-11-30 12:21:52',1,X'FED1A28A4524C850BF23C063AA4B5B3372ABCD15797699EA1B5D69E18FD445CB97300DDA8887801830CF2C8D37B4FD78',1382890);
INSERT INTO "_sqlx_migrations" VALUES(255,'form outcomes','2026-11-30 12:21:52',1,X'2AC6090F25F5B62A5265736C4473FE0134CCBF26DDBF4F6C4673FFA54C241CC414F25CF451299132C3DF0287609C2873',6063251);
INSERT INTO "_sqlx_migrations" VALUES(256,'client secrets','2026-11-30 12:21:52',1,X'3A4B38424C0479242346FF14BBE9B3DE10B2E63BFE8BC466F32BA5493C4BACB77F3AFB4945A459E4C4599D4BC6CE0D9F',1127970);
INSERT INTO "_sqlx_migrations" VALUES(270,'invitations','2026-11-30 12:21:52',1,X'54A923FB2D89366673447127DC701D5B1204E2BD17CD476C3D9BA6E3F92A861FD0476331CAA634655F2FF724473D3DDE',3855079);
INSERT INTO "_sqlx_migrations" VALUES(275,'certificates','2026-11-30 12:21:52',1,X'C1EC18CA28C9D4697810C2282006D3A48375BE397A2913AA2A7F3EF3553706EE9DAB2298B858DA5A3D947D1A97977743',742245);
INSERT INTO "_sqlx_migrations" VALUES(280,'server lists','2026-11-30 12:21:52',1,X'37B5577ACCDD9190BFB2C5295D96276F0EC881FB14CB7C47CD52E26C7684BF4C1FE5A1F497C40A91945CC078A4FFAEA1',634653);
CREATE TABLE acme_accounts (
    directory TEXT PRIMARY KEY NOT NULL,
    sealed BLOB NOT NULL
) STRICT;
CREATE TABLE acme_challenges (
    token TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    key_authorization TEXT NOT NULL,
    expires INTEGER NOT NULL
) STRICT;
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
    revoked INTEGER
, successor TEXT REFERENCES api_keys (id), retires INTEGER, kind TEXT NOT NULL DEFAULT 'secret', issuer TEXT, subject TEXT, networks TEXT, given_by TEXT, changed INTEGER, changed_by TEXT, confirmed INTEGER) STRICT;
INSERT INTO "api_keys" VALUES('7qIwKJO2nT','ada','laptop',X'2D646772E758BE92023789EBFED4C3CA58DD112D278D0BDB88CD6AA63C41DCD6','{"servers":"all","admin":false}',0,1796041312935,NULL,1796041313025,NULL,NULL,NULL,'secret',NULL,NULL,NULL,'the operator root',NULL,NULL,NULL);
INSERT INTO "api_keys" VALUES('Uy9jmZBj6F','bob','phone',X'5F4D8EE5BDD97A3456A564874F642CE38A543EDF9A1E796A77492C8E21A4E77C','{"servers":{"only":{"demo":"read-only"}},"admin":false}',0,1796041312987,NULL,NULL,NULL,NULL,NULL,'secret',NULL,NULL,NULL,'the operator root',NULL,NULL,NULL);
INSERT INTO "api_keys" VALUES('p58iMN22pG','bob','old',X'3D33FCA9FF447AC348427D44FB5078C6319144BBB9570791802DD2F99DDD55CC','{"servers":"all","admin":false}',0,1796041313007,NULL,NULL,NULL,NULL,NULL,'secret',NULL,NULL,NULL,'the operator root',NULL,NULL,NULL);
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
    -- The number of events for which the row stands.
    count INTEGER NOT NULL
) STRICT;
INSERT INTO "audit_events" VALUES(1,1796041312902,'invitation_created','owner',NULL,NULL,'{"by":"operator","invitation":"LOhXXiFw4k","user":"owner"}',1);
INSERT INTO "audit_events" VALUES(2,1796041312943,'key_created','ada',NULL,NULL,'{"by":"operator root","key":"7qIwKJO2nT","kind":"key","name":"laptop","rights":"all servers","user":"ada"}',1);
INSERT INTO "audit_events" VALUES(3,1796041312989,'key_created','bob',NULL,NULL,'{"by":"operator root","key":"Uy9jmZBj6F","kind":"key","name":"phone","rights":"demo:read","user":"bob"}',1);
INSERT INTO "audit_events" VALUES(4,1796041313009,'key_created','bob',NULL,NULL,'{"by":"operator root","key":"p58iMN22pG","kind":"key","name":"old","rights":"all servers","user":"bob"}',1);
INSERT INTO "audit_events" VALUES(5,1796041313049,'invitation_created','eve',NULL,NULL,'{"by":"operator root","invitation":"bJL8uHIvw0","user":"eve"}',1);
INSERT INTO "audit_events" VALUES(6,1796041313014,'client_registered',NULL,'Zr9XR1spsN1iAAU3NHYA1c','a52ee3f8db361d27','{"client":"Zr9XR1spsN1iAAU3NHYA1c","ip":"127.0.0.1","name":"A test"}',1);
INSERT INTO "audit_events" VALUES(7,1796041313020,'login','ada',NULL,'e19dd76bd9cb1551','{"key":"7qIwKJO2nT","user":"ada"}',1);
INSERT INTO "audit_events" VALUES(8,1796041313027,'consent','ada','Zr9XR1spsN1iAAU3NHYA1c','1e0ccaded8600d7b','{"approved_by":"person","client":"Zr9XR1spsN1iAAU3NHYA1c","endpoint":"/mcp","grant":"DWcfQF4PKmiQgRofyl1Y9b","scopes":"mcp:use","user":"ada"}',1);
INSERT INTO "audit_events" VALUES(9,1796041313029,'code_redeemed','ada','Zr9XR1spsN1iAAU3NHYA1c','bc44449857aa8990','{"client":"Zr9XR1spsN1iAAU3NHYA1c","grant":"DWcfQF4PKmiQgRofyl1Y9b","user":"ada"}',1);
CREATE TABLE backend_eras (
    server BLOB PRIMARY KEY NOT NULL,
    era TEXT NOT NULL,
    found INTEGER NOT NULL
) STRICT;
CREATE TABLE backend_introductions (
    backend TEXT PRIMARY KEY NOT NULL,
    server BLOB NOT NULL,
    revision TEXT NOT NULL,
    result BLOB NOT NULL
) STRICT;
CREATE TABLE bound_logins (
    key_id TEXT PRIMARY KEY NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
    issuer TEXT NOT NULL,
    refresh_token BLOB NOT NULL,
    due INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE "browser_sessions" (
    id_digest BLOB PRIMARY KEY NOT NULL,
    key_id TEXT NOT NULL,
    data TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "browser_sessions" VALUES(X'F52D52E51CF6FD1A3065DE5C1F25D5A7FD476EE5140DB8FAF6FE56DB63FE5324','7qIwKJO2nT','{"visit":{"at":1796041313020,"key":"7qIwKJO2nT","seed":"JhzCmIbHr-Di7dL6QbMV_KSH6P8R8pIm2I3VuRoIBMM"}}',1796041313020,1796041313020);
CREATE TABLE certificates (
    place TEXT PRIMARY KEY NOT NULL,
    -- PEM, with those up to the authority; the key is PEM under the gateway's data key.
    chain TEXT,
    sealed BLOB,
    -- The time of the next order, in milliseconds since the epoch.
    due INTEGER NOT NULL,
    -- The order under way, and the key that it asks a certificate for, sealed in the same way.
    order_url TEXT,
    order_key BLOB,
    -- The process that works on it, until then.
    holder TEXT,
    held_until INTEGER,
    -- Orders that failed since the last certificate, and the last of them.
    failures INTEGER NOT NULL DEFAULT 0,
    failed INTEGER,
    failure TEXT
) STRICT;
CREATE TABLE clients (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,
    auth TEXT NOT NULL CHECK (auth IN ('none', 'client_secret_basic', 'client_secret_post')),
    secret BLOB,
    grant_types TEXT NOT NULL,
    scope TEXT,
    metadata TEXT NOT NULL,
    -- digest of the normalised metadata of a public client: the same registration gets the same id
    fingerprint BLOB UNIQUE,
    created INTEGER NOT NULL,
    -- when somebody first consented to it
    consented INTEGER,
    revoked INTEGER
, network BLOB, bytes INTEGER NOT NULL DEFAULT 0, registration BLOB, registered INTEGER NOT NULL DEFAULT 0, document BLOB, document_read INTEGER, expired INTEGER, jwks TEXT, origin TEXT NOT NULL DEFAULT 'registered', consent_skipped INTEGER NOT NULL DEFAULT 0 CHECK (consent_skipped IN (0, 1)), jwks_uri TEXT, any_secret INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "clients" VALUES('Zr9XR1spsN1iAAU3NHYA1c','A test','["http://127.0.0.1:7777/callback"]','none',NULL,'["authorization_code","refresh_token"]',NULL,'{"client_name":"A test","grant_types":["authorization_code","refresh_token"],"redirect_uris":["http://127.0.0.1:7777/callback"],"response_types":["code"],"token_endpoint_auth_method":"none"}',X'5E9D2C0FDC8F4B694D55A1D1AAF246A15B0C31431EFD95898E1E6206039410CC',1796041313013,1796041313025,NULL,NULL,782,X'5E9D2C0FDC8F4B694D55A1D1AAF246A15B0C31431EFD95898E1E6206039410CC',1796041313025,NULL,NULL,NULL,NULL,'registered',0,NULL,0);
CREATE TABLE codes (
    digest BLOB PRIMARY KEY NOT NULL,
    grant_id TEXT NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    challenge TEXT NOT NULL,
    expires INTEGER NOT NULL,
    used INTEGER
, repeated INTEGER) STRICT;
INSERT INTO "codes" VALUES(X'C461901B8F5B6B05D6E00D74048FF8BF5D2EBF609ED636833152EBB9AC303794','DWcfQF4PKmiQgRofyl1Y9b','5I9aXtGXfZr1mdx_cRJxMqzkwn6RUQ6-7_GQLIK8TaI',1796041373025,1796041313028,NULL);
CREATE TABLE data_keys (
    -- a user; empty: the gateway itself
    owner TEXT PRIMARY KEY NOT NULL,
    sealed BLOB NOT NULL,
    -- number of the master key: it grows with each rotation
    version INTEGER NOT NULL,
    created INTEGER NOT NULL
) STRICT;
CREATE TABLE "device_authorizations" (
    device BLOB PRIMARY KEY NOT NULL,
    user_code BLOB NOT NULL UNIQUE,
    client TEXT NOT NULL,
    endpoint TEXT,
    scopes TEXT NOT NULL,
    expires INTEGER NOT NULL,
    denied INTEGER,
    grant_id TEXT REFERENCES grants (id) ON DELETE CASCADE,
    redeemed INTEGER,
    document TEXT
, decided INTEGER, form BLOB) STRICT;
CREATE TABLE ended_user_secrets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL
) STRICT;
CREATE TABLE gateway (
    name TEXT PRIMARY KEY NOT NULL,
    value BLOB NOT NULL
) STRICT;
INSERT INTO "gateway" VALUES('request state',X'C600F433719BD9BD217AB6B8186C890ABC0BF906BB73700955057642E41BC39E481EA90BE6E406D2CCADD17CD627F2F368B6D9C68996CC4FF679147A57C74A0C4C74BEFBEB606797');
INSERT INTO "gateway" VALUES('pepper',X'7DA3D067CF69FBC3C618E6D9E2C3569B632E1D4DC8DE0C8DCB6C7C29D48E46F52E314D9FB39BE035525F417E0EAEA00A2B2D30D9DA7DB1CDD18981AFE00DAAF786C7F2BEA40C95D8');
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
INSERT INTO "grants" VALUES('DWcfQF4PKmiQgRofyl1Y9b','ada','7qIwKJO2nT','Zr9XR1spsN1iAAU3NHYA1c','/mcp','mcp:use','http://127.0.0.1:7777/callback',1796041313025,1811593313025,1796041313028,NULL);
CREATE TABLE initial_access_tokens (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    -- how many clients may register with it, and how many have
    uses INTEGER NOT NULL CHECK (uses > 0),
    used INTEGER NOT NULL DEFAULT 0 CHECK (used BETWEEN 0 AND uses),
    revoked INTEGER
) STRICT;
CREATE TABLE invitations (
    id TEXT PRIMARY KEY NOT NULL,
    -- SHA-256 of the secret of a link; a rule has none
    digest BLOB UNIQUE,
    -- user whose key a link makes, and 1 if that is a user who exists
    user_id TEXT,
    further INTEGER NOT NULL DEFAULT 0 CHECK (further IN (0, 1)),
    -- issuer and address of a rule, and the subject there that it let in first
    issuer TEXT,
    email TEXT,
    subject TEXT,
    rights TEXT NOT NULL,
    -- life of the key, in milliseconds
    key_life INTEGER,
    -- user who invites; empty: the operator
    inviter TEXT NOT NULL DEFAULT '',
    -- who made it
    created_by TEXT NOT NULL,
    created INTEGER NOT NULL,
    -- end of a link, or of a rule that was revoked
    expires INTEGER,
    accepted INTEGER,
    -- key that a link made
    key_id TEXT,
    -- that key, sealed under the token of the form that took the link, for ten minutes
    outcome BLOB,
    revoked INTEGER,
    CHECK ((digest IS NULL) = (email IS NOT NULL))
) STRICT;
INSERT INTO "invitations" VALUES('LOhXXiFw4k',X'A12E6A09F8BC7B2D56B6C408B56E5DC02BEFB0DC0AD0B926A47D5AA763CA7255','owner',0,NULL,NULL,NULL,'{"servers":"all","admin":true}',NULL,'','operator',1796041312901,1796300512901,NULL,NULL,NULL,NULL);
INSERT INTO "invitations" VALUES('bJL8uHIvw0',X'5199F5D298915573CA5213BC6C2FD39428C465E5402E9559E6FD00FF36E8CECB','eve',0,NULL,NULL,NULL,'{"servers":"all","admin":false}',NULL,'','operator root',1796041313047,1796300513047,NULL,NULL,NULL,NULL);
CREATE TABLE limit_counts (
    name TEXT NOT NULL,
    key BLOB NOT NULL,
    full_at INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    PRIMARY KEY (name, key)
) STRICT, WITHOUT ROWID;
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
    last_seen INTEGER NOT NULL
, subscriptions TEXT NOT NULL DEFAULT '[]', owner INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "mcp_sessions" VALUES(X'93E02ED76A3AE06BB92FC9F31D0D6C88C4142D0655FDF86A423DEEB898807623','ada','Zr9XR1spsN1iAAU3NHYA1c','7qIwKJO2nT','/mcp','2025-06-18',X'7B226E616D65223A2022412074657374222C202276657273696F6E223A202231227D',X'7B7D',NULL,1,1796041313031,1796041313032,'[]',0);
CREATE TABLE provider_logouts (
    report BLOB PRIMARY KEY NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE provider_sessions (
    session BLOB PRIMARY KEY NOT NULL,
    key_id TEXT NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
    -- Milliseconds since 1970.
    created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE refresh_tokens (
    digest BLOB PRIMARY KEY NOT NULL,
    -- begins the `jti` of every access token that was issued beside this token
    generation TEXT NOT NULL UNIQUE,
    grant_id TEXT NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    expires INTEGER NOT NULL,
    -- when it, or an access token beside it, was first used
    used INTEGER,
    rotated INTEGER,
    -- the digest of what replaced it, and that token itself under a key derived from this one
    successor BLOB,
    sealed BLOB,
    -- when it was replaced as a successor that nobody had received
    withdrawn INTEGER
) STRICT;
INSERT INTO "refresh_tokens" VALUES(X'ABF21B1E17D164B22F60CDC0BDAF9EB2AA970983A03AD8365BDC443990EC0EBD','Ik0UO2CmtcMbUaRm','DWcfQF4PKmiQgRofyl1Y9b',1798633313028,1796041313453,NULL,NULL,NULL,NULL);
CREATE TABLE replicas (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    address TEXT NOT NULL,
    public_key BLOB NOT NULL,
    lease_until INTEGER NOT NULL
, is_home INTEGER NOT NULL DEFAULT 0, clock_ahead INTEGER) STRICT;
CREATE TABLE "revocations" (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
CREATE TABLE revoked_tokens (
    jti TEXT PRIMARY KEY NOT NULL,
    expires INTEGER NOT NULL
) STRICT;
CREATE TABLE server_lists (
    server TEXT NOT NULL,
    user_id TEXT NOT NULL,
    -- SHA-256 of the client capabilities that the server was told.
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
CREATE TABLE "signing_keys" (
    kid TEXT PRIMARY KEY NOT NULL,
    -- base64url coordinates of the public point on P-256
    x TEXT NOT NULL,
    y TEXT NOT NULL,
    -- PKCS#8 under the master key
    sealed BLOB NOT NULL,
    created INTEGER NOT NULL,
    signs_from INTEGER NOT NULL,
    -- neither signs nor verifies from then on
    withdrawn INTEGER
) STRICT;
INSERT INTO "signing_keys" VALUES('eQ-Q3F1j7IPWVJfE6D1qtdGkzHUeTO905_RC-iAK7BY','H0dOTrZHMj82CB_rQb76dGH0_A0HoZ5ZpNRxUuTsrBY','AiVlBoInyU4YAh5-W0ya5jUFuWXUgaaaUtFFY8cxWuQ',X'A3FB435EA0520C63DF0B01FE93B5AD087645198F4F526CB9B565B69532119A96016C066A75E415FF1E10B91E2EA1954F8574931F678CF44F1E2EC45AAE8B7870CE10A94EDE6B25AE3E6957C8A4E1001C1BFE8196B96C201473FD92E9EC8E71EFB4357A46D80E7BCC2E22276B57F45C023800852390E918D64E9EE9130A3D6D0C2EDE172BC1B6321316850442E5CD9B6AC5729F0195F401A3B3811C552D0FF419580038152C9F7EEA126373FDCF8B2D278F3D',1796041312868,1796041312868,NULL);
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
CREATE TABLE transactions (
    id BLOB PRIMARY KEY NOT NULL,
    browser BLOB NOT NULL,
    user_id TEXT NOT NULL,
    request TEXT NOT NULL,
    expires INTEGER NOT NULL,
    -- When the person decided. The row stays until it expires, so that the same request cannot be added again.
    decided INTEGER
, decision TEXT, outcome BLOB) STRICT;
INSERT INTO "transactions" VALUES(X'035BBDA7E0028AB9169A2B6D32A05CFA49FE46388304217C324A9FAA3D5B6D19',X'A197C8C6DB70F113ECFA1FA717CCC0A700F7B705DE2F7E371A0440B4F117A0D3','ada','{"client":"Zr9XR1spsN1iAAU3NHYA1c","document":null,"redirect_uri":"http://127.0.0.1:7777/callback","state":"s","challenge":"5I9aXtGXfZr1mdx_cRJxMqzkwn6RUQ6-7_GQLIK8TaI","named":"/mcp","asked":"","login":"if-needed","chooses":false,"consent":"if-needed"}',1796041913017,1796041313025,'approved',X'8025E2B2DB5F2D84A9F9FF82B8728DB78817DF01607EC612404BAF92120505A27682D28440B977EEA3774B3BB6A2FA558D1DAB7E9073B08486D257AE05680B862CBC9755A20951D8DF96E52545E204446244C954DBF1C89332F5E2E69C83E3604E4F5DE631C3B3D1CF7D0220875A646C1817CDA780F0DC737157312C216652FC1560BABB40AC6890451A74DA0CED900B672E02E0AD6C6E9D8AE8CA518E7493EAAE09D000AA2607A4C18F556007F963403A377D91DE98ED2E507648A149103C7C26C69E2D9E63AC397594F50845B85CE7B1AFDB0EE940DE6D2F26A4649E2A715D0FE60338419346CFA637B92C5B21B4EB79FB6173A7CD609412C6B0AB5D7C9784942AE18DAC9B14A349F964BD786B9C641B1C1CF84970A5156F0E');
CREATE TABLE unused_clients (
    network BLOB PRIMARY KEY NOT NULL,
    clients INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
CREATE TABLE unused_clients_total (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
    clients INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
INSERT INTO "unused_clients_total" VALUES(1,0,0);
CREATE TABLE upstream_clients (
    backend TEXT NOT NULL,
    issuer TEXT NOT NULL,
    sealed BLOB NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (backend, issuer)
) STRICT;
CREATE TABLE upstream_requests (
    -- digest of `state`
    state BLOB PRIMARY KEY NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    backend TEXT NOT NULL,
    -- digest of the browser session that may end it
    browser BLOB NOT NULL,
    issuer TEXT NOT NULL,
    sealed BLOB NOT NULL,
    expires INTEGER NOT NULL
, form BLOB, location BLOB, taken INTEGER, outcome TEXT) STRICT;
CREATE TABLE upstream_tokens (
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    backend TEXT NOT NULL,
    -- digest of the server's address: tokens are for this server alone
    server BLOB NOT NULL,
    issuer TEXT NOT NULL,
    resource TEXT,
    scope TEXT,
    -- tokens, the client that got them, and the endpoints of the authorization server
    sealed BLOB NOT NULL,
    connected INTEGER NOT NULL,
    -- grows with each refresh
    version INTEGER NOT NULL,
    PRIMARY KEY (user_id, backend)
) STRICT;
CREATE TABLE upstream_withdrawn (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id TEXT NOT NULL,
    backend TEXT NOT NULL,
    issuer TEXT NOT NULL,
    sealed BLOB NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE used_assertions (
    digest BLOB PRIMARY KEY NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE user_secrets (
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    sealed BLOB NOT NULL,
    changed INTEGER NOT NULL,
    PRIMARY KEY (user_id, name)
) STRICT;
CREATE TABLE users (
    id TEXT PRIMARY KEY NOT NULL,
    created INTEGER NOT NULL
, disabled INTEGER, deleted INTEGER) STRICT;
INSERT INTO "users" VALUES('ada',1796041312935,NULL,NULL);
INSERT INTO "users" VALUES('bob',1796041312987,NULL,NULL);
CREATE INDEX grants_user ON grants (user_id);
CREATE INDEX grants_api_key ON grants (api_key);
CREATE INDEX grants_client ON grants (client);
CREATE INDEX refresh_tokens_grant ON refresh_tokens (grant_id);
CREATE INDEX mcp_sessions_last_seen ON mcp_sessions (last_seen);
CREATE INDEX transactions_expires ON transactions (expires);
CREATE INDEX transactions_browser ON transactions (browser, expires);
CREATE INDEX transactions_user ON transactions (user_id, expires);
CREATE INDEX browser_sessions_used_at ON browser_sessions (used_at);
CREATE INDEX browser_sessions_key ON browser_sessions (key_id, used_at);
CREATE INDEX clients_revoked ON clients (registration) WHERE revoked IS NOT NULL;
CREATE INDEX clients_unused ON clients (network, registered) WHERE consented IS NULL AND revoked IS NULL;
CREATE INDEX clients_unused_registered ON clients (registered) WHERE consented IS NULL AND revoked IS NULL;
CREATE INDEX unused_clients_most ON unused_clients (clients DESC, network);
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
CREATE INDEX api_keys_retires ON api_keys (retires) WHERE retires IS NOT NULL AND revoked IS NULL;
CREATE INDEX api_keys_successor ON api_keys (successor) WHERE successor IS NOT NULL;
CREATE INDEX clients_expired ON clients (expired) WHERE expired IS NOT NULL;
CREATE UNIQUE INDEX api_keys_account ON api_keys (kind, issuer, subject)
    WHERE subject IS NOT NULL AND revoked IS NULL;
CREATE INDEX api_keys_accounts ON api_keys (kind, issuer, subject, created) WHERE subject IS NOT NULL;
CREATE INDEX used_assertions_expires ON used_assertions (expires);
CREATE TRIGGER upstream_tokens_deleted AFTER DELETE ON upstream_tokens BEGIN
    INSERT INTO upstream_withdrawn (user_id, backend, issuer, sealed)
    VALUES (OLD.user_id, OLD.backend, OLD.issuer, OLD.sealed);
END;
CREATE INDEX upstream_requests_expires ON upstream_requests (expires);
CREATE INDEX upstream_requests_user ON upstream_requests (user_id);
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
CREATE INDEX provider_sessions_key ON provider_sessions (key_id, created);
CREATE INDEX provider_logouts_expires ON provider_logouts (expires);
CREATE INDEX bound_logins_due ON bound_logins (due);
CREATE INDEX codes_grant ON codes (grant_id);
CREATE INDEX initial_access_tokens_expires ON initial_access_tokens (expires);
CREATE TRIGGER user_secrets_deleted AFTER DELETE ON user_secrets BEGIN
    INSERT INTO ended_user_secrets (user_id, name) VALUES (OLD.user_id, OLD.name);
END;
CREATE INDEX device_authorizations_expires ON device_authorizations (expires);
CREATE INDEX device_authorizations_client ON device_authorizations (client, expires);
CREATE INDEX device_authorizations_grant ON device_authorizations (grant_id) WHERE grant_id IS NOT NULL;
CREATE INDEX limit_counts_by_changed ON limit_counts (changed);
CREATE UNIQUE INDEX replicas_one_home ON replicas (is_home) WHERE is_home = 1;
CREATE INDEX task_owners_owner ON task_owners (owner, server, expires);
CREATE INDEX task_owners_expires ON task_owners (expires);
CREATE INDEX task_owners_user ON task_owners (user_id);
CREATE INDEX task_owners_client ON task_owners (client) WHERE client IS NOT NULL;
CREATE INDEX task_owners_key ON task_owners (api_key) WHERE api_key IS NOT NULL;
CREATE INDEX mcp_sessions_user ON mcp_sessions (user_id, endpoint, last_seen);
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
CREATE UNIQUE INDEX upstream_requests_form ON upstream_requests (form);
CREATE INDEX invitations_user ON invitations (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX invitations_inviter ON invitations (inviter);
CREATE INDEX invitations_address ON invitations (issuer, email) WHERE email IS NOT NULL;
CREATE INDEX invitations_subject ON invitations (issuer, subject) WHERE subject IS NOT NULL;
CREATE INDEX invitations_expires ON invitations (expires) WHERE expires IS NOT NULL;
CREATE INDEX invitations_outcome ON invitations (accepted) WHERE outcome IS NOT NULL;
CREATE INDEX api_keys_confirmed ON api_keys (issuer, confirmed) WHERE confirmed IS NOT NULL;
CREATE INDEX server_lists_of_user ON server_lists (user_id);
CREATE INDEX server_lists_by_age ON server_lists (stored);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('revocations',0);
INSERT INTO "sqlite_sequence" VALUES('audit_events',9);
COMMIT;
