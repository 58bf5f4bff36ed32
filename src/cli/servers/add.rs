//! `lockkeeper add`: tries a server, then adds it to the configuration file.

mod server_description;

use std::{fs, path::Path};

use clap::Args;
use serde_json::{Value, json};

use self::server_description::ServerDescription;
use super::{
    probe::Probe,
    servers_file::{EntryLogin, ReadOnlyRule, ServerEntry, ServersFile},
    unset_variables,
};
use crate::{
    cli::{
        arguments::values,
        people::client,
        running::running_gateway::{self, FileReader},
        terminal::{
            documents::{self, Became, FormatArgs},
            failure::CommandFailure,
            inputs,
            output::number_of,
            page_viewer,
            process::ProcessContext,
        },
    },
    config::{Config, ConfigPlace, ConfigProblem, ConfigProblems, secret_argument, text_of},
    model::{
        BackendId, Groups,
        status::{BackendState, BackendStatus, last_output},
    },
    support::{first_names, printable},
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper add files npx -y @modelcontextprotocol/server-filesystem /data
  lockkeeper add docs https://docs.example/mcp
  lockkeeper add work https://a.example/mcp --header 'X-Api-Key: ${KEY}'
  lockkeeper add files --env TOKEN='${TOKEN}' -- ./server --config its-own.json
  lockkeeper add weather ./server.json        the registry's description of it

The server is started once; nothing is written if it fails. `${NAME}` stands for
a variable of the gateway's environment. Options of this command go before the
program; the dashes are needed if its own options have names like these.";

/// Maximum size of a `server.json`, in bytes.
const LONGEST: u64 = 1 << 20;
/// Maximum number of tools whose names are printed.
const SHOWN: usize = 12;

/// `add`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AddArgs {
    /// The name of the server on this gateway
    name: String,
    /// The URL of the server, its `server.json` from the registry, or its command with arguments
    #[arg(value_name = "URL|FILE|COMMAND", conflicts_with = "command")]
    target: Option<String>,
    /// A variable for the program; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// A header of each request to the URL; may be repeated
    #[arg(long, value_name = "NAME: VALUE", value_parser = values::header)]
    header: Vec<(String, String)>,
    /// Replaces the server that has this name
    #[arg(long)]
    replace: bool,
    /// Writes it without trying it
    #[arg(long)]
    no_check: bool,
    #[command(flatten)]
    form: FormatArgs,
    /// The program that is the server, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The outcome of trying a server.
enum Trial {
    Ready(Box<Tried>),
    /// It asks each user for a login.
    AsksForLogin,
    /// It was not tried.
    Omitted,
}

/// A server that has started and answers.
struct Tried {
    status: BackendStatus,
    tools: Vec<String>,
    /// The tools that only read, according to the server.
    read_only: Vec<String>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("this must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

// === impl AddArgs ===

impl AddArgs {
    /// Tries the server, writes it to the file, and reports what it offers.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let id = BackendId::normalise(&self.name).map_err(|error| {
            CommandFailure::usage(format!("`{}` cannot be the name of a server", self.name)).why(error)
        })?;
        if id.as_str() != self.name {
            process.output.remark(&format!("`{}` becomes `{id}`", self.name));
        }
        let entry = self.entry(process)?;
        let mut file = ServersFile::open(process)?;
        if let Some(name) = file.named(&id) {
            if !self.replace {
                return Err(CommandFailure::failed(format!("{} already has a server `{name}`", file.name.display()))
                    .advise(format!(
                        "choose another name, or add `--replace`; `lockkeeper remove {name}` removes it"
                    )));
            }
            file.remove(&name);
        }
        file.add(&id, &entry)?;
        let config = file.load(process).map_err(|problems| match &*self.command {
            [line] if line.contains(' ') => refused(&id, problems)
                .advise(format!("write the command without quotes: lockkeeper add {id} -- {line}")),
            _ => refused(&id, problems),
        })?;
        for warning in config.backends.iter().filter(|spec| spec.id == id).filter_map(secret_argument) {
            process.output.remark(&format!("warning: {warning}"));
        }
        let place = client::root(&config, process);
        let trial = self.tried(config, &id, &entry, process).await?;
        match &trial {
            Trial::AsksForLogin => {
                file.remove(id.as_str());
                file.add(&id, &entry.with_login())?;
                file.load(process).map_err(|problems| refused(&id, problems))?;
            }
            Trial::Ready(tried) => self.ask_read_only(&tried.read_only, &id, &mut file, process)?,
            Trial::Omitted => {}
        }
        file.write()?;
        self.report(&id, trial, &file, &place, process);
        Ok(())
    }

    /// Tries the server, unless a variable is missing or `--no-check` is set.
    async fn tried(
        &self,
        config: Config,
        id: &BackendId,
        entry: &ServerEntry,
        process: &mut ProcessContext,
    ) -> Result<Trial, CommandFailure> {
        let open = unset_variables::unset(&entry.text(), &process.environment);
        if !open.is_empty() {
            let names = open.into_iter().collect::<Vec<_>>().join(", ");
            process
                .output
                .remark(&format!("not tried, since {names} is not set here; the gateway needs it in its environment"));
        } else if !self.no_check {
            return Tried::start(config, id, process).await;
        }
        Ok(Trial::Omitted)
    }

    /// Writes the list of tools that only read: in force if a person confirms it, else as a comment. The server's word
    /// is not enough.
    fn ask_read_only(
        &self,
        tools: &[String],
        id: &BackendId,
        file: &mut ServersFile,
        process: &mut ProcessContext,
    ) -> Result<(), CommandFailure> {
        if tools.is_empty() {
            return Ok(());
        }
        let names = printable(&tools.join(", "));
        let question =
            format!("The server says that these only read: {names}. May keys with `:read` call them? [y/N] ");
        let is_confirmed = !self.form.json && inputs::confirmed(&question, process)?;
        let rule = if is_confirmed { ReadOnlyRule::InForce } else { ReadOnlyRule::Suggested };
        file.read_only(id, tools, rule);
        Ok(())
    }

    fn report(&self, id: &BackendId, trial: Trial, file: &ServersFile, place: &str, process: &mut ProcessContext) {
        let shown = file.name.display().to_string();
        let account = matches!(trial, Trial::AsksForLogin).then(|| format!("{place}/account"));
        let offers = match &trial {
            Trial::Ready(tried) => tried.sentence(),
            Trial::AsksForLogin => ": it asks for a login, so each user connects an account there".to_owned(),
            Trial::Omitted => String::new(),
        };
        let reader = running_gateway::reader(file.path(), process);
        if self.form.json {
            let tried = match trial {
                Trial::Ready(tried) => Some((tried.status, tried.tools)),
                Trial::AsksForLogin | Trial::Omitted => None,
            };
            let (status, tools) = tried.unzip();
            let what =
                json!({ "id": id.as_str(), "file": shown, "status": status, "tools": tools, "account": account });
            process.output.json(&documents::change(Became::Added, what));
            return;
        }
        process.output.print(&format!("added `{id}` to {shown}{offers}"));
        process.output.remark(&format!("file: {}", file.path().display()));
        process.output.remark(&advice(&reader, process));
        let Some(account) = account else { return };
        if process.output.is_terminal && matches!(reader, FileReader::Running) {
            process.output.remark(&format!("Connect your account: your browser opens {account}"));
            // the browser's command would end with this process
            let _ = page_viewer::open_browser(account).map(std::thread::JoinHandle::join);
        } else {
            process.output.remark(&format!("Connect your account: {account}"));
        }
    }

    fn entry(&self, process: &mut ProcessContext) -> Result<ServerEntry, CommandFailure> {
        let entry = match &self.target {
            None if self.command.is_empty() => {
                let name = &self.name;
                return Err(CommandFailure::usage(format!("what is `{name}`?")).why("its URL or its program is missing").advise(
                    format!("lockkeeper add {name} https://{name}.example/mcp; or lockkeeper add {name} npx -y {name}-server"),
                ));
            }
            None => ServerEntry::Program { words: self.command.clone(), env: Vec::new() },
            Some(target) if is_url(target) => {
                ServerEntry::Remote { url: target.clone(), kind: None, headers: Vec::new(), login: EntryLogin::None }
            }
            Some(target) if is_description(target) => self.registered(target, process)?,
            Some(target) => {
                return Err(CommandFailure::usage(format!("`{target}` is neither a URL nor a server.json"))
                    .advise(format!(
                        "a URL begins with https://: lockkeeper add {0} https://{target}; a program follows two dashes: \
                         lockkeeper add {0} -- {target} …",
                        self.name
                    )));
            }
        };
        match entry {
            ServerEntry::Program { .. } if !self.header.is_empty() => {
                Err(CommandFailure::usage("a program takes no `--header`").advise("use `--env` for its variables"))
            }
            ServerEntry::Remote { .. } if !self.env.is_empty() => {
                Err(CommandFailure::usage("a server at a URL takes no `--env`")
                    .advise("use `--header` for its headers"))
            }
            ServerEntry::Program { words, env } => Ok(ServerEntry::Program { words, env: with_given(env, &self.env) }),
            ServerEntry::Remote { url, kind, headers, login } => {
                Ok(ServerEntry::Remote { url, kind, headers: with_given(headers, &self.header), login })
            }
        }
    }

    /// The server that a `server.json` of the registry describes.
    fn registered(&self, target: &str, process: &mut ProcessContext) -> Result<ServerEntry, CommandFailure> {
        let failed = |why: String| CommandFailure::usage(format!("{target} cannot be used")).why(why);
        let path = process.folder.join(Path::new(target));
        if fs::metadata(&path).is_ok_and(|file| file.len() > LONGEST) {
            return Err(failed("it is longer than 1 MiB".to_owned()));
        }
        let text =
            text_of(&path).map_err(|error| CommandFailure::failed(format!("{target} cannot be read")).why(error))?;
        let described = ServerDescription::parse(&text).map_err(failed)?;
        let (entry, open) = described.entry().map_err(failed)?;
        for (name, meaning) in open {
            let is_given = self.env.iter().chain(&self.header).any(|(given, _)| *given == name);
            if !is_given {
                process.output.remark(&format!("it needs {name} in the gateway's environment: {meaning}"));
            }
        }
        Ok(entry)
    }
}

