//! What many rows cost: how long others wait for the database, and for the disk.

use std::{path::Path, time::Duration};

use lockkeeper::{
    model::Rights,
    storage::{AuditSearch, Storage},
};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};

use crate::support::{
    log_of_database::transactions,
    oauth::{Authority, HOME},
};

/// An authority on a file, and a connection of the test's own.
async fn on_file(folder: &Path) -> (Authority, SqlitePool) {
    let path = folder.join("lockkeeper.sqlite3");
    let authority = Authority::on(Storage::open(&path).await.unwrap(), Authority::settings(), 1).await;
    let own = SqlitePoolOptions::new().max_connections(1);
    (authority, own.connect_with(SqliteConnectOptions::new().filename(&path)).await.unwrap())
}

async fn run(own: &SqlitePool, statement: &'static str) {
    sqlx::raw_sql(statement).execute(own).await.unwrap();
}

async fn count(own: &SqlitePool, statement: &'static str) -> i64 {
    sqlx::query_scalar(statement).fetch_one(own).await.unwrap()
}

/// From here on the log keeps every transaction.
async fn begin_log(own: &SqlitePool) {
    run(own, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    run(own, "BEGIN; SELECT count(*) FROM gateway").await;
}

#[tokio::test]
async fn uses_of_many_keys_are_written_with_one_wait_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, own) = on_file(folder.path()).await;
    for number in 0..300 {
        let user = format!("user {number}");
        let (key, _) = Authority::key(&authority.oauth, &user, Rights::all_backends()).await;
        authority.oauth.verify(key.expose(), HOME).await.unwrap();
    }
    begin_log(&own).await;
    authority.oauth.sync().await.unwrap();
    let waits = transactions(&folder.path().join("lockkeeper.sqlite3")).len();
    run(&own, "COMMIT").await;
    assert_eq!(count(&own, "SELECT count(*) FROM api_keys WHERE last_used IS NOT NULL").await, 301);
    assert!((1..=3).contains(&waits), "{waits} transactions");
}

#[tokio::test]
async fn uses_that_cannot_be_written_are_kept_and_the_audit_trail_does_not_wait_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, own) = on_file(folder.path()).await;
    authority.oauth.sync().await.unwrap();
    authority.clock.advance(Duration::from_hours(1));
    authority.oauth.verify(authority.key.expose(), HOME).await.unwrap();
    let _ = authority.oauth.verify("nonsense", HOME).await;
    run(
        &own,
        "UPDATE api_keys SET last_used = 1;
         CREATE TRIGGER refused BEFORE UPDATE OF last_used ON api_keys BEGIN SELECT RAISE(ABORT, 'refused'); END",
    )
    .await;
    authority.oauth.sync().await.unwrap_err();
    let refused = AuditSearch { event: Some("token_refused".to_owned()), limit: 9, ..AuditSearch::default() };
    assert_eq!(authority.oauth.audit().find(&refused).await.unwrap().len(), 1);
    run(&own, "DROP TRIGGER refused").await;
    authority.oauth.sync().await.unwrap();
    assert_eq!(count(&own, "SELECT count(*) FROM api_keys WHERE last_used = 1").await, 0);
}
