//! `lockkeeper status`: prints the servers and sessions of the running gateway.

mod tables;

pub use self::tables::sessions;
pub(in crate::cli) use self::tables::state;
use self::tables::{backends, details, groups};
use super::{containment, gateway_client::GatewayArgs};
use crate::{
    cli::terminal::{
        documents::FormatArgs,
        failure::CommandFailure,
        output::{Emphasis, Style},
        process::{CommandPurpose, ProcessContext},
    },
    model::status::{
        BackendState, BackendStatus, CertificateStatus, MemoryStatus, OmittedEntry, ProcessStatus, Status, last_output,
        summary,
    },
    support::printable,
};

/// `status`.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// Also prints transports, eras, prompts and resources, and notices about protocol versions for the authors of servers
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    form: FormatArgs,
    #[command(flatten)]
    target: GatewayArgs,
}

impl StatusArgs {
    /// Relation to the running gateway.
    pub(in crate::cli) fn purpose(&self) -> CommandPurpose {
        self.target.purpose()
    }

    /// Requests the status and prints it.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let (status, document) = self.target.find(process)?.status().await?;
        if self.form.json {
            process.output.json(&document);
        } else {
            let mut text = render(&status, process.output.out);
            if self.verbose {
                text.extend([
                    "\n",
                    &details(&status.backends, process.output.out),
                    &versions(&status.backends, process.output.out),
                ]);
            }
            process.output.print(&text);
        }
        Ok(())
    }
}

/// The whole status as text.
pub fn render(status: &Status, style: Style) -> String {
    let summary = summary(status.backends.iter().map(|backend| &backend.state));
    let title = style.paint(Emphasis::Strong, &format!("Lockkeeper {}", status.version));
    let mut text = format!("{title}  {}  since {}\n{}\n", status.url, status.started, summary);
    for difference in &status.configuration {
        text.extend([&style.paint(Emphasis::Bad, "configuration"), " ", &printable(difference), "\n"]);
    }
    for fault in &status.network {
        text.extend([&style.paint(Emphasis::Bad, "network"), " ", &printable(fault), "\n"]);
    }
    text.extend(status.process.as_ref().map(process_line));
    text.push('\n');
    text.push_str(&backends(&status.backends, style));
    text.push_str(&containment::render(&status.backends, style));
    text.push_str(&notes(&status.backends, style));
    text.push_str(&left_out(&status.backends, style));
    text.push('\n');
    text.push_str(&groups(&status.groups, style));
    text.push_str(&sessions(&status.sessions, style));
    text.extend(status.certificate.as_ref().map(|found| certificate(found, style)));
    text.extend(status.memory.as_ref().map(memory));
    text
}

