//! `lockkeeper tools`: lists and calls the tools of the configured servers, or of a running gateway.

use std::{path::PathBuf, sync::Arc};

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::probe::{Probe, call};
use crate::{
    cli::{
        arguments::{self, SingleServerArgs},
        running::{gateway_client, serve},
        terminal::{
            documents::FormatArgs,
            failure::CommandFailure,
            process::{CommandPurpose, ProcessContext},
            table::{Cell, TextTable},
        },
    },
    config::{CommandLineOptions, Config, PublicUrl, SingleServer},
    mcp::{Method, Outcome, Server},
    model::{
        BackendSpec, Groups, Naming, TransportSpec,
        status::{BackendState, BackendStatus},
    },
    support::{Secret, printable, printable_text},
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper tools                                    of the configured servers
  lockkeeper tools list -- npx -y @modelcontextprotocol/server-everything
  lockkeeper tools call everything__echo --arg message=hello
  lockkeeper tools call everything__get-sum --arg a=1 --arg b=2
  lockkeeper tools list --gateway https://mcp.example.com   with an API key";

/// Maximum length of a description in the list, in characters.
const LONGEST: usize = 100;

/// `tools`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct ToolsArgs {
    #[command(subcommand)]
    command: Option<ToolsCommand>,
    #[command(flatten)]
    list: ListToolsArgs,
}

/// Subcommands of `tools`.
#[derive(Debug, Subcommand)]
pub enum ToolsCommand {
    /// Lists the tools
    List(ListToolsArgs),
    /// Calls a tool, and prints its result
    Call(CallToolArgs),
}

/// `tools list`.
#[derive(Debug, Default, Args)]
pub struct ListToolsArgs {
    #[command(flatten)]
    of: ServersArgs,
    #[command(flatten)]
    form: FormatArgs,
}

/// `tools call`.
#[derive(Debug, Args)]
pub struct CallToolArgs {
    /// The name of the tool, as `lockkeeper tools` shows it
    name: String,
    /// An argument: JSON if it parses as such, else text; may be repeated
    #[arg(long = "arg", value_name = "NAME=VALUE", value_parser = argument)]
    args: Vec<(String, Value)>,
    /// All arguments, as a JSON object
    #[arg(long, value_name = "JSON", conflicts_with = "args", value_parser = object)]
    arguments: Option<Map<String, Value>>,
    #[command(flatten)]
    of: ServersArgs,
    #[command(flatten)]
    form: FormatArgs,
}

/// The servers to ask: those of the configuration, of the command line, or behind a running gateway.
#[derive(Debug, Default, Args)]
pub struct ServersArgs {
    /// Asks the gateway at this URL, with an API key that may be used directly
    #[arg(long, value_name = "URL", value_parser = PublicUrl::of_gateway, conflicts_with_all = ["url", "command"])]
    gateway: Option<PublicUrl>,
    /// File with the API key; default: the environment variable `LOCKKEEPER_API_KEY`
    #[arg(long, value_name = "FILE", requires = "gateway")]
    api_key_file: Option<PathBuf>,
    #[command(flatten)]
    single: SingleServerArgs,
}

/// Parses an argument. The tool's schema is not known here, so the value is JSON if it parses as such, else text.
fn argument(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("this must be NAME=VALUE")?;
    Ok((name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| Value::from(value))))
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("this must be a JSON object: {error}"))
}

// === impl ToolsArgs ===

impl ToolsArgs {
    /// Relation to the running gateway: none for a gateway at a URL, or for a server from the command line.
    pub(in crate::cli) fn purpose(&self) -> CommandPurpose {
        let of = match &self.command {
            None => &self.list.of,
            Some(ToolsCommand::List(args)) => &args.of,
            Some(ToolsCommand::Call(args)) => &args.of,
        };
        if of.gateway.is_some() || of.single.given().is_some() {
            CommandPurpose::Unrelated
        } else {
            CommandPurpose::Asks
        }
    }

    /// Runs the subcommand; without one, lists the tools.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        match self.command {
            None => self.list.run(process).await,
            Some(ToolsCommand::List(args)) => args.run(process).await,
            Some(ToolsCommand::Call(args)) => args.run(process).await,
        }
    }
}

