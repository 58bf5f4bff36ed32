//! `lockkeeper serve`: builds and runs the gateway, and prints the start message.

mod config_watch;
mod inherited_socket;
mod reload;

use std::{convert::Infallible, io, net::SocketAddr};

use tokio::net::TcpListener;

use self::inherited_socket::InheritedSockets;
use crate::{
    app::{self, App, CannotListen, DataLockError, FirstAccess, FirstAccessForm, RestrictedKeys, Sockets},
    cli::{
        arguments,
        store::data_access,
        terminal::{
            failure::{CommandFailure, Exit, reasons},
            output::{Emphasis, Output, Style},
            process::ProcessContext,
        },
    },
    config::{CommandLineOptions, Config, ConfigSource, LogConfig},
    model::Naming,
    oauth::OAuthError,
    storage::StorageError,
    telemetry::{self, Telemetry},
};

const ADD_A_SERVER: &str = "lockkeeper add NAME COMMAND…, or lockkeeper add NAME URL: it is served at once";

const EXAMPLES: &str = "\
Examples:
  lockkeeper serve        lockkeeper.toml in this folder, or a demonstration
  lockkeeper serve --config ~/.config/Claude/claude_desktop_config.json
  lockkeeper serve -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  lockkeeper serve --url https://docs.example.com/mcp
  lockkeeper serve --domain mcp.example.com     # https at port 443, by itself
  lockkeeper serve --listen 0.0.0.0:8080 --public-url https://mcp.example.com

The configuration file is read again when it changes, and at SIGHUP unless on a
terminal: servers are added, changed and removed while clients stay connected.

Environment variables: LOCKKEEPER_CONFIG, LOCKKEEPER_LISTEN,
LOCKKEEPER_DOMAIN, LOCKKEEPER_PUBLIC_URL, LOCKKEEPER_TRUSTED_PROXIES,
LOCKKEEPER_DATA_DIR, LOCKKEEPER_DATABASE, LOCKKEEPER_MASTER_KEY_FILE,
LOCKKEEPER_LOG. Options override variables, variables override the file. PORT
is the port of all addresses, if LOCKKEEPER_PUBLIC_URL is set and no listen
address is.";

/// Advice if the port is taken.
const OTHER_PORT: &str = "stop the program that uses the port, or choose another one: `--listen 8081`";

/// Advice if another gateway has the data folder.
const OTHER_FOLDER: &str = "stop the other one, or give this one a folder of its own: `--data-dir DIR`";

/// Advice if there is no connection to the database.
const OTHER_DATABASE: &str = "start it, or name another one: `database` in lockkeeper.toml, or LOCKKEEPER_DATABASE";

/// Advice if the file system of the data cannot map memory.
const LOCAL_DISK: &str =
    "choose a folder on a local disk: `--data-dir DIR`; or use PostgreSQL: `database`, or LOCKKEEPER_DATABASE";

/// Advice if the disk of the data is full.
const OTHER_DISK: &str =
    "make room on the disk of the data folder, or choose a folder on another one: `--data-dir DIR`";

/// `serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Listen address, or a port of this machine [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR|PORT")]
    listen: Option<String>,
    /// Gets a certificate for this name and serves https; agrees to the terms of the authority, Let's Encrypt
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    domain: Vec<String>,
    /// URL of the gateway for clients; required if other machines connect
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    #[command(flatten)]
    single: arguments::SingleServerArgs,
}

/// The message that tells a person the gateway is up, and what to do next.
#[derive(Debug)]
pub struct StartMessage<'a> {
    /// The public URL, without a slash at the end.
    pub public_url: &'a str,
    /// The address at which it listens.
    pub listen: SocketAddr,
    /// The owner's first key or invitation, if it was just made: printed here and never again.
    pub first: Option<&'a FirstAccess>,
    /// Source of the configuration.
    pub source: &'a ConfigSource,
    /// The names of the backends.
    pub backends: &'a [String],
    /// The folder of the data.
    pub data_dir: &'a std::path::Path,
    /// Options by which other commands find the same data, each with a leading space.
    pub options: &'a str,
}

// === impl ServeArgs ===

