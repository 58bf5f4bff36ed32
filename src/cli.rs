//! The command line, one file for each subcommand. Commands call the other modules; the rules are there.
//!
//! The folders [`running`], [`servers`], [`people`] and [`operation`] are groups of `lockkeeper help --all`. The
//! commands about this program, its last group, have no folder. Commands of all groups use [`terminal`], [`arguments`]
//! and [`store`], which know no command.
//!
//! Results go to standard output; logs, notes and errors go to standard error. Exit codes: 0 done, 1 failed, 2 wrong
//! usage or configuration. Each subcommand is an argument struct with a `run` method. To add one, write its file in the
//! folder of its group, and add a variant to [`Command`] and an arm to each of its methods.

pub mod arguments;
pub mod completions;
mod help;
pub mod operation;
pub mod people;
mod replaced_file;
pub mod running;
pub mod servers;
pub mod store;
pub mod terminal;
pub mod version;

use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, error::ContextKind};

pub use self::terminal::{
    failure::{CommandFailure, Exit},
    output::Output,
    process::{CommandPurpose, ProcessContext},
};
use self::{
    operation::{audit, backup, doctor, master_key, migrate, signing_keys},
    people::{client, clients, grants, invitations, invite, keys, sessions, upstream, users},
    running::{connect, healthcheck, log, logs, restart, running_gateway, serve, status, stdio},
    servers::{add, check, import, list, program_words, remove, tools, translate},
    terminal::{global_args, inputs},
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper serve                            a demonstration on 127.0.0.1:8080
  lockkeeper add files npx -y @modelcontextprotocol/server-filesystem /data
  lockkeeper add docs https://docs.example/mcp
  lockkeeper client cursor --write            connects a client
  lockkeeper invite ann                       a link that gives ann her key

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.";

/// An OAuth-protected gateway for the Model Context Protocol: one URL and one login for all your servers.
#[derive(Debug, Parser)]
#[command(name = "lockkeeper", version, after_help = EXAMPLES, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub options: global_args::GlobalArgs,
    /// Subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs the gateway
    Serve(serve::ServeArgs),
    /// Serves the configured servers to one local client on standard input and output
    Stdio(stdio::StdioArgs),
    /// Connects one local client to a remote MCP server, with the login in the browser
    Connect(Box<connect::ConnectArgs>),
    /// Tries a server and adds it to the configuration file
    Add(Box<add::AddArgs>),
    /// Copies the servers from another program's file into the configuration file
    Import(import::ImportArgs),
    /// Removes a server from the configuration file
    Remove(remove::RemoveArgs),
    /// Shows the configured servers without starting them
    List(list::ListArgs),
    /// Lists and calls the tools of the servers
    Tools(Box<tools::ToolsArgs>),
    /// Prints or writes what a client needs to connect
    Client(client::ClientArgs),
    /// Checks the configuration, starts every server once, and reports what each offers
    Check(check::CheckArgs),
    /// Examines whether the well-known clients can log in at a server
    Doctor(doctor::DoctorArgs),
    /// Shows the servers and clients of the running gateway
    Status(status::StatusArgs),
    /// Restarts a server of the running gateway
    Restart(restart::RestartArgs),
    /// Prints the last lines that a server printed
    Logs(logs::LogsArgs),
    /// Changes the log of the running gateway for a while
    Log(log::LogArgs),
    /// Shows and ends the client sessions of the running gateway
    #[command(subcommand)]
    Sessions(sessions::SessionsCommand),
    /// Creates, lists, changes, rotates and revokes API keys
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Invites a person: prints a link that makes a key once, or lets an address in at a login provider
    Invite(Box<invite::InviteArgs>),
    /// Lists and revokes invitations
    #[command(subcommand)]
    Invitations(invitations::InvitationsCommand),
    /// Lists, disables, enables and deletes users
    #[command(subcommand)]
    Users(users::UsersCommand),
    /// Registers, shows and revokes OAuth clients
    #[command(subcommand)]
    Clients(clients::ClientsCommand),
    /// Shows and revokes the grants that people gave to clients
    #[command(subcommand)]
    Grants(grants::GrantsCommand),
    /// Shows, rotates and retires the keys that sign access tokens
    #[command(subcommand)]
    SigningKeys(signing_keys::SigningKeysCommand),
    /// Prints the audit trail
    Audit(audit::AuditArgs),
    /// Shows and ends the accounts that users have connected at servers
    #[command(subcommand)]
    Upstream(upstream::UpstreamCommand),
    /// Rotates the key that encrypts the secrets in the database
    #[command(subcommand)]
    MasterKey(master_key::MasterKeyCommand),
    /// Copies the database into a file, while the gateway runs
    Backup(backup::BackupArgs),
    /// Moves the data into another database
    Migrate(migrate::MigrateArgs),
    /// Shows a message as a client or server of another protocol version gets it
    Translate(translate::TranslateArgs),
    /// Exits with 0 if the running gateway answers (for containers)
    Healthcheck(healthcheck::HealthcheckArgs),
    /// Shows the version and the supported protocol versions
    Version(version::VersionArgs),
    /// Prints the completions for a shell
    Completions(completions::CompletionsArgs),
    /// Prints the manual page, or writes those of all commands
    Man(completions::ManArgs),
    /// Explains a command, or lists all of them
    Help(help::HelpArgs),
}

