//! The `storage` module, tested through its public interface.

mod account_tokens;
mod baseline;
pub(crate) mod filling;
mod plans;
pub(crate) mod postgres;
mod task_owners;

use std::{fs, os::unix::fs::PermissionsExt as _, sync::Arc, time::Duration};

use lockkeeper::{
    model::{BackendId, Client, ClientAuth, ClientId, Era, KnownEra, Registrant, UserId},
    oauth::{MasterKeySource, OAuth, OAuthSettings},
    storage::{
        IdleSince, NewClient, RegistrationOutcome, ServerInfoRow, ServerListChange, ServerListKey, ServerListRow,
        Storage, UnusedLimits,
    },
    support::{Digest, ManualClock, OsRandom, Timestamp},
};

#[tokio::test]
async fn oa_143_the_database_and_its_log_are_for_their_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(&folder.path().join("lockkeeper.db")).await.unwrap();
    let modes: Vec<u32> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().permissions().mode() & 0o777)
        .collect();
    assert!(modes.len() > 1 && modes.iter().all(|mode| *mode == 0o600), "{modes:?}");
    drop(storage);
}

#[tokio::test]
async fn processes_that_start_together_share_one_new_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lockkeeper.sqlite3");
    let opened = futures_util::future::join_all((0..8).map(|_| Storage::open(&path))).await;
    for storage in opened {
        storage.unwrap().close().await;
    }
}

#[tokio::test]
async fn the_known_eras_are_read_back_and_replaced_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lockkeeper.sqlite3");
    let known = |name: &str, era, seconds| KnownEra {
        server: Digest::sha256(name),
        era,
        found: Timestamp::from_seconds(seconds),
    };
    let storage = Storage::open(&path).await.unwrap();
    assert_eq!(storage.backend_eras().list().await.unwrap(), []);
    storage.backend_eras().set(&[known("gone", Era::Modern, 1), known("kept", Era::Legacy, 2)]).await.unwrap();
    let newer = [known("kept", Era::Modern, 3)];
    storage.backend_eras().set(&newer).await.unwrap();
    storage.close().await;
    let storage = Storage::open(&path).await.unwrap();
    assert_eq!(storage.backend_eras().list().await.unwrap(), newer);
}

#[tokio::test]
async fn the_server_info_of_a_backend_replaces_the_previous_one() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(&folder.path().join("lockkeeper.sqlite3")).await.unwrap();
    let row = |backend: &str, server: &str| ServerInfoRow {
        backend: BackendId::parse(backend).unwrap(),
        server: Digest::sha256(server),
        revision: "2025-11-25".to_owned(),
        result: server.as_bytes().to_vec(),
    };
    for told in [row("a", "one"), row("b", "one"), row("a", "two")] {
        storage.server_info().set(&told).await.unwrap();
    }
    storage.server_info().delete(&row("b", "one").backend).await.unwrap();
    assert_eq!(storage.server_info().list().await.unwrap(), [row("a", "two")]);
}

#[tokio::test]
async fn one_user_or_odd_capabilities_do_not_displace_the_lists_of_others() {
    use ServerListChange::{Delete, Renew, Set};
    let storage = crate::support::empty_storage().await;
    let lists = storage.server_lists();
    let key = |user: Option<&str>, capabilities: &str| ServerListKey {
        server: BackendId::parse("files").unwrap(),
        user: user.map(UserId::new),
        capabilities: Digest::sha256(capabilities),
        method: "tools/list".to_owned(),
    };
    let row = |length: usize| ServerListRow {
        section: Digest::sha256("section"),
        revision: "2025-11-25".to_owned(),
        list: vec![b'x'; length],
    };
    let at = Timestamp::from_seconds;
    lists.write(&[(key(None, ""), Set(row(1 << 20)))], at(1)).await.unwrap();
    lists.write(&[(key(Some("ann"), ""), Set(row(4 << 20)))], at(2)).await.unwrap();
    // a client that says something else of itself each time, and a user with large lists
    for number in 0..40 {
        let odd = format!("odd {number}");
        let of_all = (key(None, &odd), Set(row(1 << 20)));
        lists.write(&[of_all, (key(Some("eve"), &odd), Set(row(3 << 20)))], at(10 + number)).await.unwrap();
    }
    let found = async |key: ServerListKey, now| lists.find(&key, at(now)).await.unwrap().map(|row| row.list.len());
    assert_eq!(found(key(None, ""), 60).await, Some(1 << 20), "what the gateway asked for itself stays");
    assert_eq!(found(key(Some("ann"), ""), 60).await, Some(4 << 20));
    assert_eq!(found(key(None, "odd 39"), 60).await, Some(1 << 20));
    assert_eq!(found(key(None, "odd 30"), 60).await, None);
    assert_eq!(found(key(Some("eve"), "odd 38"), 60).await, None);
    let week = 7 * 24 * 60 * 60;
    assert_eq!(found(key(None, ""), week + 1).await, Some(1 << 20));
    assert_eq!(found(key(None, ""), week + 2).await, None, "it is too old");
    lists.write(&[(key(None, "odd 38"), Renew), (key(None, "odd 30"), Renew)], at(week)).await.unwrap();
    assert_eq!(found(key(None, "odd 38"), 2 * week).await, Some(1 << 20), "it has not changed");
    assert_eq!(found(key(None, "odd 30"), week).await, None, "it was displaced");
    storage.expired_rows().delete(at(week + 20)).await.unwrap();
    assert_eq!(found(key(None, ""), 60).await, None);
    assert_eq!(found(key(None, "odd 39"), 60).await, Some(1 << 20));
    lists.write(&[(key(None, "odd 39"), Delete)], at(60)).await.unwrap();
    assert_eq!(found(key(None, "odd 39"), 60).await, None);
}

