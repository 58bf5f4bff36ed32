//! `lockkeeper sessions`: the client sessions of the running gateway.

use clap::Subcommand;

use super::{arguments::Form, ask::Target, failure::Failure, process::Process, status};

/// What can be done with sessions.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists the sessions that are open
    List(List),
}

/// `sessions list`.
#[derive(Debug, clap::Args)]
pub struct List {
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    target: Target,
}

impl Command {
    /// Does it.
    pub async fn run(self, process: &mut Process) -> Result<(), Failure> {
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
