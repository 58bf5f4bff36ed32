//! `lockkeeper restart`: restarts a server of the running gateway.

use clap::Args;
use http::Method;
use serde_json::json;

use super::gateway_client::GatewayClient;
use crate::{
    cli::terminal::{
        documents::{self, Became, FormatArgs},
        failure::CommandFailure,
        process::ProcessContext,
    },
    support::printable_text,
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper restart files
  lockkeeper restart files --json";

/// `restart`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RestartArgs {
    /// The name of the server
    server: String,
    #[command(flatten)]
    form: FormatArgs,
}

impl RestartArgs {
    /// Has the gateway end the server's processes and connections, and start it again.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let gateway = GatewayClient::local(process)?;
        let by = process.operator();
        let document = gateway.operate(Method::POST, &["servers", &self.server, "restart"], &[("by", &by)]).await?;
        let name = document["server"].as_str().unwrap_or(&self.server);
        let state = document["now"]["state"].as_str().unwrap_or("unknown");
        if self.form.json {
            let what = json!({ "id": document["server"], "status": document["now"] });
            process.output.json(&documents::change(Became::Restarted, what));
        } else {
            process.output.print(&format!("restarted `{name}`: {state}"));
        }
        match document["now"]["reason"].as_str() {
            Some(reason) if state == "failed" => Err(CommandFailure::failed(format!("`{name}` did not start"))
                .why(printable_text(reason))
                .advise(format!("`lockkeeper logs {name}` shows what it printed"))),
            _ if state == "ready" => Ok(()),
            _ => {
                process.output.remark("`lockkeeper status` shows what happens next");
                Ok(())
            }
        }
    }
}
