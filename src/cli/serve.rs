//! `lockkeeper serve`: from the arguments to the running application, and what is said to the person who started it.

use super::{
    arguments,
    failure::Failure,
    output::{Ink, Output, Style},
    process::Process,
};
use crate::{
    app::App,
    config::{Config, Given, Log, LogFormat, Source},
    model::Naming,
    support::Secret,
    telemetry::{self, Telemetry},
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper serve                                     lockkeeper.toml in this folder, else a demonstration
  lockkeeper serve --config ~/.config/Claude/claude_desktop_config.json
  lockkeeper serve -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  lockkeeper serve --url https://docs.example.com/mcp
  lockkeeper serve --listen 0.0.0.0:8080 --public-url https://mcp.example.com

Instead of the options: LOCKKEEPER_CONFIG, LOCKKEEPER_LISTEN, LOCKKEEPER_PUBLIC_URL, LOCKKEEPER_DATA_DIR,
LOCKKEEPER_LOG. The options go before the variables, the variables before the file.";

/// `serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    configuration: arguments::Configuration,
    /// The address and port that are listened on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// The URL under which clients reach the gateway; needed where others than this machine do
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    #[command(flatten)]
    single: arguments::Single,
}

/// What there is to say once the gateway listens.
#[derive(Debug)]
pub struct Welcome<'a> {
    /// The public URL, without a slash at the end.
    pub public_url: &'a str,
    /// The operator's key, where it was just created: printed here and never again.
    pub first_key: Option<&'a Secret>,
    /// Where the configuration comes from.
    pub source: &'a Source,
    /// The names of the backends.
    pub backends: &'a [String],
    /// The folder of the data.
    pub data_dir: &'a std::path::Path,
}

// === impl Args ===

impl Args {
    /// Runs the gateway until it is told to stop.
    pub async fn run(self, process: &mut Process) -> Result<(), Failure> {
        let config = self.config(process)?;
        let telemetry = install(&config.log, process)?;
        announce(&config);
        hand_over(config, telemetry, process).await
    }

    /// The configuration that these arguments lead to.
    pub fn config(&self, process: &Process) -> Result<Config, Failure> {
        let (listen, public_url) = (self.listen.clone(), self.public_url.clone());
        let single = self.single.given();
        arguments::load(&Given { listen, public_url, single, ..self.configuration.given() }, process)
    }
}

/// Sets up logs and metrics as the configuration says.
pub fn install(log: &Log, process: &Process) -> Result<Telemetry, Failure> {
    let format = match (log.format, process.output.err) {
        (LogFormat::Json, _) => telemetry::Format::Json,
        (LogFormat::Text, Style::Colours) => telemetry::Format::Coloured,
        (LogFormat::Text, Style::Plain) => telemetry::Format::Plain,
    };
    Telemetry::install(&telemetry::Settings { filter: log.filter.clone(), format })
        .map_err(|error| Failure::failed("logs and metrics cannot be set up").why(error))
}

/// Says in the log what is about to run.
fn announce(config: &Config) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        configuration = %config.source,
        data_dir = %config.data_dir.display(),
        backends = config.backends.len(),
        names = if config.naming == Naming::Plain { "plain" } else { "prefixed" },
        "starting"
    );
    if let Some(warning) = config.proxy_warning() {
        tracing::warn!("{warning}");
    }
}

/// Builds the application and runs it until it is told to stop.
async fn hand_over(config: Config, telemetry: Telemetry, process: &mut Process) -> Result<(), Failure> {
    let (source, data_dir) = (config.source.clone(), config.data_dir.clone());
    let backends: Vec<String> = config.backends.iter().map(|spec| spec.id.to_string()).collect();
    let cannot = |error: anyhow::Error| Failure::failed("the gateway cannot run").why(format!("{error:#}"));
    let mut app = App::build(config, telemetry).await.map_err(cannot)?;
    let first_key = app.take_first_key();
    let welcome = Welcome {
        public_url: app.public_url().as_str(),
        first_key: first_key.as_ref(),
        source: &source,
        backends: &backends,
        data_dir: &data_dir,
    };
    welcome.print(&mut process.output);
    drop(first_key);
    app.serve(told_to_stop()).await.map_err(cannot)
}

