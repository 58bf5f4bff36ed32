//! The `storage` room, from outside.

use std::sync::Arc;

use lockkeeper::{
    model::{BackendId, Era, KnownEra, UserId},
    oauth::{MasterKeySource, OAuth, Settings},
    storage::{IntroductionRow, Storage},
    support::{Digest, ManualClock, OsRandom, Timestamp},
};

#[tokio::test]
async fn processes_that_start_at_the_same_time_share_one_fresh_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lockkeeper.sqlite3");
    let opened = futures_util::future::join_all((0..8).map(|_| Storage::open(&path))).await;
    for storage in opened {
        storage.unwrap().close().await;
    }
}

#[tokio::test]
async fn what_is_known_of_the_servers_eras_is_read_back_and_replaced_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lockkeeper.sqlite3");
    let known = |name: &str, era, seconds| KnownEra {
        server: Digest::sha256(name),
        era,
        found: Timestamp::from_seconds(seconds),
    };
    let storage = Storage::open(&path).await.unwrap();
    assert_eq!(storage.list_backend_eras().await.unwrap(), []);
    storage.set_backend_eras(&[known("gone", Era::Modern, 1), known("kept", Era::Legacy, 2)]).await.unwrap();
    let newer = [known("kept", Era::Modern, 3)];
    storage.set_backend_eras(&newer).await.unwrap();
    storage.close().await;
    let storage = Storage::open(&path).await.unwrap();
    assert_eq!(storage.list_backend_eras().await.unwrap(), newer);
}

#[tokio::test]
async fn what_a_backend_says_of_itself_takes_the_place_of_what_it_said_before() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(&folder.path().join("lockkeeper.sqlite3")).await.unwrap();
    let row = |backend: &str, server: &str| IntroductionRow {
        backend: BackendId::parse(backend).unwrap(),
        server: Digest::sha256(server),
        revision: "2025-11-25".to_owned(),
        result: server.as_bytes().to_vec(),
    };
    for told in [row("a", "one"), row("b", "one"), row("a", "two")] {
        storage.set_backend_introduction(&told).await.unwrap();
    }
    storage.delete_backend_introduction(&row("b", "one").backend).await.unwrap();
    assert_eq!(storage.list_backend_introductions().await.unwrap(), [row("a", "two")]);
}

/// A database as a gateway left it that knew no migration after `version`.
async fn database_of(version: i64, path: &std::path::Path) -> sqlx::SqlitePool {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    let mut migrator = sqlx::migrate!();
    let known: Vec<_> = migrator.iter().filter(|migration| migration.version <= version).cloned().collect();
    migrator.migrations = known.into();
    migrator.run(&pool).await.unwrap();
    pool
}

#[tokio::test]
async fn keys_that_share_a_user_stay_as_they_are_and_are_told_of_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lockkeeper.sqlite3");
    let old = database_of(50, &path).await;
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
        let settings = Settings { master_key, ..Settings::new("https://gw.example") };
        OAuth::open(storage.clone(), clock, random, settings).await.unwrap()
    };
    let oauth = open().await;
    let users: Vec<String> = oauth.list_keys().await.unwrap().iter().map(|key| key.user.to_string()).collect();
    assert_eq!(users, ["owner", "owner", "ann", "ann", "owner"]);
    assert_eq!(oauth.take_shared_users().await.unwrap(), [(UserId::owner(), 2)]);
    assert_eq!(open().await.take_shared_users().await.unwrap(), [], "at the first start alone");
}

#[tokio::test]
async fn logins_outlive_the_update_that_drops_what_strangers_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lockkeeper.sqlite3");
    let before = database_of(50, &path).await;
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
    let known = storage.lookup_browser_session(&Digest::sha256("known")).await.unwrap().unwrap();
    assert_eq!((known.key.as_str(), known.created.as_millis(), known.used.as_millis()), ("k1", 5, 6));
    assert_eq!(known.data, r#"{"visit":{"key":"k1","seed":"s","forms":{"secret":"x","spent":["a"]}}}"#);
    assert_eq!(storage.lookup_browser_session(&Digest::sha256("stranger")).await.unwrap(), None);
}
