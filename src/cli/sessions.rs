//! `lockkeeper sessions`: the client sessions of the running gateway.

use clap::Subcommand;

use super::{
    arguments::FormatArgs,
    failure::CommandFailure,
    gateway_client::GatewayArgs,
    process::{CommandPurpose, ProcessContext},
    status,
};

/// Subcommands of `sessions`.
#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// Lists the open sessions
    List(ListSessionsArgs),
}

/// `sessions list`.
#[derive(Debug, clap::Args)]
pub struct ListSessionsArgs {
    #[command(flatten)]
    form: FormatArgs,
    #[command(flatten)]
    target: GatewayArgs,
}

impl SessionsCommand {
    /// The relation to the gateway that runs here.
    pub(super) fn purpose(&self) -> CommandPurpose {
        let Self::List(list) = self;
        list.target.purpose()
    }

    /// Runs the subcommand.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let Self::List(list) = self;
        let (status, document) = list.target.find(process)?.status().await?;
        if list.form.json {
            process.output.json(&document["sessions"]);
        } else {
            let text = status::sessions(&status.sessions, process.output.out);
            process.output.print(&text);
        }
        Ok(())
    }
}
