//! The rows of sessions, on any database.

use std::time::Duration;

use super::*;
use crate::{
    model::{Caller, ReplicaAddress, Rights},
    storage::Storage,
};

fn session(id: &str, seen: Timestamp) -> McpSession {
    McpSession {
        digest: Digest::sha256(id),
        user: UserId::new("ann"),
        client: Some(ClientId::new("c1")),
        key: None,
        endpoint: "/mcp".to_owned(),
        revision: "2025-06-18".to_owned(),
        implementation: b"{}".to_vec(),
        capabilities: b"{\"roots\":{}}".to_vec(),
        state: McpSessionState { log_level: None, subscriptions: Vec::new(), initialized: false, last_seen: seen },
        created: seen,
        owner: ReplicaNumber::SOLE,
    }
}

const SOLE: ReplicaNumber = ReplicaNumber::SOLE;

#[tokio::test]
async fn a_session_is_read_back_as_it_was_written_and_changed() {
    let storage = Storage::empty().await;
    let start = Timestamp::from_seconds(100);
    let mut one = session("one", start);
    storage.mcp_sessions().write(&[McpSessionWrite::Add(Box::new(one.clone()))], SOLE).await.unwrap();
    assert_eq!(storage.mcp_sessions().lookup(&one.digest).await.unwrap().as_ref(), Some(&one));
    let later = start + Duration::from_secs(5);
    let subscriptions = vec!["file:///a \"b\"".to_owned()];
    let log_level = Some("error".to_owned());
    one.state = McpSessionState { log_level, subscriptions, initialized: true, last_seen: later };
    storage.mcp_sessions().write(&[McpSessionWrite::Change(one.digest, one.state.clone())], SOLE).await.unwrap();
    assert_eq!(storage.mcp_sessions().lookup(&one.digest).await.unwrap().as_ref(), Some(&one));
    storage.mcp_sessions().write(&[McpSessionWrite::Delete(one.digest)], SOLE).await.unwrap();
    assert_eq!(storage.mcp_sessions().lookup(&one.digest).await.unwrap(), None);
}

#[tokio::test]
async fn one_row_that_cannot_be_read_stands_in_no_other_ones_way() {
    let storage = Storage::empty().await;
    let [good, bad] = ["good", "bad"].map(|id| session(id, Timestamp::from_seconds(1)));
    for row in [&good, &bad] {
        storage.mcp_sessions().write(&[McpSessionWrite::Add(Box::new(row.clone()))], SOLE).await.unwrap();
    }
    sqlx::query("UPDATE mcp_sessions SET subscriptions = 'garbage' WHERE digest = $1")
        .bind(bad.digest.as_bytes().as_slice())
        .execute(&storage.mcp_sessions().durable.pool)
        .await
        .unwrap();
    assert!(matches!(storage.mcp_sessions().lookup(&bad.digest).await, Err(StorageError::Inconsistent { .. })));
    let caller =
        Caller { user: good.user.clone(), client: good.client.clone(), grant: None, key: None, rights: Rights::none() };
    assert_eq!(storage.mcp_sessions().of_owner(&caller.owner(), "/mcp").await.unwrap(), [good]);
}

#[tokio::test]
async fn several_writes_are_all_applied_or_none() {
    let storage = Storage::empty().await;
    let add = |id| McpSessionWrite::Add(Box::new(session(id, Timestamp::from_seconds(1))));
    let error = storage.mcp_sessions().write(&[add("one"), add("two"), add("one")], SOLE).await.unwrap_err();
    assert!(error.is_constraint() && !error.is_busy());
    let there = storage.mcp_sessions().lookup(&Digest::sha256("two")).await.unwrap();
    assert_eq!(there, None);
    storage.mcp_sessions().write(&[add("one"), McpSessionWrite::Delete(Digest::sha256("one"))], SOLE).await.unwrap();
    assert_eq!(storage.mcp_sessions().lookup(&Digest::sha256("one")).await.unwrap(), None);
}

#[tokio::test]
async fn idle_sessions_and_uninitialized_ones_are_deleted_after_their_timeouts() {
    let storage = Storage::empty().await;
    let at = Timestamp::from_seconds;
    let mut ready = session("ready", at(50));
    ready.state.initialized = true;
    for row in [session("idle", at(10)), session("unready", at(50)), session("fresh", at(90)), ready] {
        storage.mcp_sessions().write(&[McpSessionWrite::Add(Box::new(row))], SOLE).await.unwrap();
    }
    let since = InactiveSince { now: at(100), ready: at(20), unready: at(60), elsewhere: at(0) };
    assert_eq!(storage.mcp_sessions().delete_idle(SOLE, since).await.unwrap(), 2);
    for (id, there) in [("idle", false), ("unready", false), ("fresh", true), ("ready", true)] {
        let found = storage.mcp_sessions().lookup(&Digest::sha256(id)).await.unwrap();
        assert_eq!(found.is_some(), there, "{id}");
    }
}

