//! `lockkeeper restart`: starts a server of the running gateway anew.

use clap::Args;
use http::Method;
use serde_json::json;

use super::{
    arguments::FormatArgs,
    documents::{self, Became},
    failure::CommandFailure,
    gateway_client::GatewayClient,
    operator,
    process::ProcessContext,
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
    /// Has the gateway end the processes and connections of the server, and start them.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let gateway = GatewayClient::local(process)?;
        let by = operator::name(process);
        let document = gateway.operate(Method::POST, &["servers", &self.server, "restart"], &[("by", &by)]).await?;
        if self.form.json {
            let what = json!({ "id": document["server"], "status": document["now"] });
            process.output.json(&documents::change(Became::Restarted, what));
            return Ok(());
        }
        let name = document["server"].as_str().unwrap_or(&self.server);
        let state = document["now"]["state"].as_str().unwrap_or("unknown");
        process.output.print(&format!("started `{name}` anew: {state}"));
        if let Some(reason) = document["now"]["reason"].as_str() {
            process.output.remark(reason);
        }
        if state != "ready" {
            process.output.remark("`lockkeeper status` says how it goes on");
        }
        Ok(())
    }
}