impl ListToolsArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let config = self.of.config(process)?;
        let probe = Probe::start(&config)?;
        let looked = tokio::select! {
            looked = probe.look(&config.backends) => Some(looked),
            _ = tokio::signal::ctrl_c() => None,
        };
        let tools = if looked.is_some() { probe.tools(&*endpoint(&probe, &config)).await } else { Vec::new() };
        probe.end().await;
        if self.form.json {
            process.output.json(&json!({ "tools": tools }));
        } else if self.of.gateway.is_none() || !tools.is_empty() {
            let mut table = TextTable::new(&["TOOL", "WHAT IT DOES"]);
            for tool in &tools {
                let said = tool["description"].as_str().or(tool["title"].as_str()).unwrap_or_default();
                let first = cut(said.lines().next().unwrap_or_default());
                table.row([tool["name"].as_str().unwrap_or_default(), &first].map(Cell::from));
            }
            let text = table.render(process.output.out);
            process.output.print(&text);
        }
        let looked = looked.ok_or_else(|| CommandFailure::failed("the listing was interrupted"))?;
        let sick = sick(&looked);
        if sick.is_empty() {
            return Ok(());
        }
        if let Some(refused) = self.of.refused(&looked, process).await? {
            return Err(refused);
        }
        Err(CommandFailure::failed("some servers are not ready")
            .why(sick.join("\n"))
            .advise("`lockkeeper check`, with the same options, shows their output too"))
    }
}

impl CallToolArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let mut config = self.of.config(process)?;
        only_for(&self.name, &mut config);
        let arguments = self.arguments.clone().unwrap_or_else(|| self.args.iter().cloned().collect());
        let probe = Probe::start(&config)?;
        let params = json!({ "name": self.name, "arguments": arguments });
        let reply = call(&*endpoint(&probe, &config), Method::ToolsCall, &params);
        let outcome = tokio::select! {
            outcome = reply.outcome() => Some(outcome),
            _ = tokio::signal::ctrl_c() => None,
        };
        let others = match &outcome {
            Some(Outcome::Failed(_)) => probe.tool_names(&*endpoint(&probe, &config)).await,
            _ => Vec::new(),
        };
        let servers = probe.supervisor.status();
        probe.end().await;
        if let Some(Outcome::Failed(_)) = outcome
            && let Some(refused) = self.of.refused(&servers, process).await?
        {
            return Err(refused);
        }
        if let (Some(Outcome::Failed(_)), Some((why, advice))) = (&outcome, why_not_there(&servers, &others)) {
            let failure = CommandFailure::failed(format!("`{}` could not be called", self.name));
            return Err(failure.why(why).advise(advice));
        }
        let failed = |why: String| CommandFailure::failed(format!("`{}` could not be called", self.name)).why(why);
        let result = match outcome {
            Some(Outcome::Complete(result)) => result.view::<Value>().unwrap_or_default(),
            Some(Outcome::Failed(error)) => {
                let prefixed = format!("__{}", self.name);
                let advice = match others.iter().find(|other| other.ends_with(&prefixed)) {
                    Some(meant) => format!("did you mean `{}`?", printable(meant)),
                    None => "`lockkeeper tools` lists the tools".to_owned(),
                };
                return Err(failed(error.message().clone()).advise(advice));
            }
            Some(Outcome::InputRequired(_)) => {
                return Err(failed("it asks for input, and this command gives none".to_owned()));
            }
            None => return Err(failed("the call was interrupted".to_owned())),
        };
        if self.form.json {
            process.output.json(&result);
        } else {
            process.output.print(&printable_text(&printed(&result)));
        }
        if result["isError"] == true {
            return Err(CommandFailure::failed(format!("`{}` reports an error", self.name)));
        }
        Ok(())
    }
}

// === impl ServersArgs ===

impl ServersArgs {
    /// The failure of the gateway at a URL; `None` if it served, or if none was named.
    async fn refused(
        &self,
        servers: &[BackendStatus],
        process: &ProcessContext,
    ) -> Result<Option<CommandFailure>, CommandFailure> {
        let (Some(gateway), sick) = (&self.gateway, sick(servers)) else { return Ok(None) };
        if sick.is_empty() {
            return Ok(None);
        }
        let asks = servers.iter().any(|server| server.state.asks_for_login());
        let key = gateway_client::api_key(self.api_key_file.as_deref(), process)?;
        let silent = if asks { None } else { Some(sick.join("\n")) };
        Ok(Some(gateway_client::refused(gateway, &key, silent).await))
    }

