//! A copy of all stored data, into another database. Depends on the order of the tables, not on their meaning.

use futures_util::TryStreamExt as _;
use sqlx::{
    Any, AnyConnection, AssertSqlSafe, Column as _, Row as _, ValueRef as _,
    any::{AnyRow, AnyTypeInfoKind},
    query::Query,
};

use super::{
    Storage,
    database::{Database, Engine, StorageError},
};

/// The tables, each after the tables it refers to, and the order of its rows. Triggers fill the rest, and replicas add
/// themselves.
const TABLES: &[(&str, &str)] = &[
    ("gateway", "name"),
    ("users", "id"),
    ("api_keys", "rowid"),
    ("clients", "rowid"),
    ("transactions", "rowid"),
    ("grants", "rowid"),
    ("codes", "digest"),
    ("refresh_tokens", "rowid"),
    ("revoked_tokens", "jti"),
    ("revocations", "sequence"),
    ("signing_keys", "kid"),
    ("mcp_sessions", "digest"),
    ("browser_sessions", "id_digest"),
    ("backend_eras", "server"),
    ("backend_introductions", "backend"),
    ("used_assertions", "digest"),
    ("device_authorizations", "device"),
    ("initial_access_tokens", "id"),
    ("invitations", "id"),
    ("data_keys", "owner"),
    ("upstream_tokens", "user_id"),
    ("upstream_withdrawn", "id"),
    ("upstream_clients", "backend"),
    ("upstream_requests", "rowid"),
    ("user_secrets", "user_id"),
    ("ended_user_secrets", "id"),
    ("audit_events", "sequence"),
    ("provider_sessions", "session"),
    ("provider_logouts", "report"),
    ("bound_logins", "key_id"),
    ("limit_counts", "name"),
    ("task_owners", "task"),
    ("server_lists", "server"),
    ("certificates", "place"),
    ("acme_accounts", "directory"),
    ("acme_challenges", "token"),
];

/// Columns that the database numbers in the order of the rows.
const NUMBERED: &[(&str, &str)] = &[
    ("revocations", "sequence"),
    ("upstream_withdrawn", "id"),
    ("ended_user_secrets", "id"),
    ("audit_events", "sequence"),
];

impl Storage {
    /// Copies every row into an empty database, in one transaction; returns their number. `None`, without changes, if
    /// `target` is not empty.
    pub async fn copy_to(&self, target: &Self) -> Result<Option<u64>, StorageError> {
        let mut change = target.database.change().await?;
        if target.database.engine == Engine::Sqlite {
            sqlx::raw_sql("PRAGMA defer_foreign_keys = ON").execute(&mut *change).await?;
        }
        for (table, _) in TABLES {
            let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
            if sqlx::query_scalar::<_, i64>(count).fetch_one(&mut *change).await? > 0 {
                return Ok(None);
            }
        }
        let mut copied = 0;
        for (table, order) in TABLES {
            copied += copy_table(&self.database, &mut change, table, order).await?;
        }
        change.commit().await?;
        Ok(Some(copied))
    }
}

async fn copy_table(
    source: &Database,
    target: &mut AnyConnection,
    table: &'static str,
    order: &str,
) -> Result<u64, StorageError> {
    let rows = format!("SELECT * FROM {table} ORDER BY {order}");
    let mut rows = sqlx::query(AssertSqlSafe(rows)).fetch(&source.pool);
    let mut copied = 0;
    while let Some(row) = rows.try_next().await? {
        insert(target, table, &row).await?;
        copied += 1;
    }
    Ok(copied)
}

/// Adds a row; columns without a value are left out, since a null has no type here.
async fn insert(target: &mut AnyConnection, table: &'static str, row: &AnyRow) -> Result<(), StorageError> {
    let (mut names, mut numbers) = (Vec::new(), Vec::new());
    let mut kinds = Vec::new();
    for (at, column) in row.columns().iter().enumerate() {
        let kind = row.try_get_raw(at)?.type_info().kind();
        let is_numbered = column.name() == "rowid" || NUMBERED.contains(&(table, column.name()));
        if kind != AnyTypeInfoKind::Null && !is_numbered {
            names.push(column.name());
            kinds.push((at, kind));
            numbers.push(format!("${}", kinds.len()));
        }
    }
    let text = format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), numbers.join(", "));
    let mut query = sqlx::query(AssertSqlSafe(text));
    for (at, kind) in kinds {
        query = bind(query, row, at, kind)?;
    }
    query.execute(target).await?;
    Ok(())
}

fn bind<'q>(
    query: Query<'q, Any, <Any as sqlx::Database>::Arguments>,
    row: &AnyRow,
    at: usize,
    kind: AnyTypeInfoKind,
) -> Result<Query<'q, Any, <Any as sqlx::Database>::Arguments>, sqlx::Error> {
    Ok(match kind {
        AnyTypeInfoKind::Text => query.bind(row.try_get::<String, _>(at)?),
        AnyTypeInfoKind::Blob => query.bind(row.try_get::<Vec<u8>, _>(at)?),
        _ => query.bind(row.try_get::<i64, _>(at)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_table_is_copied_or_fills_itself() {
        let storage = Storage::in_memory().await.unwrap();
        let named = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'
                     AND name NOT IN ('_sqlx_migrations', 'replicas', 'unused_clients', 'unused_clients_total') ORDER BY name";
        let there: Vec<String> = sqlx::query_scalar(named).fetch_all(&storage.database.pool).await.unwrap();
        let mut copied: Vec<&str> = TABLES.iter().map(|(table, _)| *table).collect();
        copied.sort_unstable();
        assert_eq!(there, copied);
    }
}
