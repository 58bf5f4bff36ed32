//! `lockkeeper healthcheck`: whether the gateway that runs on the data here answers. For containers, whose images have no
//! other program that could ask.

use super::{arguments::Data, ask::Gateway, failure::Failure, process::Process};

/// `healthcheck`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    data: Data,
}

impl Args {
    /// Asks `/healthz`; prints nothing where it answers.
    pub async fn run(self, process: &mut Process) -> Result<(), Failure> {
        Gateway::local(&self.data, process)?.get("/healthz").await.map(drop)
    }
}
