//! The `storage` room, from outside.

use lockkeeper::storage::Storage;

#[tokio::test]
async fn processes_that_start_at_the_same_time_share_one_fresh_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lockkeeper.sqlite3");
    let opened = futures_util::future::join_all((0..8).map(|_| Storage::open(&path))).await;
    for storage in opened {
        storage.unwrap().close().await;
    }
}