impl ServeArgs {
    /// Runs the gateway until SIGTERM or SIGINT.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let sockets = InheritedSockets::take(&process.environment)?;
        let inherited = sockets.as_ref().map(|sockets| sockets.address);
        let mut given = CommandLineOptions { inherited, ..self.given(process) };
        let config = arguments::load(&given, process)?;
        if let ConfigSource::Usual(file) = &config.source {
            // a reload reads this file, even if one with precedence appears
            given.config = Some(file.clone());
        }
        let telemetry = install(&config.log, process)?;
        log_start(&config);
        let in_background = process.output.print_in_background();
        in_background.map_err(|error| CommandFailure::failed("the gateway cannot run").why(error))?;
        Box::pin(run_app(config, &given, sockets, telemetry, process)).await
    }

    /// The configuration for these arguments.
    pub fn config(&self, process: &ProcessContext) -> Result<Config, CommandFailure> {
        arguments::load(&self.given(process), process)
    }

    fn given(&self, process: &ProcessContext) -> CommandLineOptions {
        let (listen, public_url) = (self.listen.clone(), self.public_url.clone());
        let domains = self.domain.clone();
        CommandLineOptions { listen, domains, public_url, single: self.single.given(), ..process.options.given() }
    }
}

/// Sets up logs and metrics.
pub fn install(log: &LogConfig, process: &mut ProcessContext) -> Result<Telemetry, CommandFailure> {
    let colours = match process.output.err {
        Style::Colours => telemetry::Colours::Shown,
        Style::Plain => telemetry::Colours::Left,
    };
    let cannot = || CommandFailure::failed("logs and metrics cannot be set up");
    let writer = process.output.log_writer().map_err(|error| cannot().why(error))?;
    Telemetry::install(&app::log_settings(log), colours, writer).map_err(|error| cannot().why(error))
}

/// Logs the start, and warnings about the configuration.
fn log_start(config: &Config) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        listen = %config.listen,
        configuration = %config.source,
        data_dir = %config.data_dir.display(),
        database = %config.database,
        servers = config.backends.len(),
        names = if config.naming == Naming::Plain { "plain" } else { "prefixed" },
        "starting"
    );
    for warning in arguments::warnings(config).into_iter().chain(data_access::root_warning(&config.data_dir)) {
        tracing::warn!("{warning}");
    }
}

/// The refusal of `trusted_proxies = "private"` while these keys are bound to networks.
pub fn bound_keys(keys: &RestrictedKeys) -> CommandFailure {
    CommandFailure::usage("the configuration and the keys contradict each other").why(keys).advise(
        "name the addresses of the proxies in `trusted_proxies`, or revoke the keys: `lockkeeper keys revoke ID`",
    )
}

/// Builds the application and runs it until SIGTERM or SIGINT.
async fn run_app(
    config: Config,
    given: &CommandLineOptions,
    sockets: Option<InheritedSockets>,
    telemetry: Telemetry,
    process: &mut ProcessContext,
) -> Result<(), CommandFailure> {
    let (source, places) = (config.source.clone(), config.places());
    let backends: Vec<String> = config.backends.iter().map(|spec| spec.id.to_string()).collect();
    let cannot = |error: anyhow::Error| {
        let failure = CommandFailure::failed("the gateway cannot run").why(reasons(&error));
        if let Some(advice) = privileged_port(&error) {
            failure.advise(advice)
        } else if error.chain().any(is_address_in_use) {
            failure.advise(OTHER_PORT)
        } else if let Some(DataLockError::InUse { .. }) = error.downcast_ref() {
            failure.advise(OTHER_FOLDER)
        } else if let Some(StorageError::Unreachable(_)) = error.downcast_ref() {
            failure.advise(OTHER_DATABASE)
        } else if let Some(StorageError::NoSharedMemory) = error.downcast_ref() {
            failure.advise(LOCAL_DISK)
        } else if error.chain().any(is_disk_full) {
            failure.advise(OTHER_DISK)
        } else if let Some(keys) = error.downcast_ref() {
            bound_keys(keys)
        } else {
            let is_wrong = error.downcast_ref().is_some_and(OAuthError::is_of_configuration);
            let exit = if is_wrong { Exit::Usage } else { failure.exit };
            data_access::explained(CommandFailure { exit, ..failure }, &places)
        }
    };
    // from here on, a signal shuts the gateway down in order, with its last log lines
    let mut shutdown = Box::pin(shutdown_signal());
    let build = async {
        // if a second gateway starts on the same folder, this error says more than that the port is taken
        app::check_unused(&config.data_dir)?;
        App::build_on(listening(sockets, &config).await?, config, telemetry).await
    };
    let app = tokio::select! {
        app = build => app.map_err(cannot)?,
        () = &mut shutdown => return Ok(()),
    };
    app.announce().map_err(cannot)?;
    // last: nothing may fail between creating the first access and showing it
    let form = if process.output.is_terminal { FirstAccessForm::Key } else { FirstAccessForm::Invitation };
    let first = app.first_access(form).await.map_err(|error| cannot(error.into()))?;
    let message = StartMessage {
        public_url: app.public_url().as_str(),
        listen: app.listens_on().map_err(cannot)?,
        first: first.as_ref(),
        source: &source,
        backends: &backends,
        data_dir: &places.folder,
        options: &process.options.as_text(),
    };
    message.print(&mut process.output);
    drop(first);
    let reloader = app.reloader();
    tokio::select! {
        served = app.serve(shutdown) => served.map_err(cannot),
        never = reload::follow(&source, given, process, reloader) => match never {},
        never = reap_orphans() => match never {},
    }
}

