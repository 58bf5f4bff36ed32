//! The `storage` room, from outside.

use lockkeeper::{
    model::{BackendId, Era, KnownEra},
    storage::{IntroductionRow, Storage},
    support::{Digest, Timestamp},
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
