//! `lockkeeper check`: is the configuration right.

use super::{
    Failure, Process,
    arguments::{self, Configuration},
};
use crate::config::{Config, Given, Single};

/// `check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    configuration: Configuration,
    /// Checks this Streamable HTTP server alone
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// Checks this program alone
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Args {
    /// Checks and prints.
    pub async fn run(self, process: &mut Process) -> Result<(), Failure> {
        let config = self.config(process)?;
        process.output.remark(&format!("configuration: {}", config.source));
        std::future::ready(Ok(())).await
    }

    fn config(&self, process: &Process) -> Result<Config, Failure> {
        let single = match (&self.url, self.command.is_empty()) {
            (Some(url), _) => Some(Single::Url(url.clone())),
            (None, false) => Some(Single::Command(self.command.clone())),
            (None, true) => None,
        };
        arguments::load(&Given { single, ..self.configuration.given() }, process)
    }
}
