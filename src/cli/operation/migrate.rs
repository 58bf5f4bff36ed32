//! `lockkeeper migrate`: copies the data into another database. The gateway must not run.

use clap::Args;
use serde_json::json;

use crate::{
    app::{DataLock, DataLockError, database},
    cli::{
        arguments, store,
        terminal::{
            documents::{Became, FormatArgs},
            ending,
            failure::CommandFailure,
            process::ProcessContext,
        },
    },
    config::{DataPlaces, DatabasePlace},
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper migrate --to postgres://lockkeeper@db.example/lockkeeper
  LOCKKEEPER_DATABASE=postgres://lockkeeper:PASSWORD@db.example/lockkeeper \\
      lockkeeper migrate --from sqlite:/var/lib/lockkeeper/lockkeeper.sqlite3
  lockkeeper migrate --from postgres://lockkeeper@db.example/lockkeeper \\
      --to sqlite:copy.sqlite3

Stop the gateway first. The source is not changed; the target must be empty.
Keys, tokens and sessions stay valid: start the gateway with `database` set to
the target, and the same data folder, which has the master key.";

/// Arguments of `migrate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MigrateArgs {
    /// The database to copy: `sqlite:PATH` or `postgres://…`; without it the file in the data folder
    #[arg(long, value_name = "DATABASE", value_parser = DatabasePlace::parse)]
    from: Option<DatabasePlace>,
    /// The empty database to fill; without it the configured one
    #[arg(long, value_name = "DATABASE", value_parser = DatabasePlace::parse)]
    to: Option<DatabasePlace>,
    #[command(flatten)]
    form: FormatArgs,
}

impl MigrateArgs {
    /// Copies everything.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let DataPlaces { folder, database, .. } = arguments::data_places(process)?;
        let is_named = self.from.is_some();
        let in_folder = |place: DatabasePlace| place.from_folder(&process.folder);
        let from = self.from.map_or_else(|| DatabasePlace::in_folder(&folder), in_folder);
        let to = self.to.map_or(database, in_folder);
        if from == to {
            return Err(CommandFailure::usage("the data would be copied onto itself").advise("set `--to DATABASE`"));
        }
        if let (true, DatabasePlace::File(path)) = (is_named, &from)
            && !path.exists()
        {
            return Err(CommandFailure::failed(format!("there is no database {}", path.display()))
                .advise("name the one to copy: `--from sqlite:PATH`"));
        }
        store::exists(&from)?;
        let _lock = DataLock::take(&folder).map_err(|error| match error {
            DataLockError::InUse { .. } => {
                CommandFailure::failed("nothing was copied").why(error).advise("stop the gateway first")
            }
            DataLockError::Unusable(..) => CommandFailure::failed("nothing was copied").why(error),
        })?;
        let source = open(&from).await?;
        let target = open(&to).await?;
        let copied = source.copy_to(&target).await;
        source.close().await;
        target.close().await;
        let failed = CommandFailure::failed(format!("nothing was copied into {to}"));
        match copied {
            Ok(Some(rows)) => {
                let sentence = format!("{rows} rows are copied from {from} into {to}");
                let what = json!({ "from": from.to_string(), "to": to.to_string(), "rows": rows });
                ending::tell(self.form, what, Became::Copied, &sentence, process);
                Ok(())
            }
            Ok(None) => Err(failed.why("it is not empty").advise("name an empty database")),
            Err(error) => Err(failed.why(error)),
        }
    }
}

async fn open(place: &DatabasePlace) -> Result<crate::storage::Storage, CommandFailure> {
    let cannot = |error| CommandFailure::failed(format!("the database {place} cannot be opened")).why(error);
    database::open(place).await.map_err(cannot)
}
