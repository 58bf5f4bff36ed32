//! `lockkeeper list`: prints the servers of the configuration without starting them.

use clap::Args;
use serde_json::{Value, json};

use crate::{
    cli::{
        arguments,
        terminal::{
            documents::FormatArgs,
            failure::CommandFailure,
            process::ProcessContext,
            table::{Cell, TextTable},
        },
    },
    model::{BackendSpec, SocketAddress, TransportSpec},
};

/// `list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    form: FormatArgs,
}

impl ListArgs {
    /// Prints the servers in the order of the configuration.
    pub fn run(&self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let config = arguments::load(&process.options.given(), process)?;
        if self.form.json {
            let servers: Vec<Value> = config.backends.iter().map(described).collect();
            process.output.json(&json!({ "configuration": config.source.to_string(), "servers": servers }));
            return Ok(());
        }
        process.output.remark(&format!("configuration: {}", config.source));
        let mut table = TextTable::new(&["SERVER", "TRANSPORT", "COMMAND OR URL"]);
        for spec in &config.backends {
            let server = place(&spec.transport);
            table.row([spec.id.as_str(), spec.transport.name(), &server].map(Cell::from));
        }
        let text = table.render(process.output.out);
        process.output.print(&text);
        Ok(())
    }
}

fn described(spec: &BackendSpec) -> Value {
    json!({ "id": spec.id.as_str(), "transport": spec.transport.name(), "place": place(&spec.transport) })
}

/// A word, in quotes if a shell needs them.
fn quoted(word: &str) -> String {
    let is_plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+:@%=,".contains(c));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// The command or the address. Variables, headers and the query of a URL are left out: that is where secrets belong.
fn place(transport: &TransportSpec) -> String {
    match transport {
        TransportSpec::Stdio(stdio) => {
            [&stdio.command].into_iter().chain(&stdio.args).map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
        }
        TransportSpec::Http(http) | TransportSpec::Sse(http) | TransportSpec::WebSocket(http) => {
            let mut url = http.url.clone();
            url.set_query(None);
            url.to_string()
        }
        TransportSpec::Socket(SocketAddress::Unix(path)) => format!("unix:{}", path.display()),
        TransportSpec::Socket(SocketAddress::Tcp { host, port }) => format!("tcp://{host}:{port}"),
        TransportSpec::Demo => "the built-in demonstration".to_owned(),
    }
}
