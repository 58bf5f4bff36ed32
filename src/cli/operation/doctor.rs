//! `lockkeeper doctor`: examines whether the well-known clients can log in at a server. `crate::doctor` has the rules.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use clap::{Args, builder::PossibleValuesParser};
use serde_json::json;
use url::Url;

use crate::{
    cli::{
        arguments,
        terminal::{
            documents::FormatArgs,
            failure::CommandFailure,
            output::{Emphasis, Style},
            process::ProcessContext,
            table::{Cell, TextTable},
        },
    },
    doctor::{CLIENTS, ClientProfile, ClientVerdict, Doctor, Examination, Finding, RegistrationPolicy, Severity},
    fetch::OpenClient,
    support::{OsRandom, printable},
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper doctor https://mcp.example.com/mcp
  lockkeeper doctor https://mcp.example.com/mcp --client claude
  lockkeeper doctor https://mcp.example.com/mcp --no-register --json

Exit codes: 0 every client connects, 1 some do not, 2 wrong usage.";

/// `doctor`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// The URL of an MCP server, as people give it to their clients
    #[arg(value_parser = server_url)]
    url: Url,
    /// Examines only for this client; may be repeated
    #[arg(long = "client", value_name = "NAME", value_parser = PossibleValuesParser::new(CLIENTS.iter().map(|one| one.id)))]
    clients: Vec<String>,
    /// Registers no clients: what follows the registration is not tried
    #[arg(long)]
    no_register: bool,
    /// File with certificates of authorities to trust in addition to the system's, in PEM
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    #[command(flatten)]
    form: FormatArgs,
}

// === impl DoctorArgs ===

impl DoctorArgs {
    /// Examines the server for each client, and prints the result.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let policy = if self.no_register { RegistrationPolicy::Never } else { RegistrationPolicy::Once };
        let clients: Vec<&'static ClientProfile> = CLIENTS
            .iter()
            .filter(|one| self.clients.is_empty() || self.clients.iter().any(|id| id == one.id))
            .collect();
        let network = arguments::network_with_ca_file(self.ca_file.as_deref(), process)?;
        let http = OpenClient::new(&network, &process.environment.to_strings())
            .map_err(|error| CommandFailure::failed("outbound HTTP cannot be set up").why(error))?;
        let doctor = Doctor::new(self.url.clone(), policy, http, Arc::new(OsRandom));
        if policy == RegistrationPolicy::Once {
            process.output.remark(&format!(
                "examining for {} clients; each registers once, if registration is open (--no-register: none does)",
                clients.len()
            ));
        }
        let results = match doctor.reach().await {
            Ok(()) => {
                // one after another, since servers limit registrations and errors by address
                let mut results = Vec::new();
                for client in clients {
                    results.push(doctor.examine(client).await);
                }
                results
            }
            Err(Finding { problem, advice, .. }) if !self.form.json => {
                return Err(CommandFailure::failed(format!("{}: {problem}", self.url)).advise(advice));
            }
            Err(finding) => clients.into_iter().map(|client| Examination::without_response(client, &finding)).collect(),
        };
        if self.form.json {
            let clients: Vec<_> = results.iter().map(document).collect();
            process.output.json(&json!({ "url": self.url, "clients": clients }));
        } else {
            let text = render(&results, process.output.out);
            process.output.print(&text);
        }
        verdict(&results, &self.url)
    }
}

fn document(result: &Examination) -> serde_json::Value {
    json!({
        "id": result.client.id, "name": result.client.name, "verdict": result.verdict,
        "findings": result.findings,
    })
}

/// The clients as a table, and below it each problem once, with the clients that it concerns.
fn render(results: &[Examination], style: Style) -> String {
    let mut table = TextTable::new(&["CLIENT", "NAME", "VERDICT"]);
    let mut problems: BTreeMap<(Severity, &str, &str, &str), Vec<&str>> = BTreeMap::new();
    for result in results {
        let (text, emphasis) = match result.verdict {
            ClientVerdict::Connects => ("connects", Emphasis::Good),
            ClientVerdict::NeedsNoLogin => ("connects without a login", Emphasis::Good),
            ClientVerdict::NotRegistered => ("not registered", Emphasis::Waiting),
            ClientVerdict::CannotReach => ("cannot reach it", Emphasis::Bad),
            ClientVerdict::Fails => ("fails", Emphasis::Bad),
        };
        let verdict = Cell::from(text).emphasis(emphasis);
        table.row([Cell::from(result.client.id), Cell::from(result.client.name), verdict]);
        for Finding { severity, at, problem, advice } in &result.findings {
            problems.entry((*severity, at, problem, advice)).or_default().push(result.client.id);
        }
    }
    let mut text = table.render(style);
    for ((severity, at, problem, advice), clients) in problems {
        let mark = match severity {
            Severity::Blocks => style.paint(Emphasis::Bad, "blocks"),
            Severity::MayFail => style.paint(Emphasis::Waiting, "may fail"),
        };
        let (at, problem, advice) = (printable(at), printable(problem), printable(advice));
        let at = style.paint(Emphasis::Strong, &at);
        let clients = clients.join(", ");
        let lines = [format!("\n{mark} {at}"), problem, format!("change: {advice}"), format!("clients: {clients}\n")];
        text.push_str(&lines.join("\n  "));
    }
    text
}

fn verdict(results: &[Examination], url: &Url) -> Result<(), CommandFailure> {
    let with =
        |verdict| results.iter().filter(|one| one.verdict == verdict).map(|one| one.client.id).collect::<Vec<_>>();
    let (failed, far) = (with(ClientVerdict::Fails), with(ClientVerdict::CannotReach));
    let (count, all) = (failed.len() + far.len(), results.len());
    if count == 0 {
        return Ok(());
    }
    let mut reasons = Vec::new();
    if !failed.is_empty() {
        reasons.push(format!("fails for {}", failed.join(", ")));
    }
    if !far.is_empty() {
        reasons.push(format!("cannot be reached by {}, which run at their vendors", far.join(", ")));
    }
    let failure = CommandFailure::failed(format!("{count} of {all} clients do not connect"))
        .why(format!("{url} {}", reasons.join("; it ")));
    let whole = url.join("/mcp").ok().filter(|_| failed.len() == all && url.path() == "/");
    Err(failure.advise(match whole {
        Some(whole) => format!("most MCP servers are at a path: `lockkeeper doctor {whole}`"),
        None => "the reasons are above, with the document or header that is wrong".to_owned(),
    }))
}

fn server_url(text: &str) -> Result<Url, String> {
    if let Ok(url) = Url::parse(text)
        && matches!(url.scheme(), "http" | "https")
        && url.has_host()
    {
        return Ok(url);
    }
    let with_scheme = Url::parse(&format!("https://{text}")).ok().filter(|url| url.has_host() && !text.contains("//"));
    Err(match with_scheme {
        Some(url) if url.path() == "/" => format!("this is a host; give the URL of the MCP server, such as `{url}mcp`"),
        Some(url) => format!("this has no scheme; write `{url}`"),
        None => "this must be a URL such as `https://mcp.example.com/mcp`".to_owned(),
    })
}
