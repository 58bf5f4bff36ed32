//! `lockkeeper sessions`: lists and ends the client sessions of the running gateway.

use clap::{Args, Subcommand};
use http::Method;

use crate::cli::{
    running::{
        gateway_client::{GatewayArgs, GatewayClient},
        status,
    },
    terminal::{
        documents::{self, Became, FormatArgs},
        failure::CommandFailure,
        process::{CommandPurpose, ProcessContext},
    },
};

/// Subcommands of `sessions`.
#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// Lists the open sessions
    List(ListSessionsArgs),
    /// Ends a session: its calls and streams end, and its client has to open another
    End(EndSessionArgs),
}

/// `sessions list`.
#[derive(Debug, Args)]
pub struct ListSessionsArgs {
    #[command(flatten)]
    form: FormatArgs,
    #[command(flatten)]
    target: GatewayArgs,
}

/// `sessions end`.
#[derive(Debug, Args)]
pub struct EndSessionArgs {
    /// The id, as `sessions list` shows it
    #[arg(allow_hyphen_values = true)]
    id: String,
    #[command(flatten)]
    form: FormatArgs,
}

impl SessionsCommand {
    /// Relation to the running gateway.
    pub(in crate::cli) fn purpose(&self) -> CommandPurpose {
        match self {
            Self::List(list) => list.target.purpose(),
            Self::End(_) => CommandPurpose::ChangesData,
        }
    }

    /// Runs the subcommand.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        match self {
            Self::List(list) => list.run(process).await,
            Self::End(end) => end.run(process).await,
        }
    }
}

impl ListSessionsArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let (status, document) = self.target.find(process)?.status().await?;
        if self.form.json {
            let sessions = document["sessions"].as_array().cloned().unwrap_or_default();
            process.output.json(&documents::list("sessions", sessions));
        } else {
            let text = status::sessions(&status.sessions, process.output.out);
            process.output.print(&text);
        }
        Ok(())
    }
}

impl EndSessionArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let gateway = GatewayClient::local(process)?;
        let by = process.operator();
        let document = gateway.operate(Method::POST, &["sessions", &self.id, "end"], &[("by", &by)]).await?;
        if self.form.json {
            process.output.json(&documents::change(Became::Ended, document["ended"].clone()));
            return Ok(());
        }
        let ended = |member: &str| document["ended"][member].as_str().map_or("-", |text| text).to_owned();
        let (id, user, client) = (ended("id"), ended("user"), ended("client"));
        process.output.print(&format!("ended the session {id} of {user} ({client})"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::EndSessionArgs;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        end: EndSessionArgs,
    }

    #[test]
    fn an_id_may_begin_like_an_option() {
        for id in ["-MmSEFCU", "--xSEFCU"] {
            assert_eq!(Line::try_parse_from(["end", id]).unwrap().end.id, id);
        }
    }
}