/// Runs the command of `arguments`; the first is the program name.
pub fn run(arguments: impl IntoIterator<Item = OsString>, mut process: ProcessContext) -> Exit {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(shell) = process.environment.said(completions::VARIABLE).map(str::to_owned) {
        return completions::answer(&shell, arguments, Cli::command(), &mut process);
    }
    let arguments = program_words::with_dashes(arguments);
    let parsed = help::with_first_page(Cli::command()).try_get_matches_from(arguments);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(mut error) => {
            // clap's hint on how to pass a value that looks like an option, which people rarely mean to do
            error.remove(ContextKind::Suggested);
            let printed = error.print();
            let asked_for = !error.use_stderr();
            return if asked_for && printed.is_ok() { Exit::Done } else { Exit::Usage };
        }
    };
    let options = cli.options.as_text();
    process.options = cli.options;
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return process.output.failure(&CommandFailure::failed("the runtime cannot start").why(error)),
    };
    let exit = match runtime.block_on(Box::pin(cli.command.run(&mut process))) {
        Ok(()) => Exit::Done,
        Err(failure) => process.output.failure(&failure.with_options(&options)),
    };
    // only blocking calls that no task waits for may still run, such as a name look-up
    runtime.shutdown_background();
    exit
}

// === impl Command ===

impl Command {
    /// The command's relation to a running gateway.
    fn purpose(&self) -> CommandPurpose {
        match self {
            Self::Serve(_)
            | Self::Stdio(_)
            | Self::Connect(_)
            | Self::Doctor(_)
            | Self::Translate(_)
            | Self::Version(_)
            | Self::Completions(_)
            | Self::Help(_)
            | Self::Man(_) => CommandPurpose::Unrelated,
            Self::Add(_) | Self::Import(_) | Self::Remove(_) => CommandPurpose::ChangesFile,
            Self::Tools(args) => args.purpose(),
            Self::Check(args) => args.purpose(),
            Self::Status(args) => args.purpose(),
            Self::Sessions(command) => command.purpose(),
            Self::List(_)
            | Self::Client(_)
            | Self::Audit(_)
            | Self::Backup(_)
            | Self::Healthcheck(_)
            | Self::Logs(_)
            | Self::Keys(keys::KeysCommand::List(_))
            | Self::Invitations(invitations::InvitationsCommand::List(_))
            | Self::Users(users::UsersCommand::List(_))
            | Self::Grants(grants::GrantsCommand::List(_))
            | Self::SigningKeys(signing_keys::SigningKeysCommand::List(_))
            | Self::Upstream(upstream::UpstreamCommand::List(_)) => CommandPurpose::Asks,
            Self::Clients(command) => command.purpose(),
            Self::Keys(_)
            | Self::Invite(_)
            | Self::Invitations(_)
            | Self::Users(_)
            | Self::Grants(_)
            | Self::SigningKeys(_)
            | Self::Upstream(_)
            | Self::MasterKey(_)
            | Self::Restart(_)
            | Self::Log(_)
            | Self::Migrate(_) => CommandPurpose::ChangesData,
        }
    }

    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let purpose = match &self {
            Self::Check(_) if process.options.config.is_some() => CommandPurpose::Unrelated,
            command => command.purpose(),
        };
        running_gateway::follow(purpose, process)?;
        if matches!(self, Self::Serve(_) | Self::Check(_) | Self::List(_) | Self::Tools(_)) {
            inputs::ask(process)?;
        }
        match self {
            Self::Serve(args) => args.run(process).await,
            Self::Stdio(args) => args.run(process).await,
            Self::Connect(args) => Box::pin(args.run(process)).await,
            Self::Add(args) => Box::pin(args.run(process)).await,
            Self::Import(args) => args.run(process),
            Self::Remove(args) => args.run(process),
            Self::List(args) => args.run(process),
            Self::Client(args) => args.run(process),
            Self::Tools(args) => Box::pin(args.run(process)).await,
            Self::Check(args) => args.run(process).await,
            Self::Doctor(args) => Box::pin(args.run(process)).await,
            Self::Status(args) => args.run(process).await,
            Self::Restart(args) => args.run(process).await,
            Self::Logs(args) => args.run(process).await,
            Self::Log(args) => args.run(process).await,
            Self::Sessions(command) => command.run(process).await,
            Self::Keys(command) => command.run(process).await,
            Self::Invite(args) => Box::pin(args.run(process)).await,
            Self::Invitations(command) => command.run(process).await,
            Self::Users(command) => command.run(process).await,
            Self::Clients(command) => command.run(process).await,
            Self::Grants(command) => command.run(process).await,
            Self::SigningKeys(command) => command.run(process).await,
            Self::Audit(args) => args.run(process).await,
            Self::Upstream(command) => command.run(process).await,
            Self::MasterKey(command) => command.run(process).await,
            Self::Backup(args) => args.run(process).await,
            Self::Migrate(args) => args.run(process).await,
            Self::Translate(args) => args.run(process),
            Self::Healthcheck(args) => args.run(process).await,
            Self::Version(args) => {
                args.run(process);
                Ok(())
            }
            Self::Completions(args) => args.run(process),
            Self::Man(args) => args.run(Cli::command(), process),
            Self::Help(args) => args.run(help::with_first_page(Cli::command()), process),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_fit_a_terminal_of_80_columns() {
        fn long_lines(command: &clap::Command) -> Vec<String> {
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let own = examples.lines().filter(|line| line.chars().count() > 80).map(str::to_owned);
            own.chain(command.get_subcommands().flat_map(long_lines)).collect()
        }
        assert_eq!(long_lines(&Cli::command()), Vec::<String>::new());
    }
}
