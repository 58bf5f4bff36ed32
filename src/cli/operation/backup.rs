//! `lockkeeper backup`: makes a consistent copy of the database, also while the gateway runs.

use std::{fs, path::PathBuf};

use clap::Args;
use serde_json::json;

use crate::{
    cli::{
        arguments, store,
        terminal::{
            documents::{self, Became, FormatArgs},
            failure::CommandFailure,
            process::ProcessContext,
        },
    },
    config::{DataPlaces, DatabasePlace, MasterKeyPlace},
    storage::Storage,
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper backup /backups/lockkeeper.sqlite3

The gateway may keep running. Only your user can read the copy. The master key
is not in it, and without that key nobody can read its secrets: keep the key
too, in another place. To restore, stop the gateway and put both files back.";

/// `backup`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BackupArgs {
    /// The file to write; it must not exist
    file: PathBuf,
    #[command(flatten)]
    form: FormatArgs,
}

impl BackupArgs {
    /// Copies the database.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let places = arguments::data_places(process)?;
        store::agree_with_gateway(&places)?;
        let DataPlaces { database, master_key, .. } = &places;
        let path = match database {
            DatabasePlace::File(path) => path,
            DatabasePlace::Server(_) => {
                return Err(CommandFailure::usage("only a database in a file is copied")
                    .why(format!("the data is in {database}, a PostgreSQL database"))
                    .advise("use its own program: `pg_dump --format=custom --file FILE URL`"));
            }
        };
        store::exists(database)?;
        let target = process.folder.join(&self.file);
        let shown = target.display().to_string();
        if target.symlink_metadata().is_ok() {
            return Err(CommandFailure::failed(format!("{shown} already exists, and nothing was written"))
                .advise("name a file that does not exist yet"));
        }
        let failed = |why: String| CommandFailure::failed(format!("{shown} was not written")).why(why);
        let storage = Storage::open_as_is(path).await.map_err(|error| failed(error.to_string()))?;
        let copied = storage.copy_into_file(&target).await;
        storage.close().await;
        copied.map_err(|error| failed(error.to_string()))?;
        let size = fs::metadata(&target).map(|file| file.len()).unwrap_or_default();
        let (MasterKeyPlace::InFolder(key) | MasterKeyPlace::Named(key)) = master_key;
        let key = key.display().to_string();
        if self.form.json {
            let what = json!({ "file": shown, "bytes": size, "database": path, "master_key": key });
            process.output.json(&documents::change(Became::Written, what));
        } else {
            process.output.print(&format!("copied {} to {shown} ({size} bytes)", path.display()));
        }
        process.output.remark(&format!("file: {shown}"));
        process.output.remark(&format!("The master key is not in it: {key}. Keep that too, in another place."));
        Ok(())
    }
}