/// Lines about the process, its configuration file and its data folder.
fn process_line(process: &ProcessStatus) -> String {
    let ProcessStatus { pid, uptime_seconds, configuration, data_dir } = process;
    let (days, hours, minutes) = (uptime_seconds / 86400, uptime_seconds / 3600 % 24, uptime_seconds / 60 % 60);
    let uptime = match (days, hours, minutes) {
        (0, 0, 0) => format!("{uptime_seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    };
    let file = configuration.as_deref().unwrap_or("none: one server from the command line");
    let (file, folder) = (printable(file), printable(data_dir));
    format!("process {pid}, up {uptime}\nconfiguration {file}\ndata {folder}\n")
}

/// A line about the certificate, and one about its fault.
fn certificate(certificate: &CertificateStatus, style: Style) -> String {
    let CertificateStatus { names, source, issuer, valid_until, next_order, fault } = certificate;
    let what = match (valid_until, issuer) {
        (Some(until), Some(issuer)) => format!("by {issuer},\n  until {until}"),
        _ => style.paint(Emphasis::Bad, "there is none yet"),
    };
    let next = next_order.as_ref().map_or_else(String::new, |next| format!(", next order {next}"));
    let mut text = format!("\nCertificate: {} ({source}): {what}{next}\n", printable(&names.join(", ")));
    if let Some(fault) = fault {
        text.extend([&style.paint(Emphasis::Bad, "certificate"), " ", &printable(fault), "\n"]);
    }
    text
}

/// A line about the memory that messages take up.
fn memory(memory: &MemoryStatus) -> String {
    let mebibytes = |bytes: usize| format!("{}.{} MiB", bytes >> 20, (bytes >> 10) % 1024 * 10 / 1024);
    let most: Vec<String> =
        memory.holders.iter().map(|most| format!("{} {}", most.holder, mebibytes(most.held))).collect();
    let most = if most.is_empty() { String::new() } else { format!(": {}", printable(&most.join(", "))) };
    format!("\nMemory for messages: {} of {}{most}\n", mebibytes(memory.held), mebibytes(memory.budget))
}

/// Hidden list entries, with the reasons.
pub(super) fn left_out(backends: &[BackendStatus], style: Style) -> String {
    let mut text = String::new();
    for backend in backends.iter().filter(|backend| !backend.left_out.is_empty()) {
        text.extend([
            "\n",
            &style.paint(Emphasis::Strong, &backend.id),
            ": hidden, because clients would reject the whole list\n",
        ]);
        for OmittedEntry { list, name, reason } in &backend.left_out {
            let name = if name.is_empty() { "(no name)" } else { name };
            text.extend(["  ", list, " ", &printable(name), ": ", &printable(reason), "\n"]);
        }
    }
    text
}

/// Notices about versions; backends with the same notices are grouped.
pub(in crate::cli) fn versions(backends: &[BackendStatus], style: Style) -> String {
    let mut told: Vec<(&BackendStatus, Vec<&str>)> = Vec::new();
    for backend in backends.iter().filter(|backend| !backend.lacks.is_empty() || !backend.notices.is_empty()) {
        let same =
            |(other, _): &&mut (&BackendStatus, _)| other.lacks == backend.lacks && other.notices == backend.notices;
        match told.iter_mut().find(same) {
            Some((_, ids)) => ids.push(&backend.id),
            None => told.push((backend, vec![&backend.id])),
        }
    }
    let mut text = String::new();
    for (backend, ids) in told {
        text.extend(["\n", &style.paint(Emphasis::Strong, &ids.join(", ")), ": protocol version (for its authors)\n"]);
        for notice in &backend.notices {
            text.extend(["  ", notice, "\n"]);
        }
        if !backend.lacks.is_empty() {
            text.extend(["  without: ", &backend.lacks.join(", "), "\n"]);
        }
    }
    text
}

/// The reason, the advice, what is missing, the warnings and the last output of each backend that has any.
pub(in crate::cli) fn notes(backends: &[BackendStatus], style: Style) -> String {
    backends.iter().map(|backend| note(backend, style)).collect()
}

/// The time since which a backend fails, and the time of the next attempt.
fn failing(state: &BackendState, since: &str) -> String {
    let next = state.to_string();
    let next = next.split_once(", ").map_or_else(String::new, |(_, next)| format!(", {next}"));
    format!("failing since {since}{next}")
}

fn note(backend: &BackendStatus, style: Style) -> String {
    let since = backend.failing_since.as_ref().map(|since| failing(&backend.state, since));
    let said = since.as_deref().into_iter().chain(backend.state.reason()).chain(backend.advice.as_deref());
    let no_tools = backend.lacks_tools();
    let said = said.chain(no_tools.as_deref()).chain(backend.other_era());
    let said = said.chain(backend.warnings.iter().map(String::as_str));
    let said: Vec<String> = said.map(printable).collect();
    let output = last_output(&backend.output);
    if said.is_empty() && output.is_empty() {
        return String::new();
    }
    let said = if said.is_empty() { backend.state.to_string() } else { said.join("\n  ") };
    let mut text = format!("\n{}: {said}\n", style.paint(Emphasis::Strong, &backend.id));
    for line in output {
        text.extend(["  ", &style.paint(Emphasis::Faint, &printable(&line.to_string())), "\n"]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::status::{
        EmptyList, EraSource, EraStatus, GroupStatus, MemoryHolder, OfferCounts, OutputLine, OutputStream,
        SessionStatus,
    };

    fn backend(id: &str, state: BackendState) -> BackendStatus {
        let is_failing = matches!(state, BackendState::Restarting { .. } | BackendState::Failed { .. });
        BackendStatus {
            protocol_version: matches!(state, BackendState::Ready).then(|| "2025-06-18".to_owned()),
            era: matches!(state, BackendState::Ready).then(|| EraStatus {
                era: "legacy".to_owned(),
                found: EraSource::Probed,
                since: Some("2026-01-01T00:00:00Z".to_owned()),
                also_modern: id == "both",
            }),
            lacks: vec!["icons".to_owned(), "cache hints".to_owned()],
            notices: vec!["MCP 2025-06-18 is final".to_owned()],
            failing_since: is_failing.then(|| "2026-01-01T00:00:07Z".to_owned()),
            counts: OfferCounts { tools: 3, prompts: 0, resources: 12 },
            sessions: 1,
            processes: (id != "gone").then_some(2),
            memory_bytes: (id != "gone").then_some(123 << 20),
            output: output(&state),
            ..BackendStatus::new(id.to_owned(), "stdio", state)
        }
    }

    fn output(state: &BackendState) -> Vec<OutputLine> {
        let line = |stream, text: &str| OutputLine { stream, text: text.to_owned() };
        match state {
            BackendState::Ready => Vec::new(),
            BackendState::Starting { .. } => vec![line(OutputStream::Stdout, "Downloading 3 packages")],
            _ => {
                vec![line(OutputStream::Stderr, "Traceback\u{1b}[31m"), line(OutputStream::Stderr, "ImportError: mcp")]
            }
        }
    }

    fn refused_certificate() -> CertificateStatus {
        CertificateStatus {
            names: vec!["mcp.example.com".to_owned()],
            source: "https://acme.example/dir".to_owned(),
            issuer: Some("Example".to_owned()),
            valid_until: Some("2026-03-01T00:00:00Z".to_owned()),
            next_order: Some("2026-02-01T00:00:00Z".to_owned()),
            fault: Some("the order failed: no\u{1b}".to_owned()),
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "the status has many parts")]
    fn the_status_shows_each_state_and_the_reason_of_failures() {
        let status = Status {
            configuration: vec!["has changed, which takes effect at the next start: [limits]".to_owned()],
            version: "0.1.0".to_owned(),
            started: "2026-01-01T00:00:00Z".to_owned(),
            url: "https://mcp.example.com/mcp".to_owned(),
            backends: vec![
                backend("git", BackendState::Ready),
                backend("a-name-that-is-longer-than-others", BackendState::Ready),
                backend("slow", BackendState::Starting { seconds: 12 }),
                backend("lost", BackendState::Restarting { reason: "it exited with code 1".to_owned() }),
                backend("gone", BackendState::Failed { reason: "it has no key".to_owned(), retry_in: Some(8) }),
            ],
            summary: String::new(),
            groups: vec![GroupStatus {
                id: "work".to_owned(),
                url: "https://mcp.example.com/mcp/work".to_owned(),
                servers: vec!["git".to_owned(), "slow".to_owned()],
            }],
            sessions: vec![SessionStatus {
                grant: None,
                id: Some("0123abcd".to_owned()),
                rights: None,
                user: "key:lNctAbCdEf".to_owned(),
                key_name: Some("laptop".to_owned()),
                client: "an agent that is named at length 2.1".to_owned(),
                endpoint: "/mcp".to_owned(),
                protocol_version: "2025-11-25".to_owned(),
                idle_seconds: 12,
            }],
            certificate: Some(refused_certificate()),
            process: Some(ProcessStatus {
                pid: 4711,
                uptime_seconds: 7380,
                configuration: Some("/etc/lockkeeper/lockkeeper.toml".to_owned()),
                data_dir: "/var/lib/lockkeeper".to_owned(),
            }),
            network: vec!["https to docs.example failed at the start (refused\u{1b}): the server `git`".to_owned()],
            memory: Some(MemoryStatus {
                budget: 512 << 20,
                held: 3 << 19,
                holders: vec![MemoryHolder { holder: "user ann\u{1b}".to_owned(), held: 1 << 20 }],
            }),
        };
        let text = render(&status.in_order(), Style::Plain);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        insta::assert_snapshot!(text, @r#"
        Lockkeeper 0.1.0  https://mcp.example.com/mcp  since 2026-01-01T00:00:00Z
        2 ready, 2 starting, 1 failing
        configuration has changed, which takes effect at the next start: [limits]
        network https to docs.example failed at the start (refused?): the server `git`
        process 4711, up 2 h 3 min
        configuration /etc/lockkeeper/lockkeeper.toml
        data /var/lib/lockkeeper

        SERVER                      STATE       VERSION     TOOLS  SESSIONS  RESTARTS  PROCESSES  MEMORY
        gone                        failed      -           3      1         0         -          -
        lost                        restarting  -           3      1         0         2          123.0 MiB
        slow                        starting    -           3      1         0         2          123.0 MiB
        git                         ready       2025-06-18  3      1         0         2          123.0 MiB
        a-name-that-is-longer-tha…  ready       2025-06-18  3      1         0         2          123.0 MiB

        gone: failing since 2026-01-01T00:00:07Z, next try in 8 s
          it has no key
          stderr | Traceback?[31m
          stderr | ImportError: mcp

        lost: failing since 2026-01-01T00:00:07Z
          it exited with code 1
          stderr | Traceback?[31m
          stderr | ImportError: mcp

        slow: starting (12 s)
          stdout | Downloading 3 packages

        GROUP  SERVERS    URL
        work   git, slow  https://mcp.example.com/mcp/work

        SESSION   USER                CLIENT                    ENDPOINT  VERSION     IDLE
        0123abcd  key:lNct… (laptop)  an agent that is named …  /mcp      2025-11-25  12s

        Certificate: mcp.example.com (https://acme.example/dir): by Example,
          until 2026-03-01T00:00:00Z, next order 2026-02-01T00:00:00Z
        certificate the order failed: no?

        Memory for messages: 1.5 MiB of 512.0 MiB: user ann? 1.0 MiB
        "#);
    }

    #[test]
    fn a_ready_server_without_tools_or_in_one_of_its_eras_has_that_beside_it() {
        let lazy = BackendStatus {
            no_tools: Some(EmptyList::Refused { error: "not today (-32603)".to_owned() }),
            ..backend("lazy", BackendState::Ready)
        };
        let both = backend("both", BackendState::Ready);
        insta::assert_snapshot!(notes(&[lazy, both], Style::Plain), @r#"
        lazy: no tools: the server answers the request for its list with an error: not today (-32603)

        both: it speaks MCP 2026-07-28 too, and is used with sessions: `era = "modern"` in its section changes that
        "#);
    }
}