    fn config(&self, process: &mut ProcessContext) -> Result<Config, CommandFailure> {
        let url = self.gateway.as_ref().map(|gateway| SingleServer::Url(format!("{gateway}/mcp")));
        let single = url.or_else(|| self.single.given());
        let mut given = CommandLineOptions { single, ..process.options.given() };
        if self.gateway.is_some() {
            // the file would be another gateway's
            given.config = None;
        }
        let mut config = arguments::load(&given, process)?;
        if self.gateway.is_some() {
            let key = gateway_client::api_key(self.api_key_file.as_deref(), process)?;
            if let Some(TransportSpec::Http(http)) = config.backends.first_mut().map(|spec| &mut spec.transport) {
                let bearer = Secret::new(format!("Bearer {}", key.expose()));
                http.headers.insert("authorization".to_owned(), bearer);
            }
        }
        if process.options.log.is_some() {
            serve::install(&config.log, process)?;
        }
        Ok(config)
    }
}

/// The line, cut to [`LONGEST`] characters.
fn cut(line: &str) -> String {
    match line.char_indices().nth(LONGEST) {
        Some(_) => line.chars().take(LONGEST - 1).chain(['…']).collect(),
        None => line.to_owned(),
    }
}

/// The endpoint of all servers, or of a single one, which keeps its own names.
fn endpoint(probe: &Probe, config: &Config) -> Arc<dyn Server> {
    let only = config.backends.first().filter(|_| config.naming == Naming::Plain);
    only.and_then(|spec| probe.gateway.single(&spec.id)).unwrap_or_else(|| probe.gateway.merged())
}

/// Keeps only the server whose name is the prefix of the tool's, if there is one: the others need not start.
fn only_for(tool: &str, config: &mut Config) {
    let has_it = |spec: &BackendSpec| tool.strip_prefix(spec.id.as_str()).is_some_and(|rest| rest.starts_with("__"));
    if config.naming == Naming::Prefixed && config.backends.iter().any(has_it) {
        config.backends.retain(has_it);
        config.groups = Groups::default();
    }
}

/// The servers that are not ready, each with the reason.
fn sick(servers: &[BackendStatus]) -> Vec<String> {
    let sick = servers.iter().filter(|one| one.state != BackendState::Ready);
    sick.map(|one| {
        let reason = one.state.reason().map_or_else(|| one.state.to_string(), printable);
        format!("{}: {reason}", one.id)
    })
    .collect()
}

/// The reason why a tool could not be called, and advice, if its server is at fault. `others` are the available tools.
fn why_not_there(servers: &[BackendStatus], others: &[String]) -> Option<(String, &'static str)> {
    if servers.iter().any(|server| matches!(server.state, BackendState::Failed { .. })) {
        return Some((sick(servers).join("\n"), "`lockkeeper check` shows what the server printed"));
    }
    let without_tools = servers.iter().find_map(|server| Some(format!("{}: {}", server.id, server.lacks_tools()?)));
    let advice = "call it from a client that is connected to the gateway, or see `lockkeeper status`";
    without_tools.filter(|_| others.is_empty()).map(|why| (why, advice))
}

/// A result for people: its text, and a placeholder for everything else.
fn printed(result: &Value) -> String {
    let block = |block: &Value| match block["type"].as_str().unwrap_or_default() {
        "text" => block["text"].as_str().unwrap_or_default().to_owned(),
        "resource_link" => format!("[{}]", block["uri"].as_str().unwrap_or_default()),
        "resource" if block["resource"]["text"].is_string() => {
            block["resource"]["text"].as_str().unwrap_or_default().to_owned()
        }
        kind => format!("[{kind} {}: see it with --json]", block["mimeType"].as_str().unwrap_or_default()),
    };
    let content: Vec<String> = result["content"].as_array().into_iter().flatten().map(block).collect();
    if content.is_empty() && !result["structuredContent"].is_null() {
        return serde_json::to_string_pretty(&result["structuredContent"]).unwrap_or_default();
    }
    content.join("\n")
}
