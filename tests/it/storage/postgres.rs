//! PostgreSQL beside SQLite: the same schema, copies, one gateway, lost connections. `scripts/test-postgres` runs these tests,
//! and those of everything that is stored.

use std::collections::BTreeMap;

use lockkeeper::{
    oauth::MasterKeySource,
    storage::{ClaimKind, Storage},
};
use sqlx::{AnyPool, AssertSqlSafe, Row as _};

use crate::support::oauth::Authority;

/// A query for the columns and one for the indexes, each as one text, in SQLite and PostgreSQL.
const SQLITE_COLUMNS: &str = "
    SELECT tables.name || '.' || columns.name || ' ' || lower(columns.type) || CASE
        WHEN columns.\"notnull\" OR columns.pk > 0 THEN ' not null' ELSE '' END || coalesce(' ' || columns.dflt_value, '')
    FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
    WHERE tables.type = 'table' AND tables.name NOT LIKE '\\_%' ESCAPE '\\' AND tables.name NOT LIKE 'sqlite%'";
const POSTGRES_COLUMNS: &str = "
    SELECT table_name || '.' || column_name || ' '
        || CASE data_type WHEN 'bytea' THEN 'blob' WHEN 'bigint' THEN 'integer' ELSE data_type END
        || CASE is_nullable WHEN 'NO' THEN ' not null' ELSE '' END
        || coalesce(' ' || replace(column_default, '::text', ''), '')
    FROM information_schema.columns
    WHERE table_schema = current_schema AND table_name NOT LIKE '\\_%' AND column_name <> 'rowid'";
const SQLITE_INDEXES: &str = "
    SELECT indexes.tbl_name || '.' || indexes.name || ' (' || (
        SELECT group_concat(name, ', ') FROM (SELECT name FROM pragma_index_info(indexes.name) ORDER BY seqno)) || ')'
        || CASE WHEN indexes.sql LIKE 'CREATE UNIQUE%' THEN ' unique' ELSE '' END
        || CASE WHEN indexes.sql LIKE '% WHERE %' THEN ' partial' ELSE '' END
    FROM sqlite_schema AS indexes WHERE indexes.type = 'index' AND indexes.sql IS NOT NULL";
const POSTGRES_INDEXES: &str = "
    SELECT tablename || '.' || indexname || ' (' || replace(split_part(split_part(indexdef, '(', 2), ')', 1), ' DESC', '') || ')'
        || CASE WHEN indexdef LIKE 'CREATE UNIQUE%' THEN ' unique' ELSE '' END
        || CASE WHEN indexdef LIKE '% WHERE %' THEN ' partial' ELSE '' END
    FROM pg_indexes WHERE schemaname = current_schema AND tablename NOT LIKE '\\_%'
        AND indexname NOT IN (SELECT conname FROM pg_constraint)";

