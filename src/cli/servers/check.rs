//! `lockkeeper check`: checks the configuration and starts every server once.

use std::{collections::HashSet, time::Duration};

use serde_json::json;

use super::{long_names, probe::Probe};
use crate::{
    app::private_proxies,
    cli::{
        arguments,
        running::{containment, serve, status},
        store,
        terminal::{
            documents::FormatArgs,
            failure::CommandFailure,
            output::{Emphasis, Output, Style, number_of},
            process::{CommandPurpose, ProcessContext},
            table::{Cell, TextTable},
        },
    },
    config::{CommandLineOptions, Config},
    model::{
        BackendSpec,
        status::{BackendState, BackendStatus},
    },
    support::printable,
};

/// Interval at which the states of the starting servers are read.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// `check`.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// Also prints the names of tools, prompts and resources, tools that only read according to their server, and
    /// notices about protocol versions for the authors of servers
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    form: FormatArgs,
    #[command(flatten)]
    single: arguments::SingleServerArgs,
}

// === impl CheckArgs ===

impl CheckArgs {
    /// Relation to the running gateway: none for a server from the command line.
    pub(in crate::cli) fn purpose(&self) -> CommandPurpose {
        if self.single.given().is_some() { CommandPurpose::Unrelated } else { CommandPurpose::Asks }
    }

    /// Checks the configuration, starts the servers, and prints the result.
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
        let mut progress = CheckProgress::of(count);
        let looked = tokio::select! {
            backends = probe.look(&config.backends) => Some(backends),
            () = progress.watch(&probe, &mut process.output) => None,
            _ = tokio::signal::ctrl_c() => None,
        };
        progress.tell(looked.as_deref().unwrap_or_default(), &mut process.output);
        if looked.is_some() {
            if let Some(warning) = long_names::warning(&probe.tool_names(&*probe.gateway.merged()).await) {
                process.output.remark(&format!("warning: {warning}"));
            }
            for group in config.groups.iter() {
                process.output.remark(&probe.look_at_group(group).await);
            }
        }
        let details = match &looked {
            Some(_) if self.verbose => details(&probe, &config.backends, process.output.out).await,
            _ => String::new(),
        };
        probe.end().await;
        let backends = looked.ok_or_else(|| CommandFailure::failed("the check was interrupted"))?;
        if self.form.json {
            process.output.json(&json!({ "configuration": config.source.to_string(), "servers": backends }));
        } else {
            let style = process.output.out;
            let versions = if self.verbose { status::versions(&backends, style) } else { String::new() };
            process.output.print(&(render(&backends, style) + &details + &versions));
        }
        verdict(&backends)
    }
}

/// Shows progress to a person who watches: a line for each server that has started or failed.
struct CheckProgress {
    count: usize,
    told: HashSet<String>,
}

impl CheckProgress {
    fn of(count: usize) -> Self {
        Self { count, told: HashSet::new() }
    }

    /// Reports each server when its start ends. Never returns.
    async fn watch(&mut self, probe: &Probe, output: &mut Output) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        loop {
            ticks.tick().await;
            let mut ended = probe.supervisor.status();
            ended.retain(|one| !matches!(one.state, BackendState::Starting { .. }));
            self.tell(&ended, output);
        }
    }

    fn tell(&mut self, ended: &[BackendStatus], output: &mut Output) {
        for BackendStatus { id, state, .. } in ended {
            if output.is_watched && self.told.insert(id.clone()) {
                output.remark(&format!("{} of {}: {id} {}", self.told.len(), self.count, state.word()));
            }
        }
    }
}

/// Refuses `trusted_proxies = "private"` while keys are bound to networks, as the gateway does at start.
async fn refuse_bound_keys(config: &Config, process: &mut ProcessContext) -> Result<(), CommandFailure> {
    match private_proxies::look(config, store::now()).await {
        Ok(None) => Ok(()),
        Ok(Some(keys)) => Err(serve::bound_keys(&keys)),
        Err(error) => {
            let database = &config.database;
            process.output.remark(&format!(
                "warning: the keys in {database} cannot be read, so the gateway checks them at the start: {error}"
            ));
            Ok(())
        }
    }
}

/// The names of everything that each server lists, and which further tools it declares read-only.
async fn details(probe: &Probe, specs: &[BackendSpec], style: Style) -> String {
    let mut table = TextTable::new(&["SERVER", "KIND", "NAME"]);
    let mut said = String::new();
    for id in specs.iter().map(|spec| &spec.id) {
        for (kind, name) in probe.names(id).await {
            table.row([id.as_str(), kind, &name].map(Cell::from));
        }
        if let Some(sentence) = probe.gateway.further_read_only_tools(id) {
            said.extend(["\n", &style.paint(Emphasis::Strong, id.as_str()), ": ", &printable(&sentence), "\n"]);
        }
    }
    if table.is_empty() { said } else { format!("\n{}{said}", table.render(style)) }
}

/// The servers as a table, with the reasons for failures below.
fn render(backends: &[BackendStatus], style: Style) -> String {
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
    table.render(style) + &containment::render(backends, style) + &status::notes(backends, style)
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
