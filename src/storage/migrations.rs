//! The schema of the database: a baseline for each engine, the migrations after it, and those that led to it. They are
//! embedded in the program.

use sqlx::{
    SqlStr,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
};

use super::database::{Database, Engine, StorageError};

/// Name of a file and its text.
type EmbeddedMigration = (&'static str, &'static str);

/// The files of a folder, each by its name without `.sql`.
macro_rules! files {
    ($folder:literal: $($name:literal)+) => {
        &[$(($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $folder, "/", $name, ".sql")))),+]
    };
}

const SQLITE: &[EmbeddedMigration] = files! {
    "migrations":
    "0300_baseline"
};

const POSTGRESQL: &[EmbeddedMigration] = files! {
    "migrations/postgres":
    "0300_baseline"
};

/// The version of both baselines.
const BASELINE: i64 = 300;

/// The migrations whose result is the baseline. They bring up databases from before it.
const SQLITE_BEFORE: &[EmbeddedMigration] = files! {
    "migrations/before":
    "0001_gateway"
    "0002_authorization"
    "0010_mcp_sessions"
    "0020_browser_sessions"
    "0030_session_subscriptions"
    "0040_backend_eras"
    "0050_backend_introductions"
    "0060_login"
    "0070_registration_limits"
    "0080_users"
    "0090_signing_keys"
    "0100_client_documents"
    "0101_client_expiry"
    "0110_key_kinds"
    "0111_confidential_clients"
    "0112_device_authorizations"
    "0120_vault"
    "0130_audit_events"
    "0131_disabled_users"
    "0150_provider_logins"
    "0159_user_id"
    "0160_client_consent"
    "0161_key_networks"
    "0162_initial_access_tokens"
    "0170_ended_user_secrets"
    "0171_client_key_urls"
    "0180_device_documents"
    "0190_replicas"
    "0200_limit_counts"
    "0210_replica_home"
    "0220_task_owners"
    "0230_connections_of_clients"
    "0240_replica_clocks"
    "0250_rows_found_by_index"
    "0255_form_outcomes"
    "0256_client_secrets"
    "0270_invitations"
    "0275_certificates"
    "0280_server_lists"
};

const POSTGRESQL_BEFORE: &[EmbeddedMigration] = files! {
    "migrations/before/postgres":
    "0159_baseline"
    "0160_client_consent"
    "0161_key_networks"
    "0162_initial_access_tokens"
    "0170_ended_user_secrets"
    "0171_client_key_urls"
    "0180_device_documents"
    "0190_replicas"
    "0200_limit_counts"
    "0210_replica_home"
    "0220_task_owners"
    "0230_connections_of_clients"
    "0240_replica_clocks"
    "0250_rows_found_by_index"
    "0255_form_outcomes"
    "0256_client_secrets"
    "0270_invitations"
    "0275_certificates"
    "0280_server_lists"
};

// === impl Database ===

impl Database {
    /// Brings the schema up to date.
    pub(super) async fn migrate(&self) -> Result<(), StorageError> {
        let migrator = migrator(match self.engine {
            Engine::Sqlite => SQLITE,
            Engine::PostgreSql => POSTGRESQL,
        });
        if self.is_from_before_the_baseline().await? {
            self.reach_the_baseline(&migrator).await?;
        }
        migrator.run(&self.pool).await.map_err(|error| refused(error, &migrator))
    }

    async fn is_from_before_the_baseline(&self) -> Result<bool, StorageError> {
        let tables = match self.engine {
            Engine::Sqlite => "SELECT count(*) FROM sqlite_schema WHERE name = '_sqlx_migrations'",
            Engine::PostgreSql => "SELECT count(*) FROM pg_class WHERE oid = to_regclass('_sqlx_migrations')",
        };
        if sqlx::query_scalar::<_, i64>(tables).fetch_one(&self.pool).await? == 0 {
            return Ok(false);
        }
        let earlier = "SELECT count(*) FROM _sqlx_migrations WHERE version < $1";
        Ok(sqlx::query_scalar::<_, i64>(earlier).bind(BASELINE).fetch_one(&self.pool).await? > 0)
    }

    /// Runs what is missing up to the baseline. If the database then has exactly the migrations that led there, with
    /// their checksums, the baseline's row replaces theirs.
    async fn reach_the_baseline(&self, migrator: &Migrator) -> Result<(), StorageError> {
        let before = self::migrator(match self.engine {
            Engine::Sqlite => SQLITE_BEFORE,
            Engine::PostgreSql => POSTGRESQL_BEFORE,
        });
        match before.run(&self.pool).await {
            // another process was quicker
            Err(MigrateError::VersionMissing(BASELINE)) => return Ok(()),
            ran => ran.map_err(|error| refused(error, migrator))?,
        }
        let mut change = self.batch().await?;
        if self.engine == Engine::PostgreSql {
            sqlx::query("LOCK TABLE _sqlx_migrations IN SHARE ROW EXCLUSIVE MODE").execute(&mut *change).await?;
        }
        let rows = "SELECT version, checksum FROM _sqlx_migrations ORDER BY version";
        let rows: Vec<(i64, Vec<u8>)> = sqlx::query_as(rows).fetch_all(&mut *change).await?;
        let led_here = before.iter().map(|one| (one.version, &*one.checksum));
        if !rows.iter().map(|(version, checksum)| (*version, checksum.as_slice())).eq(led_here) {
            return Ok(());
        }
        sqlx::query("DELETE FROM _sqlx_migrations").execute(&mut *change).await?;
        for baseline in migrator.iter().filter(|one| one.version == BASELINE) {
            sqlx::query(
                "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 VALUES ($1, $2, TRUE, $3, 0)",
            )
            .bind(BASELINE)
            .bind(&*baseline.description)
            .bind(&*baseline.checksum)
            .execute(&mut *change)
            .await?;
        }
        Ok(change.commit().await?)
    }
}

/// Why the schema could not be brought up to date.
fn refused(error: MigrateError, migrator: &Migrator) -> StorageError {
    match error {
        MigrateError::VersionMissing(found) => {
            StorageError::Newer { found, known: migrator.iter().map(|one| one.version).max().unwrap_or(0) }
        }
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            StorageError::of_disk(&error).unwrap_or_else(|| MigrateError::Execute(error).into())
        }
        error => error.into(),
    }
}

fn migrator(files: &[EmbeddedMigration]) -> Migrator {
    let migration = |&(name, text): &EmbeddedMigration| {
        let (version, description) = name.split_once('_')?;
        let (version, description) = (version.parse().ok()?, description.replace('_', " ").into());
        Some(Migration::new(version, description, MigrationType::Simple, SqlStr::from_static(text), false))
    };
    Migrator::with_migrations(files.iter().filter_map(migration).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[tokio::test]
    async fn every_file_is_embedded_as_it_is() {
        for (embedded, folder) in [
            (SQLITE, "migrations"),
            (POSTGRESQL, "migrations/postgres"),
            (SQLITE_BEFORE, "migrations/before"),
            (POSTGRESQL_BEFORE, "migrations/before/postgres"),
        ] {
            let files = Migrator::new(&*Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).await.unwrap();
            let all = |migrator: &Migrator| {
                let one = |one: &Migration| (one.version, one.description.clone(), one.checksum.clone(), one.no_tx);
                migrator.iter().map(one).collect::<Vec<_>>()
            };
            let embedded = all(&migrator(embedded));
            assert_eq!(embedded, all(&files), "{folder}: the files and their list in src/storage/migrations.rs");
        }
    }
}
