//! Owners of tasks in the database, of two users, one of whom fills the table.

use std::time::Duration;

use lockkeeper::{
    model::{BackendId, Caller, ClientId, FoundTask, OwnedTask, Owner, Rights, TaskHolder, TaskScope, UserId},
    storage::Storage,
    support::{Digest, Timestamp},
};

use crate::support::oauth::Authority;

const NOW: Timestamp = Timestamp::from_seconds(1_000);
const MAX: i64 = 3;

/// Two users with a key each, and the store.
async fn two_users() -> (Storage, Owner, Owner) {
    let storage = crate::support::empty_storage().await;
    let authority = Authority::on(storage.clone(), Authority::settings(), 1).await;
    let mut owners = Vec::new();
    for user in ["ann", "bob"] {
        let (_, holder) = Authority::key(&authority.oauth, user, Rights::all_backends()).await;
        let caller = Caller { user: holder.user, key: Some(holder.key), ..Caller::gateway() };
        owners.push(caller.owner());
    }
    let bob = owners.remove(1);
    (storage, owners.remove(0), bob)
}

fn scope() -> TaskScope {
    TaskScope::shared(&BackendId::parse("m").unwrap())
}

fn task(owner: &Owner, id: &str) -> OwnedTask {
    let expires = NOW + Duration::from_mins(1);
    OwnedTask { task: scope().digest_of(id), scope: scope(), owner: owner.clone(), expires, has_ended: false }
}

async fn found(storage: &Storage, owner: &Owner, ids: &[&str], now: Timestamp) -> Vec<(usize, bool)> {
    let tasks: Vec<Digest> = ids.iter().map(|id| scope().digest_of(id)).collect();
    let rows = storage.task_owners().find(&tasks, owner, now).await.unwrap();
    let place = |found: &FoundTask| tasks.iter().position(|task| *task == found.task).unwrap();
    let mut rows: Vec<(usize, bool)> =
        rows.iter().map(|found| (place(found), found.holder != TaskHolder::Others)).collect();
    rows.sort_unstable();
    rows
}

#[tokio::test]
async fn oa_115_a_stored_task_is_its_owners_until_it_expires() {
    let (storage, ann, bob) = two_users().await;
    let table = storage.task_owners();
    assert!(table.add(&task(&ann, "a"), MAX, NOW).await.unwrap());
    assert!(table.add(&task(&ann, "a"), MAX, NOW).await.unwrap(), "twice");
    assert!(table.add(&task(&bob, "b"), MAX, NOW).await.unwrap());
    assert_eq!(found(&storage, &ann, &["a", "b", "c"], NOW).await, [(0, true), (1, false)]);
    assert_eq!(found(&storage, &bob, &["a", "b", "c"], NOW).await, [(0, false), (1, true)]);
    assert!(found(&storage, &ann, &["a"], NOW + Duration::from_mins(1)).await.is_empty());
    let many: Vec<String> = (0..250).map(|number| format!("x{number}")).chain(["a".to_owned()]).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(found(&storage, &ann, &many, NOW).await, [(250, true)]);
    storage.expired_rows().delete(NOW + Duration::from_secs(61)).await.unwrap();
    assert!(found(&storage, &ann, &["a"], NOW).await.is_empty());
}

#[tokio::test]
async fn oa_115_an_owner_with_too_many_stored_tasks_loses_ended_ones_first_and_nobody_else_is_affected() {
    let (storage, ann, bob) = two_users().await;
    let table = storage.task_owners();
    table.add(&task(&bob, "b"), MAX, NOW).await.unwrap();
    for id in ["1", "2", "3"] {
        assert!(table.add(&task(&ann, id), MAX, NOW).await.unwrap());
    }
    assert!(!table.add(&task(&ann, "4"), MAX, NOW).await.unwrap());
    assert_eq!(found(&storage, &ann, &["1", "2", "3", "4"], NOW).await, [(0, true), (1, true), (2, true)]);
    assert!(table.add(&task(&bob, "c"), MAX, NOW).await.unwrap());
    table.set_ended(&scope().digest_of("2"), &bob).await.unwrap();
    assert!(!table.add(&task(&ann, "4"), MAX, NOW).await.unwrap(), "nobody ends the task of another");
    table.set_ended(&scope().digest_of("2"), &ann).await.unwrap();
    assert!(table.add(&task(&ann, "4"), MAX, NOW).await.unwrap());
    assert_eq!(found(&storage, &ann, &["1", "2", "3", "4"], NOW).await, [(0, true), (2, true), (3, true)]);
}

#[tokio::test]
async fn oa_115_an_id_that_a_server_gives_anew_changes_its_owner_unless_the_server_tells_callers_apart() {
    let (storage, ann, bob) = two_users().await;
    let table = storage.task_owners();
    let apart = TaskScope { tells_callers_apart: true, ..scope() };
    for owner in [&ann, &bob] {
        table.add(&OwnedTask { scope: apart, ..task(owner, "1") }, MAX, NOW).await.unwrap();
    }
    assert_eq!(found(&storage, &ann, &["1"], NOW).await, [(0, true)]);
    table.delete(&scope().digest_of("1"), &ann).await.unwrap();
    assert_eq!(found(&storage, &ann, &["1"], NOW).await, [(0, false)]);
    table.add(&task(&ann, "1"), MAX, NOW).await.unwrap();
    assert_eq!(found(&storage, &bob, &["1"], NOW).await, [(0, false)]);
}

#[tokio::test]
async fn oa_115_stored_tasks_go_with_their_user_and_need_an_owner_that_exists() {
    let (storage, ann, bob) = two_users().await;
    let table = storage.task_owners();
    for (owner, id) in [(&ann, "a"), (&bob, "b")] {
        table.add(&task(owner, id), MAX, NOW).await.unwrap();
    }
    let ended = storage.users().delete(&UserId::new("ann"), NOW).await.unwrap().unwrap();
    assert!(ended.tasks > 0, "{ended:?}");
    assert_eq!(found(&storage, &bob, &["a", "b"], NOW).await, [(1, true)]);
    let stranger = Caller { client: Some(ClientId::new("nobody")), user: UserId::new("bob"), ..Caller::gateway() };
    assert!(table.add(&task(&stranger.owner(), "s"), MAX, NOW).await.is_err());
}