/// The problems of the configuration with the new server. Line numbers would refer to a file that is not written.
fn refused(id: &BackendId, problems: ConfigProblems) -> CommandFailure {
    let section = format!("servers.{id}");
    let said = |problem: &ConfigProblem| -> Option<String> {
        let ConfigPlace::File { path, .. } = &problem.place else { return None };
        let option = path.strip_prefix(&section)?.trim_start_matches('.');
        let what = if option.is_empty() { problem.what.clone() } else { format!("{option}: {}", problem.what) };
        Some(problem.advice.iter().fold(what, |what, advice| format!("{what}\n  {advice}")))
    };
    match problems.0.iter().map(said).collect::<Option<Vec<_>>>() {
        Some(said) => {
            CommandFailure::usage(format!("`{id}` cannot be added, and nothing was written")).why(said.join("\n"))
        }
        None => problems.into(),
    }
}

fn is_description(text: &str) -> bool {
    Path::new(text).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"))
}

fn is_url(text: &str) -> bool {
    text.contains("://") || text.starts_with("unix:")
}

/// The values of the description, replaced or extended by the person's own.
fn with_given(described: Vec<(String, String)>, given: &[(String, String)]) -> Vec<(String, String)> {
    let is_kept = |(name, _): &(String, String)| !given.iter().any(|(other, _)| other == name);
    described.into_iter().filter(is_kept).chain(given.iter().cloned()).collect()
}

