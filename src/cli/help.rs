//! `lockkeeper help`: lists the commands that a person needs first, or all of them in groups, or explains one.

use clap::Args;

use super::terminal::{failure::CommandFailure, process::ProcessContext};

/// The commands of the first page.
const FIRST: [&str; 12] =
    ["serve", "add", "remove", "list", "check", "status", "tools", "connect", "client", "invite", "keys", "doctor"];

/// All commands, in groups.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Running", &["serve", "stdio", "connect", "status", "restart", "logs", "log", "healthcheck"]),
    ("Servers", &["add", "import", "remove", "list", "check", "tools", "translate"]),
    (
        "Clients and people",
        &["client", "invite", "invitations", "keys", "users", "clients", "grants", "upstream", "sessions"],
    ),
    ("Operation", &["doctor", "audit", "backup", "migrate", "signing-keys", "master-key"]),
    ("This program", &["help", "version", "completions", "man"]),
];

/// The word after `help` that prints [`KEYS`].
const CONFIGURATION: &str = "configuration";

/// Every key of the configuration file, with its meaning.
const KEYS: &str = include_str!("../../lockkeeper.example.toml");

/// Maximum width of a line, in columns.
const COLUMNS: usize = 80;

/// `help`.
#[derive(Debug, Args)]
pub struct HelpArgs {
    /// The command, with its subcommand; or `configuration`, for every key of the configuration file
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
    /// Lists all commands
    #[arg(long, conflicts_with = "words")]
    all: bool,
}

/// Puts the commands that a person needs first on the first page of the help.
pub(super) fn with_first_page(root: clap::Command) -> clap::Command {
    let first = listed(&root, &FIRST);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\nCommands:\n{first}\n  \
         Others: lockkeeper help --all\n\nOptions:\n{{options}}{{after-help}}"
    );
    root.help_template(template)
}

/// These commands and their descriptions, as lines of at most [`COLUMNS`].
fn listed(root: &clap::Command, names: &[&str]) -> String {
    let known = names.iter().filter_map(|name| root.find_subcommand(name));
    let width = names.iter().map(|name| name.len()).max().unwrap_or_default();
    let line = |command: &clap::Command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let indent = width + 4;
        let (mut text, mut at) = (format!("  {:<width$}  ", command.get_name()), indent);
        for (index, word) in about.split(' ').enumerate() {
            if at + word.chars().count() + 1 > COLUMNS {
                text.extend(["\n", &" ".repeat(indent)]);
                at = indent;
            } else if index > 0 {
                text.push(' ');
                at += 1;
            }
            text.push_str(word);
            at += word.chars().count();
        }
        text + "\n"
    };
    known.map(line).collect()
}

// === impl HelpArgs ===

impl HelpArgs {
    /// Prints the help.
    pub fn run(self, root: clap::Command, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        if self.all {
            let groups: Vec<String> =
                GROUPS.iter().map(|(title, names)| format!("{title}:\n{}", listed(&root, names))).collect();
            process.output.print(&groups.join("\n"));
            process.output.print("\nlockkeeper help COMMAND explains one.");
            process.output.print("lockkeeper help configuration explains every key of lockkeeper.toml.");
            return Ok(());
        }
        if self.words == [CONFIGURATION] {
            process.output.print(KEYS);
            return Ok(());
        }
        let mut command = root;
        // the name that the usage line shows
        let mut name = command.get_name().to_owned();
        for word in &self.words {
            let Some(found) = command.find_subcommand(word) else {
                return Err(self.unknown(word, &name));
            };
            name.extend([" ", found.get_name()]);
            command = found.clone().bin_name(name.clone());
        }
        let text = command.render_help().to_string();
        process.output.print(&text);
        Ok(())
    }

    /// The failure for `word`, which is not a subcommand of `before`.
    fn unknown(&self, word: &str, before: &str) -> CommandFailure {
        let failure = CommandFailure::usage(format!("there is no command `{}`", self.words.join(" ")));
        match before.split_once(' ') {
            Some((_, command)) => failure.advise(format!("`lockkeeper help {command}` explains `{command}`")),
            None if CONFIGURATION.starts_with(word) => failure
                .advise(format!("`lockkeeper help {CONFIGURATION}` explains every key of the configuration file")),
            None => failure.advise("`lockkeeper help --all` lists all commands"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_is_in_one_group_and_the_first_ones_are_commands() {
        let root = Cli::command();
        let known: BTreeSet<&str> = root.get_subcommands().map(clap::Command::get_name).collect();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), known);
        assert_eq!(grouped.len(), known.len(), "each once");
        assert!(FIRST.iter().all(|name| known.contains(name)));
    }
}