#[tokio::test]
async fn a_replica_deletes_idle_rows_of_its_own_of_nobody_and_late_those_of_others() {
    let storage = Storage::empty().await;
    let address = ReplicaAddress::parse("10.0.0.5:8701").unwrap();
    let lease = Duration::from_mins(10);
    let join = async || storage.replicas().join(&address, b"key", lease, Timestamp::from_millis(0)).await.unwrap();
    let (own, other, gone) = (join().await, join().await, join().await);
    storage.replicas().leave(gone).await.unwrap();
    let at = Timestamp::from_seconds;
    let rows = [("own", own, 50), ("other", other, 50), ("gone", gone, 50), ("nobody", SOLE, 50), ("left", other, 30)];
    for (id, owner, seen) in rows {
        let mut row = McpSession { owner, ..session(id, at(seen)) };
        row.state.initialized = true;
        storage.mcp_sessions().write(&[McpSessionWrite::Add(Box::new(row))], owner).await.unwrap();
    }
    let since = InactiveSince { now: at(100), ready: at(60), unready: at(60), elsewhere: at(40) };
    assert_eq!(storage.mcp_sessions().delete_idle(own, since).await.unwrap(), 4);
    assert!(storage.mcp_sessions().lookup(&Digest::sha256("other")).await.unwrap().is_some(), "it may be in use");
}

#[tokio::test]
async fn a_replica_whose_clock_is_ahead_deletes_no_row_of_others() {
    let storage = Storage::empty().await;
    let address = ReplicaAddress::parse("10.0.0.5:8701").unwrap();
    let now = storage.replicas().clock().await.unwrap();
    let join = async || storage.replicas().join(&address, b"key", Duration::from_mins(10), now).await.unwrap();
    let (own, other) = (join().await, join().await);
    for (id, owner) in [("own", own), ("other", other), ("nobody", SOLE)] {
        let mut row = McpSession { owner, ..session(id, now) };
        row.state.initialized = true;
        storage.mcp_sessions().write(&[McpSessionWrite::Add(Box::new(row))], owner).await.unwrap();
    }
    let hour = Duration::from_hours(1);
    let ahead = now + hour;
    let idle_for = |time: Duration| ahead - time;
    let since = InactiveSince { now: ahead, ready: idle_for(hour / 2), unready: ahead, elsewhere: idle_for(hour / 2) };
    assert_eq!(storage.mcp_sessions().delete_idle(own, since).await.unwrap(), 1);
    assert!(storage.mcp_sessions().lookup(&Digest::sha256("own")).await.unwrap().is_none());
}

#[tokio::test]
async fn a_session_that_goes_on_gets_its_row_back_unless_another_replica_has_it() {
    let storage = Storage::empty().await;
    let address = ReplicaAddress::parse("10.0.0.5:8701").unwrap();
    let lease = Duration::from_mins(10);
    let join = async || storage.replicas().join(&address, b"key", lease, Timestamp::from_millis(0)).await.unwrap();
    let (one, two) = (join().await, join().await);
    let table = storage.mcp_sessions();
    let mut row = McpSession { owner: one, ..session("s", Timestamp::from_seconds(1)) };
    table.write(&[McpSessionWrite::Keep(Box::new(row.clone()))], one).await.unwrap();
    assert_eq!(table.lookup(&row.digest).await.unwrap().as_ref(), Some(&row), "the row was gone");
    row.state.last_seen = Timestamp::from_seconds(9);
    table.write(&[McpSessionWrite::Keep(Box::new(row.clone()))], one).await.unwrap();
    assert_eq!(table.lookup(&row.digest).await.unwrap().as_ref(), Some(&row));
    let late = McpSession { owner: two, ..session("s", Timestamp::from_seconds(99)) };
    table.write(&[McpSessionWrite::Keep(Box::new(late))], two).await.unwrap();
    assert_eq!(table.lookup(&row.digest).await.unwrap().as_ref(), Some(&row), "it is another's");
    let connection = McpSession { endpoint: "/sse".to_owned(), ..session("c", Timestamp::from_seconds(1)) };
    table.write(&[McpSessionWrite::Keep(Box::new(connection.clone()))], SOLE).await.unwrap();
    assert_eq!(table.lookup(&connection.digest).await.unwrap(), None);
}

#[tokio::test]
async fn a_session_has_one_owner_which_alone_writes_and_which_one_replica_succeeds() {
    let storage = Storage::empty().await;
    let address = ReplicaAddress::parse("10.0.0.5:8701").unwrap();
    let lease = Duration::from_mins(10);
    let join = async || storage.replicas().join(&address, b"key", lease, Timestamp::from_millis(0)).await.unwrap();
    let (one, two, three) = (join().await, join().await, join().await);
    let mut row = McpSession { owner: one, ..session("s", Timestamp::from_seconds(1)) };
    let table = storage.mcp_sessions();
    table.write(&[McpSessionWrite::Add(Box::new(row.clone()))], one).await.unwrap();
    assert!(!table.succeed(&row.digest, one, two).await.unwrap(), "its owner is there");
    storage.replicas().leave(one).await.unwrap();
    assert!(table.succeed(&row.digest, one, two).await.unwrap());
    assert!(!table.succeed(&row.digest, one, three).await.unwrap(), "another was first");
    // the owner that was does not know yet
    let state = McpSessionState { initialized: true, ..row.state.clone() };
    let late = [McpSessionWrite::Change(row.digest, state), McpSessionWrite::Delete(row.digest)];
    table.write(&late, one).await.unwrap();
    row.owner = two;
    assert_eq!(table.lookup(&row.digest).await.unwrap(), Some(row));
}
