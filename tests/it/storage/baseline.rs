//! Databases from before the baseline, on both engines.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use axum::body::Body;
use http::{Request, StatusCode, header};
use lockkeeper::{
    oauth::{MasterKeySource, OAuth, OAuthSettings},
    storage::{Storage, StorageError},
    support::{ManualClock, OsRandom, Timestamp},
};
use sqlx::{AnyPool, AssertSqlSafe, migrate::Migrator};
use url::form_urlencoded;

use super::filling::{Ages, Filling, empty_database};
use crate::support::oauth::{HOME, send};

/// What SQLite reports of its schema: tables, columns, indexes and foreign keys. It doesn't report triggers and conditions of
/// indexes other than as text, nor the checks of a table, which are counted.
const OF_SQLITE: &[&str] = &[
    "SELECT name || ' ' || wr || ' ' || strict FROM pragma_table_list WHERE type = 'table' AND schema = 'main'",
    "SELECT tables.name || '.' || columns.cid || ' ' || columns.name || ' ' || columns.type || ' ' || columns.\"notnull\"
        || ' ' || columns.pk || ' ' || columns.hidden || ' ' || coalesce(columns.dflt_value, '')
     FROM sqlite_schema AS tables, pragma_table_xinfo(tables.name) AS columns WHERE tables.type = 'table'",
    "SELECT tables.name || '.' || indexes.name || ' ' || indexes.\"unique\" || ' ' || indexes.origin || ' '
        || indexes.partial || ' ' || (SELECT group_concat(coalesce(name, '') || ' ' || \"desc\" || ' ' || coll || ' ' || key, ', ')
            FROM (SELECT * FROM pragma_index_xinfo(indexes.name) ORDER BY seqno))
     FROM sqlite_schema AS tables, pragma_index_list(tables.name) AS indexes WHERE tables.type = 'table'",
    "SELECT tables.name || '.' || keys.\"from\" || ' ' || keys.\"table\" || ' ' || keys.\"to\" || ' ' || keys.on_update
        || ' ' || keys.on_delete
     FROM sqlite_schema AS tables, pragma_foreign_key_list(tables.name) AS keys WHERE tables.type = 'table'",
    "SELECT type || ' ' || sql FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL",
    "SELECT name || ' ' || (length(sql) - length(replace(sql, 'CHECK (', ''))) FROM sqlite_schema WHERE type = 'table'",
];

/// The same of PostgreSQL, where functions come with the triggers.
const OF_POSTGRESQL: &[&str] = &[
    "SELECT table_name || '.' || row_number() OVER (PARTITION BY table_name ORDER BY ordinal_position) || ' ' || column_name
        || ' ' || data_type || ' ' || is_nullable || ' ' || is_identity || ' ' || coalesce(column_default, '')
     FROM information_schema.columns WHERE table_schema = current_schema",
    "SELECT conrelid::regclass || ' ' || conname || ' ' || condeferrable || ' ' || pg_get_constraintdef(oid)
     FROM pg_constraint WHERE connamespace = current_schema::regnamespace AND conrelid <> 0",
    "SELECT replace(indexdef, schemaname || '.', '') FROM pg_indexes WHERE schemaname = current_schema",
    "SELECT replace(pg_get_triggerdef(triggers.oid), current_schema || '.', '')
     FROM pg_trigger AS triggers JOIN pg_class ON pg_class.oid = tgrelid
     WHERE relnamespace = current_schema::regnamespace AND NOT tgisinternal",
    "SELECT replace(pg_get_functiondef(oid), current_schema || '.', '') FROM pg_proc
     WHERE pronamespace = current_schema::regnamespace",
];

/// Runs the migrations from before the baseline, up to this one.
pub(super) async fn run_before(pool: &AnyPool, up_to: i64) {
    let is_server = pool.connect_options().database_url.scheme() != "sqlite";
    let folder = if is_server { "migrations/before/postgres" } else { "migrations/before" };
    let mut migrator = Migrator::new(Path::new(folder)).await.unwrap();
    let known: Vec<_> = migrator.iter().filter(|migration| migration.version <= up_to).cloned().collect();
    migrator.migrations = known.into();
    migrator.run(pool).await.unwrap();
}

async fn open(folder: &Path, server: Option<&str>) -> Result<Storage, StorageError> {
    match server {
        None => Storage::open(&folder.join("lockkeeper.sqlite3")).await,
        Some(url) => Storage::connect(url).await,
    }
}

/// The schema as the engine reports it, without differences of white space.
async fn schema(pool: &AnyPool, queries: &[&'static str]) -> Vec<String> {
    let mut found = Vec::new();
    for query in queries {
        let rows: Vec<String> = sqlx::query_scalar(*query).fetch_all(pool).await.unwrap();
        let mut rows: Vec<_> = rows.iter().map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        rows.sort();
        found.append(&mut rows);
    }
    found
}

/// Every row of every table but that of the migrations, as text.
async fn content(pool: &AnyPool) -> BTreeMap<String, Vec<String>> {
    let is_server = pool.connect_options().database_url.scheme() != "sqlite";
    let tables = if is_server {
        "SELECT table_name::text FROM information_schema.tables
         WHERE table_schema = current_schema AND table_name <> '_sqlx_migrations'"
    } else {
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('_sqlx_migrations', 'sqlite_sequence')"
    };
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(pool).await.unwrap();
    let mut content = BTreeMap::new();
    for table in tables {
        let row = if is_server {
            format!("{table}::text")
        } else {
            let columns = "SELECT group_concat('quote(' || name || ')', ' || '' '' || ') FROM pragma_table_info($1)";
            sqlx::query_scalar(columns).bind(&table).fetch_one(pool).await.unwrap()
        };
        let rows = AssertSqlSafe(format!("SELECT {row} FROM {table}"));
        let mut rows: Vec<String> = sqlx::query_scalar(rows).fetch_all(pool).await.unwrap();
        rows.sort();
        content.insert(table, rows);
    }
    content
}

async fn versions(pool: &AnyPool) -> Vec<i64> {
    sqlx::query_scalar("SELECT version FROM _sqlx_migrations ORDER BY version").fetch_all(pool).await.unwrap()
}

/// A database with rows in every table, opened by two processes at once, has the rows and the schema of a new one.
async fn nothing_is_lost(server: Option<&str>) {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (url, pool) = empty_database(folder.path(), server).await;
    run_before(&pool, i64::MAX).await;
    Filling { rows: 1..=30, now: 1_800_000_000_000, ages: Ages::Mostly }.add(&pool).await;
    let before = content(&pool).await;
    assert!(before.len() > 30 && before.values().filter(|rows| rows.len() >= 30).count() > 20, "{before:?}");

    let place = server.map(|_| url.as_str());
    let (one, two) = tokio::join!(open(folder.path(), place), open(folder.path(), place));
    one.unwrap().close().await;
    two.unwrap().close().await;
    assert_eq!(content(&pool).await, before);
    assert_eq!(versions(&pool).await, [300]);

    let (url, new) = empty_database(other.path(), server).await;
    open(other.path(), server.map(|_| url.as_str())).await.unwrap().close().await;
    let queries = if server.is_some() { OF_POSTGRESQL } else { OF_SQLITE };
    let (here, there) = (schema(&pool, queries).await, schema(&new, queries).await);
    assert!(here.len() > 300, "{}", here.len());
    assert_eq!(here, there);
    assert_eq!(versions(&new).await, [300]);
}

#[tokio::test]
async fn a_file_from_before_the_baseline_loses_nothing() {
    nothing_is_lost(None).await;
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: scripts/test-postgres"]
async fn a_server_from_before_the_baseline_loses_nothing() {
    let server = crate::support::postgres().unwrap();
    nothing_is_lost(Some(&server)).await;
}

#[tokio::test]
async fn a_database_with_a_changed_migration_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (_, pool) = empty_database(folder.path(), None).await;
    run_before(&pool, 220).await;
    let changed = "UPDATE _sqlx_migrations SET checksum = x'00' WHERE version = 120";
    sqlx::query(changed).execute(&pool).await.unwrap();
    let before = versions(&pool).await;
    let refusal = open(folder.path(), None).await.unwrap_err().to_string();
    assert!(refusal.contains("migration 120 was previously applied but has been modified"), "{refusal}");
    assert_eq!(versions(&pool).await, before);
}

/// What the people of an old gateway have: a dump of its database is beside it.
#[derive(serde::Deserialize)]
struct OldGateway {
    /// When it stopped, in seconds since the epoch.
    at: i64,
    issuer: String,
    master_key: String,
    ada: String,
    bob: String,
    client: String,
    refresh_token: String,
}

/// Keys of people and tokens of apps of an old gateway go on working, and every row is there.
async fn people_go_on(server: Option<&str>) {
    let name = if server.is_some() { "postgres" } else { "sqlite" };
    let of_old = |kind: &str| fs::read_to_string(format!("tests/it/storage/before/{name}.{kind}")).unwrap();
    let old: OldGateway = serde_json::from_str(&of_old("json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (url, pool) = empty_database(folder.path(), server).await;
    if server.is_none() {
        sqlx::raw_sql("PRAGMA foreign_keys = OFF").execute(&pool).await.unwrap();
    }
    sqlx::raw_sql(AssertSqlSafe(of_old("sql"))).execute(&pool).await.unwrap();
    let before = content(&pool).await;
    let storage = open(folder.path(), server.map(|_| url.as_str())).await.unwrap();
    assert_eq!(content(&pool).await, before);
    assert_eq!(versions(&pool).await, [300]);

    let key_file = folder.path().join("master.key");
    fs::write(&key_file, &old.master_key).unwrap();
    fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).unwrap();
    let settings = OAuthSettings { master_key: MasterKeySource::File(key_file), ..OAuthSettings::new(&old.issuer) };
    let clock = Arc::new(ManualClock::new(Timestamp::from_seconds(old.at)));
    let oauth = OAuth::open(storage, clock, Arc::new(OsRandom), settings).await.unwrap();
    for (user, key) in [("ada", &old.ada), ("bob", &old.bob)] {
        let holder = oauth.keys().authenticate(key, HOME).await.unwrap();
        assert_eq!(holder.user.to_string(), user);
    }
    let form = [("grant_type", "refresh_token"), ("client_id", &old.client), ("refresh_token", &old.refresh_token)];
    let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let request = Request::post("/oauth/token").header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    let answer = send(&oauth.router(), request.body(Body::from(form)).unwrap()).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
}

#[tokio::test]
async fn people_go_on_with_a_file_of_an_old_gateway() {
    people_go_on(None).await;
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: scripts/test-postgres"]
async fn people_go_on_with_a_server_of_an_old_gateway() {
    let server = crate::support::postgres().unwrap();
    people_go_on(Some(&server)).await;
}
