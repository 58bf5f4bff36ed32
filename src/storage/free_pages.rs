//! The free pages of a file, left by deletions, which are returned to the disk.
//!
//! A file created before pages could be returned keeps them for new rows, until a person runs `VACUUM` once.

use sqlx::AssertSqlSafe;

use super::{
    database::{Database, Engine, StorageError},
    steps::Steps,
};

/// Free pages kept for later writes: 4 MB.
const KEPT: i64 = 1_000;

/// `PRAGMA auto_vacuum` of a file that can return pages.
const INCREMENTAL: i64 = 2;

/// Free pages of a file.
#[derive(Debug, Clone, Copy)]
pub struct FreePages<'a>(pub(super) &'a Database);

impl FreePages<'_> {
    /// Returns free pages to the disk, a few at a time, and leaves the database to others in between.
    pub async fn give_back(&self) -> Result<(), StorageError> {
        // a server does so by itself
        if self.0.engine != Engine::Sqlite || self.read("PRAGMA auto_vacuum").await? != INCREMENTAL {
            return Ok(());
        }
        let mut steps = Steps::begin(self.0.engine);
        while self.read("PRAGMA freelist_count").await? > KEPT {
            let some = format!("PRAGMA incremental_vacuum({})", steps.rows());
            sqlx::raw_sql(AssertSqlSafe(some)).execute(&self.0.pool).await?;
            steps.pause().await;
        }
        Ok(())
    }

    async fn read(&self, pragma: &'static str) -> Result<i64, StorageError> {
        Ok(sqlx::query_scalar(pragma).fetch_one(&self.0.pool).await?)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use crate::storage::Storage;

    const FULL: &str = "CREATE TABLE IF NOT EXISTS filling (bytes BLOB);
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
            INSERT INTO filling SELECT randomblob(4000) FROM n;
        DELETE FROM filling; PRAGMA wal_checkpoint(TRUNCATE)";

    async fn megabytes_after_a_large_deletion(path: &Path) -> (u64, u64) {
        let storage = Storage::open(path).await.unwrap();
        storage.poison(FULL).await;
        let size = || fs::metadata(path).unwrap().len() / 1_000_000;
        let before = size();
        storage.free_pages().give_back().await.unwrap();
        storage.poison("PRAGMA wal_checkpoint(TRUNCATE)").await;
        let after = size();
        storage.close().await;
        (before, after)
    }

    #[tokio::test]
    async fn a_new_file_shrinks_and_one_of_an_earlier_version_after_a_vacuum() {
        let folder = tempfile::tempdir().unwrap();
        let (before, after) = megabytes_after_a_large_deletion(&folder.path().join("new.sqlite3")).await;
        assert!(before >= 20 && after <= 6, "{before} MB, then {after}");
        let earlier = folder.path().join("earlier.sqlite3");
        let storage = Storage::open(&earlier).await.unwrap();
        storage.poison("PRAGMA auto_vacuum = NONE; VACUUM").await;
        storage.close().await;
        let (before, after) = megabytes_after_a_large_deletion(&earlier).await;
        assert_eq!(before, after);
        // what docs/operations.md says
        let storage = Storage::open(&earlier).await.unwrap();
        storage.poison("PRAGMA auto_vacuum = INCREMENTAL; VACUUM").await;
        storage.close().await;
        let (before, after) = megabytes_after_a_large_deletion(&earlier).await;
        assert!(before >= 20 && after <= 6, "{before} MB, then {after}");
    }
}