/// Reaps orphaned processes, if this is the first process of a container. Never returns.
pub(super) async fn reap_orphans() -> Infallible {
    #[cfg(target_os = "linux")]
    return crate::support::orphans::reap().await;
    #[cfg(not(target_os = "linux"))]
    std::future::pending().await
}

/// Advice if only root may listen on the port.
fn privileged_port(error: &anyhow::Error) -> Option<String> {
    let CannotListen { address, source } = error.downcast_ref()?;
    if source.kind() != io::ErrorKind::PermissionDenied || address.port() >= 1024 {
        return None;
    }
    let program = std::env::current_exe().map_or_else(|_| "lockkeeper".to_owned(), |path| path.display().to_string());
    Some(format!(
        "only root may use ports below 1024. Either let this program use them: `sudo setcap cap_net_bind_service=+ep \
         {program}`; or use a port that anybody may use, `--listen '[::]:8443'`, and forward port {} to it",
        address.port()
    ))
}

/// The sockets from systemd, or new ones.
async fn listening(inherited: Option<InheritedSockets>, config: &Config) -> anyhow::Result<Sockets> {
    Ok(match inherited {
        None => Sockets::bind(config).await?,
        Some(InheritedSockets { main, plain, .. }) => {
            Sockets { main: TcpListener::from_std(main)?, plain: plain.map(TcpListener::from_std).transpose()? }
        }
    })
}

fn is_address_in_use(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

fn is_disk_full(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::StorageFull)
        || matches!(cause.downcast_ref(), Some(StorageError::DiskFull))
}

/// Completes at SIGTERM or SIGINT. From this call on, they no longer end the process themselves.
pub fn shutdown_signal() -> impl Future<Output = ()> {
    #[cfg(unix)]
    let signals = {
        use tokio::signal::unix::{SignalKind, signal};
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    };
    async move {
        #[cfg(unix)]
        if let (Ok(mut terminate), Ok(mut interrupt)) = signals {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            return;
        }
        let _ = tokio::signal::ctrl_c().await;
    }
}

// === impl StartMessage ===

