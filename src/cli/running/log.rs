//! `lockkeeper log`: changes the log filter of the running gateway for a while.

use std::time::Duration;

use clap::Args;
use http::Method;
use serde_json::json;

use super::gateway_client::GatewayClient;
use crate::{
    app::MAX_RAISED,
    cli::terminal::{
        documents::{self, Became, FormatArgs},
        failure::CommandFailure,
        process::ProcessContext,
    },
    config::{log, units},
};

/// The word for the filter of the configuration.
const CONFIGURED: &str = "configured";

const EXAMPLES: &str = "\
Examples:
  lockkeeper log debug --for 10m
  lockkeeper log info,lockkeeper::backend=debug
  lockkeeper log configured                  ends it early";

/// `log`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LogArgs {
    /// A level, directives as with `--log`, or `configured` for those of the configuration
    #[arg(value_parser = filter)]
    filter: String,
    /// The time until the log is as configured again; 24 hours at most
    #[arg(long = "for", value_name = "DURATION", default_value = "10m", value_parser = time)]
    time: Duration,
    #[command(flatten)]
    form: FormatArgs,
}

fn time(text: &str) -> Result<Duration, String> {
    let time = units::parse_duration(text)?;
    if time < Duration::from_secs(1) || time > MAX_RAISED {
        return Err("a log is changed for 1s to 24h; for longer, set `[log]` in the configuration".to_owned());
    }
    Ok(time)
}

fn filter(text: &str) -> Result<String, String> {
    if text == CONFIGURED { Ok(text.to_owned()) } else { log::filter(text) }
}

impl LogArgs {
    /// Has the gateway change its log.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let gateway = GatewayClient::local(process)?;
        let (by, seconds) = (process.operator(), self.time.as_secs().to_string());
        let mut parameters = vec![("by", by.as_str())];
        let is_changed = self.filter != CONFIGURED;
        if is_changed {
            parameters.extend([("filter", self.filter.as_str()), ("seconds", seconds.as_str())]);
        }
        let document = gateway.operate(Method::POST, &["log"], &parameters).await?;
        if self.form.json {
            let became = if document["changed"] == false { Became::Unchanged } else { Became::Changed };
            let what = json!({ "filter": document["filter"], "seconds": document["seconds"] });
            process.output.json(&documents::change(became, what));
        } else if is_changed {
            process.output.print(&format!("the log filter is `{}` for {seconds} s", self.filter));
        } else {
            process.output.print("the log is as configured");
        }
        Ok(())
    }
}
