//! Databases with many rows in every table. Row `n` of a table refers to row `n` of the others.

use std::{ops::RangeInclusive, path::Path};

use lockkeeper::storage::Storage;
use sqlx::{AnyPool, AssertSqlSafe, any::AnyPoolOptions};

/// Tables whose rows the configuration or the number of gateways bounds, and those that triggers fill.
const OWN: &[&str] = &[
    "_sqlx_migrations",
    "acme_accounts",
    "acme_challenges",
    "certificates",
    "backend_eras",
    "backend_introductions",
    "gateway",
    "replicas",
    "signing_keys",
    "unused_clients",
    "unused_clients_total",
    "upstream_clients",
];

/// Rows to add to each table.
pub(crate) struct Filling {
    /// Their numbers.
    pub(crate) rows: RangeInclusive<i64>,
    /// The present time, in milliseconds.
    pub(crate) now: i64,
    pub(crate) ages: Ages,
}

/// The times in the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ages {
    /// One in a hundred has ended a while ago.
    Mostly,
    /// All have ended long ago.
    Ended,
}

/// A database without tables, of the test's own: a file in this folder, or a schema on this server.
pub(crate) async fn empty_database(folder: &Path, server: Option<&str>) -> (String, AnyPool) {
    sqlx::any::install_default_drivers();
    let url = match server {
        None => format!("sqlite://{}?mode=rwc", folder.join("lockkeeper.sqlite3").display()),
        Some(server) => {
            let schema = format!("filled_{}_{}", std::process::id(), folder.file_name().unwrap().display());
            let schema = schema.replace(|sign: char| !sign.is_ascii_alphanumeric(), "_").to_lowercase();
            let pool = AnyPoolOptions::new().max_connections(1).connect(server).await.unwrap();
            sqlx::raw_sql(AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).execute(&pool).await.unwrap();
            format!("{server}?options[search_path]={schema}")
        }
    };
    let pool = AnyPoolOptions::new().max_connections(1).idle_timeout(None).connect(&url).await.unwrap();
    (url, pool)
}

/// A database without rows, of the test's own.
pub(crate) async fn new_database(folder: &Path, server: Option<&str>) -> (String, AnyPool) {
    let (url, pool) = empty_database(folder, server).await;
    let storage = match server {
        None => Storage::open(&folder.join("lockkeeper.sqlite3")).await.unwrap(),
        Some(_) => Storage::connect(&url).await.unwrap(),
    };
    storage.close().await;
    (url, pool)
}

impl Filling {
    /// Adds the rows to every table.
    pub(crate) async fn add(&self, pool: &AnyPool) {
        let is_server = pool.connect_options().database_url.scheme() != "sqlite";
        let begin = if is_server {
            "SET statement_timeout = 0; SET session_replication_role = replica; BEGIN"
        } else {
            "PRAGMA foreign_keys = OFF; BEGIN"
        };
        sqlx::raw_sql(begin).execute(pool).await.unwrap();
        let tables = if is_server {
            "SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema()"
        } else {
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        };
        let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(pool).await.unwrap();
        for table in tables.iter().filter(|table| !OWN.contains(&table.as_str())) {
            let columns = columns(pool, is_server, table).await;
            let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
            let values: Vec<String> =
                columns.iter().map(|(name, kind)| self.value(table, name, *kind, is_server)).collect();
            let (first, last) = (self.rows.start(), self.rows.end());
            let numbers = if is_server {
                format!("generate_series({first}, {last}) AS n")
            } else {
                format!(
                    "(WITH RECURSIVE g (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM g WHERE n < {last}) SELECT n FROM g)"
                )
            };
            let text =
                format!("INSERT INTO {table} ({}) SELECT {} FROM {numbers}", names.join(", "), values.join(", "));
            sqlx::raw_sql(AssertSqlSafe(text)).execute(pool).await.unwrap_or_else(|error| panic!("{table}: {error}"));
        }
        let end = if is_server { "COMMIT; SET session_replication_role = DEFAULT" } else { "COMMIT" };
        sqlx::raw_sql(end).execute(pool).await.unwrap();
        // a server plans by what it has counted
        for table in tables.iter().filter(|_| is_server) {
            sqlx::raw_sql(AssertSqlSafe(format!("ANALYZE {table}"))).execute(pool).await.unwrap();
        }
    }

