//! `lockkeeper healthcheck`: asks the gateway on the local data whether it is up. For containers, whose images have no
//! other HTTP client.

use super::gateway_client::GatewayClient;
use crate::cli::terminal::{failure::CommandFailure, process::ProcessContext};

/// `healthcheck`.
#[derive(Debug, clap::Args)]
pub struct HealthcheckArgs {}

impl HealthcheckArgs {
    /// Requests `/healthz`; prints nothing on success.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        GatewayClient::local(process)?.get("/healthz").await.map(drop)
    }
}