/// A schema of this name on the server, as a URL and as connections to it.
pub(crate) async fn schema(name: &str) -> (String, AnyPool) {
    sqlx::any::install_default_drivers();
    let server = crate::support::postgres().unwrap();
    let url = format!("{server}?options[search_path]={name}");
    let pool = AnyPool::connect(&url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(format!("CREATE SCHEMA {name}"))).execute(&pool).await.unwrap();
    (url, pool)
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: scripts/test-postgres"]
async fn both_databases_have_the_same_tables_columns_and_indexes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lockkeeper.sqlite3");
    let (server, postgres) = schema("same_schema").await;
    Storage::open(&path).await.unwrap().close().await;
    Storage::connect(&server).await.unwrap().close().await;
    let sqlite = AnyPool::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    for (in_sqlite, in_postgres) in [(SQLITE_COLUMNS, POSTGRES_COLUMNS), (SQLITE_INDEXES, POSTGRES_INDEXES)] {
        let mut here: Vec<String> = sqlx::query_scalar(in_sqlite).fetch_all(&sqlite).await.unwrap();
        let mut there: Vec<String> = sqlx::query_scalar(in_postgres).fetch_all(&postgres).await.unwrap();
        here.sort();
        there.sort();
        assert!(here.len() > 20);
        assert_eq!(here, there);
    }
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: scripts/test-postgres"]
async fn an_installation_moves_to_the_server_and_back_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (folder.path().join("before.sqlite3"), folder.path().join("after.sqlite3"));
    let file = Storage::open(&before).await.unwrap();
    let mut settings = Authority::settings();
    settings.master_key = MasterKeySource::File(folder.path().join("master.key"));
    let gateway = Authority::on(file.clone(), settings.clone(), 1).await;
    let (client, tokens) = gateway.tokens("/mcp").await;
    gateway.oauth.audit().write().await.unwrap();

    let (url, _) = schema("moved").await;
    let server = Storage::connect(&url).await.unwrap();
    let rows = file.copy_to(&server).await.unwrap().unwrap();
    assert!(rows > 10, "{rows}");
    assert_eq!(file.copy_to(&server).await.unwrap(), None, "into an empty database alone");
    let back = Storage::open(&after).await.unwrap();
    assert_eq!(server.copy_to(&back).await.unwrap(), Some(rows));
    assert_eq!(content(&before).await, content(&after).await);

    let moved = Authority::on(server, settings, 2).await;
    moved.oauth.keys().authenticate(gateway.key.expose(), crate::support::oauth::HOME).await.unwrap();
    let refreshed = moved.refresh(&client, tokens["refresh_token"].as_str().unwrap()).await;
    assert_eq!(refreshed.status, 200, "{refreshed:?}");
}

/// Every row of every table of a file, as text.
async fn content(path: &std::path::Path) -> BTreeMap<String, Vec<String>> {
    let sqlite = AnyPool::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    let named = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\' AND name <> 'sqlite_sequence'";
    let tables: Vec<String> = sqlx::query_scalar(named).fetch_all(&sqlite).await.unwrap();
    let mut content = BTreeMap::new();
    for table in tables {
        let columns = AssertSqlSafe(format!(
            "SELECT group_concat('quote(' || name || ')', ' || '' '' || ') FROM pragma_table_info('{table}')"
        ));
        let columns: String = sqlx::query_scalar(columns).fetch_one(&sqlite).await.unwrap();
        let rows =
            sqlx::query(AssertSqlSafe(format!("SELECT {columns} FROM {table}"))).fetch_all(&sqlite).await.unwrap();
        let mut rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        rows.sort();
        content.insert(table, rows);
    }
    content
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: scripts/test-postgres"]
async fn one_gateway_has_the_database_until_it_ends() {
    let (url, _) = schema("claimed").await;
    let (first, second) = (Storage::connect(&url).await.unwrap(), Storage::connect(&url).await.unwrap());
    let claim = first.claim(ClaimKind::Alone).await.unwrap().unwrap();
    assert!(second.claim(ClaimKind::Alone).await.unwrap().is_none(), "it waits for 5 s");
    second.keys().list().await.unwrap();
    drop(claim);
    assert!(second.claim(ClaimKind::Alone).await.unwrap().is_some());
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: scripts/test-postgres"]
async fn lost_connections_are_made_anew_and_what_was_in_flight_can_be_retried() {
    let (url, postgres) = schema("lost").await;
    let storage = Storage::connect(&format!("{url}&application_name=lost")).await.unwrap();
    storage.keys().list().await.unwrap();
    let end_them = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'lost'";
    let lost: i64 = sqlx::query_scalar(end_them).fetch_one(&postgres).await.unwrap();
    assert!(lost > 0);
    match storage.keys().list().await {
        Ok(keys) => assert!(keys.is_empty()),
        Err(error) => assert!(error.is_busy(), "{error}"),
    }
    storage.keys().list().await.unwrap();
}