    /// The value of a column in row `n`.
    fn value(&self, table: &str, column: &str, kind: Kind, is_server: bool) -> String {
        let now = self.now;
        let time = match self.ages {
            Ages::Mostly => format!("{now} + (n - 1000) * 1000"),
            Ages::Ended => format!("{now} - 50000000000 + n"),
        };
        let past = format!("{now} - n * 1000");
        let rare = |value: &str| match self.ages {
            Ages::Mostly => format!("CASE WHEN n % 100 = 0 THEN {value} END"),
            Ages::Ended => "NULL".to_owned(),
        };
        match (table, column, kind) {
            ("clients", "auth", _) => "'none'".to_owned(),
            ("clients", "origin", _) => "'registered'".to_owned(),
            ("clients", "redirect_uris" | "grant_types", _) | (_, "subscriptions", _) => "'[]'".to_owned(),
            // a gateway takes no further ones beyond fifty thousand that nobody uses
            ("clients", "consented", _) => format!("CASE WHEN n % 4 > 0 THEN {time} END"),
            ("clients", "bytes", _) | (_, "uses" | "count" | "version", _) => "1".to_owned(),
            ("clients", "network", _) => bytes("n % 100", is_server),
            ("api_keys", "kind", _) => "'secret'".to_owned(),
            ("api_keys" | "invitations", "rights", _) => "'{\"backends\":\"all\",\"admin\":false}'".to_owned(),
            ("clients", "document" | "jwks" | "jwks_uri" | "secret", _)
            | ("api_keys", "issuer" | "subject" | "networks" | "successor", _)
            | ("invitations", "issuer" | "email" | "subject", _) => "NULL".to_owned(),
            (_, "revoked" | "deleted" | "disabled" | "withdrawn" | "expired" | "denied" | "retires", _)
            | ("codes" | "device_authorizations", "used" | "redeemed", _) => rare(&past),
            ("device_authorizations", "grant_id", _) => rare("CAST(n AS TEXT)"),
            ("initial_access_tokens", "used", _)
            | ("invitations", "further", _)
            | (_, "direct" | "consent_skipped" | "ended" | "owner" | "attempts", Kind::Number) => "0".to_owned(),
            (_, "initialized", _) => "CASE WHEN n % 100 = 0 THEN 0 ELSE 1 END".to_owned(),
            (_, "endpoint", _) => "'/mcp'".to_owned(),
            ("limit_counts", "changed", _) => past,
            ("limit_counts", _, Kind::Text) => "CAST(n AS TEXT)".to_owned(),
            (_, "scopes", _) => "'mcp:use'".to_owned(),
            (_, "backend" | "name", _) => "'files'".to_owned(),
            (_, "fields" | "data", _) => "'{}'".to_owned(),
            (_, _, Kind::Number) => time,
            (_, _, Kind::Bytes) => bytes("n", is_server),
            (_, _, Kind::Text) => "CAST(n AS TEXT)".to_owned(),
        }
    }
}

/// A digest that is different for each number.
fn bytes(number: &str, is_server: bool) -> String {
    if is_server {
        format!("decode(md5(({number})::text) || md5(({number})::text || 'x'), 'hex')")
    } else {
        // scattered, as digests are
        format!("CAST(substr(printf('%020d%012d', abs(({number}) * 2654435761 % 4294967296), {number}), -32) AS BLOB)")
    }
}

/// Kind of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Bytes,
}

/// The columns of a table, without those that the database numbers by itself.
async fn columns(pool: &AnyPool, is_server: bool, table: &str) -> Vec<(String, Kind)> {
    let query = if is_server {
        "SELECT column_name::text, data_type::text FROM information_schema.columns
         WHERE table_schema = current_schema() AND table_name = $1 AND is_identity = 'NO'"
    } else {
        "SELECT name, type FROM pragma_table_info($1)
         WHERE NOT (pk = 1 AND type = 'INTEGER')"
    };
    let columns: Vec<(String, String)> = sqlx::query_as(query).bind(table).fetch_all(pool).await.unwrap();
    let kind = |kind: &str| match kind {
        "BLOB" | "bytea" => Kind::Bytes,
        "TEXT" | "text" => Kind::Text,
        _ => Kind::Number,
    };
    columns.into_iter().map(|(name, of)| (name, kind(&of))).collect()
}
