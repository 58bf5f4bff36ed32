//! What many rows cost: how long others wait for the database, and for the disk.

use std::{path::Path, time::Duration};

use lockkeeper::{
    model::{Rights, SecretName},
    storage::{AuditSearch, Storage},
    support::{Clock as _, Timestamp},
};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    in_time,
    log_of_database::transactions,
    oauth::{Authority, HOME},
};

/// Pages that one transaction of the housekeeping may write: a few hundred rows with their indexes.
const MAX_PAGES: usize = 600;

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

#[tokio::test]
async fn no_transaction_is_long_when_many_rows_expire_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, own) = on_file(folder.path()).await;
    run(
        &own,
        "CREATE TEMP TABLE numbers AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
             SELECT i FROM n;
         INSERT INTO clients (id, name, redirect_uris, auth, grant_types, metadata, created, registered, consented)
             VALUES ('c', 'c', '[]', 'none', '[]', '{}', 1, 1, 1);
         INSERT INTO clients (id, name, redirect_uris, auth, grant_types, metadata, created, registered, network)
             SELECT 'c ' || i, 'c', '[]', 'none', '[]', '{}', i, i, x'00' FROM numbers;
         INSERT INTO grants (id, user_id, api_key, client, endpoint, scopes, redirect_uri, created, expires, last_used)
             SELECT 'g ' || i, 'ada', (SELECT id FROM api_keys), 'c', '/mcp', 'mcp:use', '', i, i + 1, i FROM numbers;
         INSERT INTO codes (digest, grant_id, challenge, expires) SELECT randomblob(32), 'g ' || i, '', i FROM numbers;
         INSERT INTO refresh_tokens (digest, generation, grant_id, expires)
             SELECT randomblob(32), 'r ' || i, 'g ' || (i % 10 + 1), i FROM numbers;
         INSERT INTO audit_events (at, event, fields, count) SELECT i, 'login', '{}', 1 FROM numbers;
         INSERT INTO revocations (kind, subject, at) SELECT 'grant', i, i FROM numbers;
         INSERT INTO transactions (id, browser, user_id, request, expires)
             SELECT randomblob(32), x'00', 'ada', '', i FROM numbers",
    )
    .await;
    let _ = authority.oauth.verify("nonsense", HOME).await;
    authority.oauth.sync().await.unwrap();
    begin_log(&own).await;
    authority.oauth.purge().await.unwrap();
    let log = transactions(&folder.path().join("lockkeeper.sqlite3"));
    run(&own, "COMMIT").await;
    let left =
        "SELECT (SELECT count(*) FROM grants) + (SELECT count(*) FROM codes) + (SELECT count(*) FROM transactions)
                + (SELECT count(*) FROM refresh_tokens) + (SELECT count(*) FROM revocations)
                + (SELECT count(*) FROM clients WHERE expired IS NULL AND id <> 'c')
                + (SELECT count(*) FROM audit_events WHERE at < 1000000)";
    assert_eq!(count(&own, left).await, 0);
    let longest = log.iter().copied().max().unwrap();
    assert!(longest <= MAX_PAGES, "{longest} pages in one transaction");
}

#[tokio::test]
async fn what_is_sealed_goes_with_the_last_key_and_nothing_waits_for_the_lock_where_nothing_goes() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, own) = on_file(folder.path()).await;
    let storage = Storage::open(&folder.path().join("lockkeeper.sqlite3")).await.unwrap();
    let (_, eve) = Authority::key(&authority.oauth, "eve", Rights::all_backends()).await;
    let (start, name) = (authority.clock.now(), SecretName::parse("TOKEN").unwrap());
    for user in [&authority.holder.user, &eve.user] {
        storage.user_secrets().set(user, &name, b"sealed", None, start).await.unwrap();
    }
    let look = async |since| {
        storage.users().delete_sealed_of_ended(since, authority.clock.now()).await.unwrap();
        storage.data_keys().delete_unused(since).await.unwrap();
        let secrets = storage.user_secrets();
        let ada = secrets.entered(&authority.holder.user).await.unwrap();
        (ada.len(), secrets.entered(&eve.user).await.unwrap().len())
    };
    run(&own, "BEGIN IMMEDIATE").await;
    assert_eq!(look(Timestamp::from_millis(0)).await, (1, 1));
    run(&own, "COMMIT").await;
    authority.clock.advance(Duration::from_secs(1));
    authority.oauth.keys().revoke(&authority.holder.key).await.unwrap();
    assert_eq!(look(start).await, (0, 1));
}

#[tokio::test]
async fn a_purge_of_many_rows_ends_with_the_gateway_and_not_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, own) = on_file(folder.path()).await;
    run(
        &own,
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
             INSERT INTO revocations (kind, subject, at) SELECT 'grant', i, i FROM n",
    )
    .await;
    let left = async || count(&own, "SELECT count(*) FROM revocations").await;
    let cancel = CancellationToken::new();
    let stop = async {
        while left().await == 10_000 {}
        cancel.cancel();
    };
    let watched = Box::pin(authority.oauth.watch_revocations(cancel.clone()));
    in_time("the end of the purge", async { tokio::join!(watched, stop) }).await;
    assert!(left().await > 0);
}