/// A database from before the migrations after `version`.
async fn database_of(version: i64, folder: &std::path::Path) -> sqlx::AnyPool {
    let (_, pool) = filling::empty_database(folder, None).await;
    baseline::run_before(&pool, version).await;
    pool
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lockkeeper.sqlite3");
    let newer = database_of(i64::MAX, folder.path()).await;
    let row = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
               VALUES (99990, 'of tomorrow', 1, x'00', 1)";
    sqlx::query(row).execute(&newer).await.unwrap();
    newer.close().await;
    let refusal = Storage::open(&path).await.unwrap_err().to_string();
    assert!(
        refusal.contains("a newer version of this program has changed the database (to schema 99990;"),
        "{refusal}"
    );
    assert!(refusal.contains("or go back to a backup"), "{refusal}");
}

#[tokio::test]
async fn keys_that_share_a_user_stay_and_are_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lockkeeper.sqlite3");
    let old = database_of(50, folder.path()).await;
    let rights = r#"{"backends":"all","admin":false}"#;
    for user in ["owner", "ann"] {
        sqlx::query("INSERT INTO users VALUES (?, 1)").bind(user).execute(&old).await.unwrap();
    }
    for (id, user, revoked) in
        [("a", "owner", None), ("b", "owner", None), ("c", "ann", None), ("d", "ann", Some(2)), ("e", "owner", Some(2))]
    {
        sqlx::query("INSERT INTO api_keys VALUES (?, ?, 'laptop', zeroblob(32), ?, 0, 1, NULL, NULL, ?)")
            .bind(id)
            .bind(user)
            .bind(rights)
            .bind(revoked)
            .execute(&old)
            .await
            .unwrap();
    }
    old.close().await;

    let storage = Storage::open(&path).await.unwrap();
    let open = async || {
        let (clock, random) = (Arc::new(ManualClock::default()), Arc::new(OsRandom));
        let master_key = MasterKeySource::File(folder.path().join("master.key"));
        let settings = OAuthSettings { master_key, ..OAuthSettings::new("https://gw.example") };
        OAuth::open(storage.clone(), clock, random, settings).await.unwrap()
    };
    let oauth = open().await;
    let users: Vec<String> = oauth.keys().list().await.unwrap().iter().map(|key| key.user.to_string()).collect();
    assert_eq!(users, ["owner", "owner", "ann", "ann", "owner"]);
    assert_eq!(oauth.keys().take_shared_users().await.unwrap(), [(UserId::owner(), 2)]);
    assert_eq!(open().await.keys().take_shared_users().await.unwrap(), [], "at the first start alone");
}

