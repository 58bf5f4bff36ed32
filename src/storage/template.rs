//! Empty databases for tests. The migrations take longer than most tests: a process runs them once, and copies the
//! result.

use sqlx::{AnyConnection, AssertSqlSafe};
use tokio::sync::OnceCell;

use super::database::{Database, StorageError};

/// The statements that turn an empty database into a migrated one.
static STATEMENTS: OnceCell<String> = OnceCell::const_new();

/// Tables before their indexes and triggers, without SQLite's own.
const SCHEMA: &str = "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' \
                      ORDER BY type <> 'table', rowid";

/// A migrated database in memory.
pub(super) async fn copied() -> Result<Database, StorageError> {
    let statements = STATEMENTS.get_or_try_init(statements).await?;
    let database = Database::in_memory().await?;
    sqlx::raw_sql(AssertSqlSafe(statements.as_str())).execute(&database.pool).await?;
    Ok(database)
}

/// Migrates a database, and returns the statements for its content.
async fn statements() -> Result<String, StorageError> {
    let database = Database::in_memory().await?;
    database.migrate().await?;
    let mut connection = database.pool.acquire().await?;
    let objects: Vec<(String, String, String)> = sqlx::query_as(SCHEMA).fetch_all(&mut *connection).await?;
    let (mut tables, mut rows, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, name, sql) in objects {
        if kind == "table" {
            tables.push(sql);
            rows.extend(inserts(&mut connection, &name).await?);
        } else {
            others.push(sql);
        }
    }
    let all = [vec!["BEGIN".to_owned()], tables, rows, others, vec!["COMMIT".to_owned()]];
    Ok(all.concat().join(";\n"))
}

/// The statements that fill a table.
async fn inserts(connection: &mut AnyConnection, table: &str) -> Result<Vec<String>, StorageError> {
    let columns: Vec<(String,)> =
        sqlx::query_as("SELECT name FROM pragma_table_info(?)").bind(table).fetch_all(&mut *connection).await?;
    let quoted: Vec<String> = columns.into_iter().map(|(name,)| format!("quote(\"{name}\")")).collect();
    let select = format!("SELECT {} FROM \"{table}\"", quoted.join(" || ',' || "));
    let rows: Vec<(String,)> = sqlx::query_as(AssertSqlSafe(select)).fetch_all(connection).await?;
    Ok(rows.into_iter().map(|(values,)| format!("INSERT INTO \"{table}\" VALUES ({values})")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_copy_is_what_the_migrations_make() {
        let migrated = Database::in_memory().await.unwrap();
        migrated.migrate().await.unwrap();
        let mut contents = Vec::new();
        for database in [migrated, copied().await.unwrap()] {
            let mut connection = database.pool.acquire().await.unwrap();
            let objects: Vec<(String, String, String)> =
                sqlx::query_as("SELECT type, name, coalesce(sql, '') FROM sqlite_schema ORDER BY type, name")
                    .fetch_all(&mut *connection)
                    .await
                    .unwrap();
            let mut rows = Vec::new();
            // what SQLite counts, it counts again from the rows
            let tables = objects.iter().filter(|(kind, name, _)| kind == "table" && !name.starts_with("sqlite_"));
            for (_, table, _) in tables {
                // the time that a migration took is its own
                let all = inserts(&mut connection, table).await.unwrap();
                rows.push((table.clone(), if table == "_sqlx_migrations" { vec![all.len().to_string()] } else { all }));
            }
            contents.push((objects, rows));
        }
        assert_eq!(contents[0], contents[1]);
    }
}
