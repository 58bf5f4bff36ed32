//! `lockkeeper check`: checks the configuration and starts every server once. Serves no client.

use serde_json::json;

use super::{
    arguments::{self, FormatArgs},
    containment,
    failure::CommandFailure,
    long_names,
    output::{Style, number_of},
    probe::Probe,
    process::{CommandPurpose, ProcessContext},
    serve, status, store,
    table::{Cell, TextTable},
};
use crate::{
    app::private_proxies,
    config::{CommandLineOptions, Config},
    model::status::{BackendState, BackendStatus},
};

/// `check`.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    #[command(flatten)]
    form: FormatArgs,
    #[command(flatten)]
    single: arguments::SingleServerArgs,
}

// === impl CheckArgs ===

impl CheckArgs {
    /// The relation to the gateway that runs here: none for one server from the command line.
    pub(super) fn purpose(&self) -> CommandPurpose {
        if self.single.given().is_some() { CommandPurpose::Unrelated } else { CommandPurpose::Asks }
    }

    /// Checks and prints.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let given = CommandLineOptions { single: self.single.given(), ..process.options.given() };
        let config = arguments::load(&given, process)?;
        if given.log.is_some() {
            serve::install(&config.log, process)?;
        }
        process.output.remark(&format!("configuration: {}", config.source));
        for warning in arguments::warnings(&config) {
            process.output.remark(&format!("warning: {warning}"));
        }
        for notice in config.former_names() {
            process.output.remark(&format!("notice: {notice}"));
        }
        refuse_bound_keys(&config, process).await?;
        let (count, longest) = (config.backends.len(), config.backends.iter().map(|spec| spec.start_timeout).max());
        if let Some(longest) = longest {
            let servers = number_of(count, "server");
            process.output.remark(&format!("starting {servers}: {} s at most", longest.as_secs()));
        }
        let probe = Probe::start(&config)?;
        let looked = tokio::select! {
            backends = probe.look(&config.backends) => Some(backends),
            _ = tokio::signal::ctrl_c() => None,
        };
        if looked.is_some() {
            if let Some(warning) = long_names::warning(&probe.tool_names(&*probe.gateway.merged()).await) {
                process.output.remark(&format!("warning: {warning}"));
            }
            for group in config.groups.iter() {
                process.output.remark(&probe.look_at_group(group).await);
            }
        }
        probe.end().await;
        let backends = looked.ok_or_else(|| CommandFailure::failed("the check was interrupted"))?;
        if self.form.json {
            process.output.json(&json!({ "configuration": config.source.to_string(), "servers": backends }));
        } else {
            let text = render(&backends, process.output.out);
            process.output.print(&text);
        }
        verdict(&backends)
    }
}

/// Refuses `trusted_proxies = "private"` while keys are bound to networks, as the start does.
async fn refuse_bound_keys(config: &Config, process: &mut ProcessContext) -> Result<(), CommandFailure> {
    match private_proxies::look(config, store::now()).await {
        Ok(None) => Ok(()),
        Ok(Some(keys)) => Err(serve::bound_keys(&keys)),
        Err(error) => {
            let database = &config.database;
            process
                .output
                .remark(&format!("warning: the keys in {database} cannot be read, so the start decides: {error}"));
            Ok(())
        }
    }
}

/// The servers as a table, with the reasons of failed ones below.
pub(super) fn render(backends: &[BackendStatus], style: Style) -> String {
    let mut table =
        TextTable::new(&["SERVER", "TRANSPORT", "VERSION", "IMPLEMENTATION", "TOOLS", "PROMPTS", "RESOURCES", "STATE"]);
    for backend in backends {
        let named = [
            &backend.id,
            &backend.transport,
            backend.protocol_version.as_deref().unwrap_or("-"),
            backend.server.as_deref().unwrap_or("-"),
        ];
        let counts = [backend.counts.tools, backend.counts.prompts, backend.counts.resources];
        let cells = named.map(Cell::from).into_iter().chain(counts.map(Cell::from));
        table.row(cells.chain([status::state(backend)]));
    }
    table.render(style)
        + &containment::render(backends, style)
        + &status::notes(backends, style)
        + &status::versions(backends, style)
}

/// Fails if any server is not ready.
fn verdict(backends: &[BackendStatus]) -> Result<(), CommandFailure> {
    let sick: Vec<&str> =
        backends.iter().filter(|one| one.state != BackendState::Ready).map(|one| one.id.as_str()).collect();
    if sick.is_empty() {
        return Ok(());
    }
    let what = format!("{} of {} servers failed: {}", sick.len(), backends.len(), sick.join(", "));
    Err(CommandFailure::failed(what).advise("see the reasons above; `lockkeeper serve` serves the others"))
}
