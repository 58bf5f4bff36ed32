//! `lockkeeper logs`: prints the lines that a server's programs printed, as far as the running gateway keeps them.

use clap::Args;
use http::Method;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::gateway_client::GatewayClient;
use crate::{
    cli::{
        arguments::values,
        terminal::{
            failure::CommandFailure,
            output::{Emphasis, Style},
            process::ProcessContext,
        },
    },
    model::status::KeptLine,
    support::printable,
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper logs files
  lockkeeper logs files --lines 20 --follow";

/// `logs`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LogsArgs {
    /// The name of the server
    server: String,
    /// Prints the newest lines, at most this many
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 1_000, value_parser = values::number::<usize>)]
    lines: usize,
    /// Keeps printing lines as they come
    #[arg(long, short)]
    follow: bool,
    /// Prints each line as a line of JSON
    #[arg(long)]
    json: bool,
}

impl LogsArgs {
    /// Prints the lines.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let gateway = GatewayClient::local(process)?;
        let by = process.operator();
        let mut lines = self.ask(&gateway, &[("by", &by)]).await?;
        lines.drain(..lines.len().saturating_sub(self.lines));
        if lines.is_empty() && !self.follow {
            process
                .output
                .remark("Nothing is kept: only programs print lines, and the gateway keeps them while it runs.");
        }
        let mut last = 0;
        loop {
            for line in &lines {
                let text = if self.json { json!(line).to_string() } else { shown(line, process.output.out) };
                // the reader is gone
                if process.output.try_print(&text).is_err() {
                    return Ok(());
                }
                last = line.number;
            }
            if !self.follow {
                return Ok(());
            }
            lines = self.ask(&gateway, &[("after", &last.to_string())]).await?;
        }
    }

    async fn ask(&self, gateway: &GatewayClient, parameters: &[(&str, &str)]) -> Result<Vec<KeptLine>, CommandFailure> {
        let document: Value = gateway.operate(Method::GET, &["servers", &self.server, "output"], parameters).await?;
        Vec::deserialize(&document)
            .map_err(|error| CommandFailure::failed("the gateway has another version").why(error))
    }
}

/// A line for people.
fn shown(KeptLine { at, user, line, .. }: &KeptLine, style: Style) -> String {
    let user = user.as_ref().map(|user| format!("{user}  ")).unwrap_or_default();
    format!("{}  {}", style.paint(Emphasis::Faint, at), printable(&format!("{user}{line}")))
}
