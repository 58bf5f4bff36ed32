//! `lockkeeper stdio`: runs the gateway for one local client on standard input and output, as clients start it. Only
//! messages go to standard output.

mod standard_streams;

use std::{path::PathBuf, time::Duration};

use tokio::time::timeout;

use self::standard_streams::StandardOutput;
use super::serve::{install, reap_orphans, shutdown_signal};
use crate::{
    app::StdioApp,
    cli::{
        arguments,
        terminal::{failure::CommandFailure, process::ProcessContext},
    },
    config::{self, CommandLineOptions, Config, files},
    telemetry::Telemetry,
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper stdio         lockkeeper.toml in this folder, or a demonstration
  lockkeeper stdio --config ~/lockkeeper.toml   several servers as one
  lockkeeper stdio -- npx -y @modelcontextprotocol/server-everything

In a client's configuration, with full paths:
  { \"mcpServers\": { \"lockkeeper\": {
      \"command\": \"/home/ada/.cargo/bin/lockkeeper\",
      \"args\": [\"stdio\", \"--config\", \"/home/ada/lockkeeper.toml\"] } } }

The client needs no login: it is the program that started this one. Nothing
listens on the network. The data folder remembers what the servers are, so that
the next start is quicker; nothing else is written. Logs go to standard error.
Ends when the client closes standard input, and on SIGTERM or SIGINT. For a
remote server that asks for a login: `lockkeeper connect`.

Exit codes: 0 the client has ended, 1 failed, 2 wrong usage or configuration.";

/// Maximum time for the client to read the last messages.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// `stdio`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct StdioArgs {
    #[command(flatten)]
    single: arguments::SingleServerArgs,
}

// === impl StdioArgs ===

impl StdioArgs {
    /// Serves the client until it closes standard input, or a signal arrives.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let config = self.config(process)?;
        let telemetry = install(&config.log, process)?;
        for warning in arguments::warnings(&config) {
            tracing::warn!("{warning}");
        }
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            configuration = %config.source,
            servers = config.backends.len(),
            "serving one client on standard input and output"
        );
        let places = config::data_places(&self.given(process), &process.environment, &process.folder);
        let records = places.ok().map(|places| files::local_records(&places.folder));
        serve(&config, records, telemetry).await
    }

    fn given(&self, process: &ProcessContext) -> CommandLineOptions {
        CommandLineOptions { single: self.single.given(), ..process.options.given() }
    }

    fn config(&self, process: &ProcessContext) -> Result<Config, CommandFailure> {
        let given = self.given(process);
        // without a home folder there is no data folder, and none is needed
        let places = config::data_folder(&given, &process.environment, &process.folder);
        let data_dir = Some(places.unwrap_or_else(|_| process.folder.clone()));
        arguments::load(&CommandLineOptions { data_dir, ..given }, process)
    }
}

/// Serves the client on standard input and output until it closes either stream, or a signal arrives. `records` is the
/// folder that remembers what the servers are.
pub(super) async fn serve(
    config: &Config,
    records: Option<PathBuf>,
    telemetry: Telemetry,
) -> Result<(), CommandFailure> {
    let cannot = |error: anyhow::Error| CommandFailure::failed("the gateway cannot run").why(format!("{error:#}"));
    let shutdown = shutdown_signal();
    let app = Box::pin(StdioApp::build(config, records, telemetry)).await.map_err(cannot)?;
    let input = standard_streams::input().map_err(|error| cannot(error.into()))?;
    let StandardOutput { pipe, mut ended } = standard_streams::output().map_err(|error| cannot(error.into()))?;
    let stop = async {
        tokio::select! {
            () = shutdown => {}
            // standard output is closed
            _ = &mut ended => {}
        }
    };
    tokio::select! {
        () = app.serve(input, pipe, stop) => {}
        never = reap_orphans() => match never {},
    }
    if !ended.is_terminated() {
        let _ = timeout(OUTPUT_TIMEOUT, ended).await;
    }
    Ok(())
}