#[tokio::test]
async fn logins_survive_the_migration_that_deletes_anonymous_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lockkeeper.sqlite3");
    let before = database_of(50, folder.path()).await;
    let old =
        |login: &str| format!(r#"{{"visit":{{"seed":"s","login":{login},"forms":{{"secret":"x","spent":["a"]}}}}}}"#);
    for (name, key, login) in [("known", Some("k1"), r#"{"key":"k1","transaction":"t"}"#), ("stranger", None, "null")] {
        sqlx::query(
            "INSERT INTO browser_sessions (id_digest, key_id, data, created_at, used_at) VALUES (?, ?, ?, 5, 6)",
        )
        .bind(Digest::sha256(name).as_bytes().as_slice())
        .bind(key)
        .bind(old(login))
        .execute(&before)
        .await
        .unwrap();
    }
    before.close().await;
    let storage = Storage::open(&path).await.unwrap();
    let known = storage.browser_sessions().lookup(&Digest::sha256("known")).await.unwrap().unwrap();
    assert_eq!((known.key.as_str(), known.created.as_millis(), known.used.as_millis()), ("k1", 5, 6));
    assert_eq!(known.data, r#"{"visit":{"key":"k1","seed":"s","forms":{"secret":"x","spent":["a"]}}}"#);
    assert_eq!(storage.browser_sessions().lookup(&Digest::sha256("stranger")).await.unwrap(), None);
}

/// A client with this name, registered from this network.
fn new_client(name: &str, network: &str, now: Timestamp) -> NewClient {
    let client = Client {
        id: ClientId::new(name),
        name: name.to_owned(),
        redirect_uris: vec!["https://a.example/cb".to_owned()],
        auth: ClientAuth::None,
        registrant: Registrant::Client,
        grant_types: Vec::new(),
        scope: None,
        metadata: "{}".to_owned(),
        created: now,
    };
    NewClient { client, registration: Digest::sha256(name), network: Digest::sha256(network) }
}

async fn names(storage: &Storage) -> Vec<String> {
    let mut names: Vec<String> =
        storage.clients().list().await.unwrap().into_iter().map(|client| client.id.to_string()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn oa_042_the_oldest_unused_clients_of_the_largest_network_are_evicted() {
    // OA-42
    let storage = crate::support::empty_storage().await;
    let limits = UnusedLimits { clients: 5, bytes: i64::MAX, protected: Duration::from_mins(15) };
    let start = Timestamp::from_seconds(1_000_000);
    let add = async |name: &str, network: &str, now: Timestamp| {
        storage.clients().add(&new_client(name, network, now), &limits, now).await.unwrap()
    };
    let minute = Duration::from_mins(1);
    assert_eq!(add("victim", "home", start).await, RegistrationOutcome::Added);
    for (number, name) in ["flood-1", "flood-2", "flood-3", "flood-4"].into_iter().enumerate() {
        let now = start + minute * u32::try_from(number).unwrap();
        assert_eq!(add(name, "flood", now).await, RegistrationOutcome::Added);
    }
    // a client is not evicted within 15 minutes of its registration
    let until = start + minute * 15;
    assert_eq!(add("new", "cafe", start + minute * 10).await, RegistrationOutcome::Full(until));
    assert_eq!(
        add("flood-1", "flood", start + minute * 10).await,
        RegistrationOutcome::Known(ClientId::new("flood-1"), start)
    );
    // flood-1 was renewed, so flood-2 is the oldest of the largest network
    assert_eq!(add("new", "cafe", start + minute * 17).await, RegistrationOutcome::Added);
    assert_eq!(names(&storage).await, ["flood-1", "flood-3", "flood-4", "new", "victim"]);
    // a deleted client leaves nothing behind
    assert_eq!(add("flood-2", "flood", start + minute * 18).await, RegistrationOutcome::Added);
    assert_eq!(names(&storage).await, ["flood-1", "flood-2", "flood-4", "new", "victim"]);
    let later = start + minute * 60;
    let since = IdleSince { unused: later, idle: later, forgotten: later + minute };
    storage.client_expiry().expire(&since, later).await.unwrap();
    assert!(names(&storage).await.is_empty());
}

#[tokio::test]
async fn unused_clients_are_limited_in_bytes() {
    let storage = crate::support::empty_storage().await;
    let now = Timestamp::from_seconds(1_000_000);
    let size = new_client("0", "", now).client.stored_bytes();
    let limits = UnusedLimits { clients: 1000, bytes: size * 3, protected: Duration::from_mins(15) };
    let later = now + Duration::from_hours(1);
    for name in ["0", "1", "2"] {
        let new = new_client(name, name, now);
        assert_eq!(storage.clients().add(&new, &limits, now).await.unwrap(), RegistrationOutcome::Added);
    }
    let full = storage.clients().add(&new_client("3", "3", now), &limits, now).await.unwrap();
    assert_eq!(full, RegistrationOutcome::Full(now + limits.protected));
    for name in ["4", "5"] {
        let new = new_client(name, "4", later);
        assert_eq!(storage.clients().add(&new, &limits, later).await.unwrap(), RegistrationOutcome::Added);
    }
    assert_eq!(names(&storage).await.len(), 3);
    // a revoked client belongs to the operator, and does not count
    assert!(storage.clients().revoke(&ClientId::new("4"), later).await.unwrap());
    let new = new_client("6", "6", later);
    assert_eq!(storage.clients().add(&new, &limits, later).await.unwrap(), RegistrationOutcome::Added);
    assert_eq!(
        storage.clients().add(&new_client("4", "4", later), &limits, later).await.unwrap(),
        RegistrationOutcome::Revoked
    );
    // lower limits, as after an upgrade: the excess is deleted in the background
    let fewer = UnusedLimits { clients: 2, ..limits };
    storage.clients().purge(&fewer, later + limits.protected).await.unwrap();
    assert_eq!(names(&storage).await.len(), 1, "one more fits");
}
