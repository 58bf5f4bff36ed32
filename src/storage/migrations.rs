//! The migrations, embedded in the program.

use sqlx::{
    SqlStr,
    migrate::{Migration, MigrationType, Migrator},
};

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

const POSTGRESQL: &[EmbeddedMigration] = files! {
    "migrations/postgres":
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

pub(super) fn sqlite() -> Migrator {
    migrator(SQLITE)
}

pub(super) fn postgresql() -> Migrator {
    migrator(POSTGRESQL)
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
        for (embedded, folder) in [(sqlite(), "migrations"), (postgresql(), "migrations/postgres")] {
            let files = Migrator::new(&*Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).await.unwrap();
            let all = |migrator: &Migrator| {
                let one = |one: &Migration| (one.version, one.description.clone(), one.checksum.clone(), one.no_tx);
                migrator.iter().map(one).collect::<Vec<_>>()
            };
            assert_eq!(all(&embedded), all(&files), "{folder}: the files and their list in src/storage/migrations.rs");
        }
    }
}