fn advice(reader: &FileReader, process: &ProcessContext) -> String {
    match reader {
        FileReader::Running => "the running gateway picks it up within seconds".to_owned(),
        FileReader::OfAnother(gateway) => {
            format!("the running gateway does not pick it up: {}", running_gateway::description(gateway))
        }
        FileReader::Nobody => format!("`lockkeeper serve{}` serves it", process.options.as_text()),
    }
}

// === impl Tried ===

impl Tried {
    /// Starts only this server, and asks for its lists.
    async fn start(mut config: Config, id: &BackendId, process: &mut ProcessContext) -> Result<Trial, CommandFailure> {
        config.backends.retain(|spec| spec.id == *id);
        config.groups = Groups::default();
        let most = config.backends.first().map_or(0, |spec| spec.start_timeout.as_secs());
        process.output.remark(&format!("starting `{id}`: {most} s at most"));
        let probe = Probe::start(&config)?;
        let looked = tokio::select! {
            looked = probe.look(&config.backends) => looked.into_iter().next(),
            _ = tokio::signal::ctrl_c() => None,
        };
        let tools = match probe.gateway.single(id) {
            Some(server) if looked.is_some() => probe.tools(&*server).await,
            _ => Vec::new(),
        };
        let names = |is_named: &dyn Fn(&Value) -> bool| -> Vec<String> {
            let named = tools.iter().filter(|tool| is_named(tool)).filter_map(|tool| tool["name"].as_str());
            named.map(str::to_owned).collect()
        };
        let read_only = names(&|tool| tool["annotations"]["readOnlyHint"] == true);
        let tools = names(&|_| true);
        probe.end().await;
        let status =
            looked.ok_or_else(|| CommandFailure::failed("the trial was interrupted, and nothing was written"))?;
        match &status.state {
            BackendState::Ready => Ok(Trial::Ready(Box::new(Self { status, tools, read_only }))),
            state if state.asks_for_login() => Ok(Trial::AsksForLogin),
            state => {
                let lines: Vec<&str> = last_output(&status.output).into_iter().map(|line| line.text.as_str()).collect();
                let reason = state.reason().unwrap_or_default();
                let why = [&[reason], &lines[..]].concat().join("\n");
                Err(CommandFailure::failed(format!("`{id}` did not start, and nothing was written"))
                    .why(why)
                    .advise("correct its command or URL, or write it anyway with `--no-check`"))
            }
        }
    }

    fn sentence(&self) -> String {
        let server = self.status.server.as_deref().unwrap_or("a server without a name");
        let version = self.status.protocol_version.as_deref().unwrap_or("-");
        let tools = first_names(&self.tools, SHOWN)
            .map_or_else(|| "no tools".to_owned(), |names| format!("{}: {names}", number_of(self.tools.len(), "tool")));
        printable(&format!(": {server} (MCP {version}), {tools}"))
    }
}