impl StartMessage<'_> {
    /// Prints the message on standard output, and waits until it is written: the key must be there once the gateway
    /// answers.
    pub fn print(&self, output: &mut Output) {
        let text = self.render(output.out);
        output.print(&text);
        output.wait_until_written();
    }

    /// The text: the URL and other facts. With a first key or invitation, it ends with three next steps.
    pub fn render(&self, style: Style) -> String {
        let url = format!("{}/mcp", self.public_url);
        let title = style.paint(Emphasis::Strong, concat!("Lockkeeper ", env!("CARGO_PKG_VERSION")));
        let mut facts = vec![
            ("URL", style.paint(Emphasis::Strong, &url)),
            ("Address", self.listen.to_string()),
            ("Servers", if self.backends.is_empty() { "none yet".to_owned() } else { self.backends.join(", ") }),
            ("Data", self.data_dir.display().to_string()),
        ];
        let faint = |text: String| ("", style.paint(Emphasis::Faint, &text));
        match self.first {
            Some(FirstAccess::Key(key)) => {
                facts.push(("API key", style.paint(Emphasis::Good, key.expose())));
                facts.push(faint("You log in with it in the browser. Save it now: it is not shown again.".to_owned()));
            }
            Some(FirstAccess::Invitation(address)) => {
                facts.push(("Invited", style.paint(Emphasis::Good, address.expose())));
                facts.push(faint(format!(
                    "Open it in a browser within 3 days: it makes your key, once. `lockkeeper invite owner{}` makes another.",
                    self.options
                )));
            }
            None => {
                let more = format!("`lockkeeper keys create NAME{}` makes a key to log in with", self.options);
                facts.push(("API keys", style.paint(Emphasis::Faint, &more)));
            }
        }
        let fact = |(name, value): &(&str, String)| {
            format!("  {} {value}\n", style.paint(Emphasis::Faint, &format!("{name:<8}")))
        };
        let facts: String = facts.iter().map(fact).collect();
        let steps = if self.first.is_some() { self.next_steps(&url, style) } else { String::new() };
        format!("\n  {title} is listening\n\n{facts}{steps}")
    }

    fn next_steps(&self, url: &str, style: Style) -> String {
        let own = match self.source {
            ConfigSource::Demo => ADD_A_SERVER.to_owned(),
            _ if self.backends.is_empty() => ADD_A_SERVER.to_owned(),
            ConfigSource::Named(file) => {
                format!("`lockkeeper check --config {}` tests them, `lockkeeper status` shows them", file.display())
            }
            ConfigSource::Adjacent(_) | ConfigSource::Usual(_) => {
                "`lockkeeper check` tests them, `lockkeeper status` shows them".to_owned()
            }
            ConfigSource::CommandLine => "`lockkeeper status` shows its state".to_owned(),
        };
        let steps = [
            ("Connect a client", format!("claude mcp add --transport http lockkeeper {url}")),
            ("Log in", "the client opens your browser: paste the API key there, then approve".to_owned()),
            ("Your servers", own),
        ];
        let step = |(index, (what, how)): (usize, &(&str, String))| {
            format!("  {} {what:<18} {how}\n", style.paint(Emphasis::Strong, &format!("{}.", index + 1)))
        };
        std::iter::once("\n".to_owned()).chain(steps.iter().enumerate().map(step)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::Secret;

    fn message(first: Option<&FirstAccess>) -> String {
        let backends = ["demo".to_owned()];
        let message = StartMessage {
            public_url: "http://127.0.0.1:8080",
            listen: ([127, 0, 0, 1], 8080).into(),
            first,
            source: &ConfigSource::Demo,
            backends: &backends,
            data_dir: std::path::Path::new("/home/ada/.local/share/lockkeeper"),
            options: " --config my.toml",
        };
        message.render(Style::Plain)
    }

    #[test]
    fn the_first_start_shows_the_key_and_three_lines() {
        insta::assert_snapshot!(message(Some(&FirstAccess::Key(Secret::new("lkk_abc_secret_sum")))), @r#"

        Lockkeeper 0.1.0 is listening

        URL      http://127.0.0.1:8080/mcp
        Address  127.0.0.1:8080
        Servers  demo
        Data     /home/ada/.local/share/lockkeeper
        API key  lkk_abc_secret_sum
                 You log in with it in the browser. Save it now: it is not shown again.

        1. Connect a client   claude mcp add --transport http lockkeeper http://127.0.0.1:8080/mcp
        2. Log in             the client opens your browser: paste the API key there, then approve
        3. Your servers       lockkeeper add NAME COMMAND…, or lockkeeper add NAME URL: it is served at once
        "#);
    }

    #[test]
    fn a_first_start_whose_output_is_kept_shows_an_invitation() {
        let link = Secret::new("https://mcp.example.com/invite?i=lkv_secret_sum");
        let shown = message(Some(&FirstAccess::Invitation(link)));
        assert!(shown.contains("Invited  https://mcp.example.com/invite?i=lkv_secret_sum"), "{shown}");
        assert!(shown.contains("`lockkeeper invite owner --config my.toml` makes another"), "{shown}");
        assert!(!shown.contains("lkk_"));
    }

    #[test]
    fn a_later_start_shows_no_key() {
        insta::assert_snapshot!(message(None), @r#"

        Lockkeeper 0.1.0 is listening

        URL      http://127.0.0.1:8080/mcp
        Address  127.0.0.1:8080
        Servers  demo
        Data     /home/ada/.local/share/lockkeeper
        API keys `lockkeeper keys create NAME --config my.toml` makes a key to log in with
        "#);
    }
}