/// Waits until the process is told to stop: by SIGTERM, or by SIGINT from the keyboard.
pub async fn told_to_stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let (Ok(mut terminate), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

// === impl Welcome ===

impl Welcome<'_> {
    /// Says it on standard output.
    pub fn print(&self, output: &mut Output) {
        let text = self.render(output.out);
        output.print(&text);
    }

    /// The text: the URL, the key once, and the three lines that a person needs next.
    pub fn render(&self, style: Style) -> String {
        let url = format!("{}/mcp", self.public_url);
        let title = style.dress(Ink::Strong, concat!("Lockkeeper ", env!("CARGO_PKG_VERSION")));
        let mut facts = vec![
            ("URL", style.dress(Ink::Strong, &url)),
            ("Servers", self.backends.join(", ")),
            ("Data", self.data_dir.display().to_string()),
        ];
        if let Some(key) = self.first_key {
            facts.push(("API key", style.dress(Ink::Good, key.expose())));
            facts.push(("", style.dress(Ink::Faint, "Keep it now: it is not shown again.")));
        }
        let fact =
            |(name, value): &(&str, String)| format!("  {} {value}\n", style.dress(Ink::Faint, &format!("{name:<8}")));
        let facts: String = facts.iter().map(fact).collect();
        let steps = if self.first_key.is_some() { self.next_steps(&url, style) } else { String::new() };
        format!("\n  {title} is listening\n\n{facts}{steps}")
    }

    fn next_steps(&self, url: &str, style: Style) -> String {
        let own = match self.source {
            Source::Demo => "write lockkeeper.toml (see lockkeeper.example.toml) and start again",
            _ => "`lockkeeper check` tells how they are, `lockkeeper status` while it runs",
        };
        let steps = [
            ("Connect a client", format!("claude mcp add --transport http lockkeeper {url}")),
            ("Log in", "the client opens your browser: paste the API key there, then allow it".to_owned()),
            ("Your servers", own.to_owned()),
        ];
        let step = |(index, (what, how)): (usize, &(&str, String))| {
            format!("  {} {what:<18} {how}\n", style.dress(Ink::Strong, &format!("{}.", index + 1)))
        };
        std::iter::once("\n".to_owned()).chain(steps.iter().enumerate().map(step)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn welcome(first_key: Option<&Secret>) -> String {
        let backends = ["demo".to_owned()];
        let welcome = Welcome {
            public_url: "http://127.0.0.1:8080",
            first_key,
            source: &Source::Demo,
            backends: &backends,
            data_dir: std::path::Path::new("/home/ada/.local/share/lockkeeper"),
        };
        welcome.render(Style::Plain)
    }

    #[test]
    fn the_first_start_shows_the_key_and_three_lines() {
        insta::assert_snapshot!(welcome(Some(&Secret::new("lkk_abc_secret_sum"))), @r#"

        Lockkeeper 0.1.0 is listening

        URL      http://127.0.0.1:8080/mcp
        Servers  demo
        Data     /home/ada/.local/share/lockkeeper
        API key  lkk_abc_secret_sum
                 Keep it now: it is not shown again.

        1. Connect a client   claude mcp add --transport http lockkeeper http://127.0.0.1:8080/mcp
        2. Log in             the client opens your browser: paste the API key there, then allow it
        3. Your servers       write lockkeeper.toml (see lockkeeper.example.toml) and start again
        "#);
    }

    #[test]
    fn a_later_start_shows_no_key() {
        insta::assert_snapshot!(welcome(None), @r#"

        Lockkeeper 0.1.0 is listening

        URL      http://127.0.0.1:8080/mcp
        Servers  demo
        Data     /home/ada/.local/share/lockkeeper
        "#);
    }
}
