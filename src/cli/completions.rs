//! `lockkeeper completions` and `lockkeeper man`: scripts for shells, and pages for `man`.

mod completed_names;

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use clap_complete::{Shell, env::Shells};
use clap_mangen::Man;

use super::terminal::{
    failure::{CommandFailure, Exit},
    process::ProcessContext,
};

/// The environment variable by which a shell's script asks for completions: it has the name of the shell.
pub(super) const VARIABLE: &str = "LOCKKEEPER_COMPLETE";

const EXAMPLES: &str = "\
Examples:
  lockkeeper completions bash > lockkeeper.bash
  lockkeeper completions zsh > ~/.zfunc/_lockkeeper
  lockkeeper completions fish > ~/.config/fish/completions/lockkeeper.fish

The scripts ask the program, which knows its commands and options, and reads the
names of servers, groups, keys and users where the command would. Print them
again after an update.";

/// `completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// `man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Folder for the pages of all commands, such as `~/.local/share/man/man1`; default: prints the page of `lockkeeper`
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

// === impl CompletionsArgs ===

impl CompletionsArgs {
    /// Prints the script for the command line `lockkeeper`.
    pub fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let failed = |why: &str| CommandFailure::failed("there are no completions for this shell").why(why);
        let shells = Shells::builtins();
        let name = self.shell.to_string();
        let completer = shells.completer(&name).ok_or_else(|| failed("it is not known"))?;
        let mut script = Vec::new();
        let written = completer.write_registration(VARIABLE, "lockkeeper", "lockkeeper", "lockkeeper", &mut script);
        written.map_err(|error| failed(&error.to_string()))?;
        let script = String::from_utf8_lossy(&script);
        process.output.print(&if self.shell == Shell::Zsh { in_function_path(&script) } else { script.into_owned() });
        Ok(())
    }
}

/// The script for zsh, changed so that it also completes when zsh autoloads it as the function `_lockkeeper`.
fn in_function_path(script: &str) -> String {
    let Some((function, registration)) = script.trim_end().rsplit_once('\n') else { return script.to_owned() };
    let name = registration.split(' ').nth(1).unwrap_or_default();
    format!(
        "{function}\nif [ \"$funcstack[1]\" = \"_lockkeeper\" ]; then\n    {name} \"$@\"\nelse\n    {registration}\nfi"
    )
}

/// Hides all options, so that they are offered only if nothing else is.
fn with_options_last(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|argument| if argument.is_positional() { argument } else { argument.hide(true) });
    command.mut_subcommands(with_options_last)
}

/// Prints the completions of a command line for a shell's script; nothing if there are none.
pub(super) fn answer(
    shell: &str,
    arguments: Vec<OsString>,
    lockkeeper: clap::Command,
    process: &mut ProcessContext,
) -> Exit {
    let shells = Shells::builtins();
    let words: Vec<OsString> = arguments.into_iter().skip_while(|word| word != "--").skip(1).collect();
    let Some(completer) = shells.completer(shell).filter(|_| !words.is_empty()) else { return Exit::Usage };
    let mut lockkeeper = completed_names::added_to(lockkeeper, &words, process);
    let at = process.environment.get("_CLAP_COMPLETE_INDEX").and_then(|at| at.parse().ok());
    let begun = words.get(at.unwrap_or(words.len() - 1));
    if !begun.is_some_and(|word| word.to_string_lossy().starts_with('-')) {
        lockkeeper.build();
        lockkeeper = with_options_last(lockkeeper);
    }
    let mut answer = Vec::new();
    let answered = completer.write_complete(&mut lockkeeper, words, Some(&process.folder), &mut answer);
    if answered.is_ok() && !answer.is_empty() {
        process.output.print(&String::from_utf8_lossy(&answer));
    }
    Exit::Done
}

// === impl ManArgs ===

impl ManArgs {
    /// Prints the page of the command line `lockkeeper`, or writes those of all its commands.
    pub fn run(self, lockkeeper: clap::Command, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let unwritten = |error: io::Error| CommandFailure::failed("the pages cannot be written").why(error);
        let Some(folder) = self.folder else {
            let text = page(&Man::new(lockkeeper)).map_err(unwritten)?;
            process.output.print(&text);
            return Ok(());
        };
        let name = folder.to_str().unwrap_or_default();
        let is_command = lockkeeper.find_subcommand(name).is_some();
        let folder = process.folder.join(&folder);
        if is_command && !folder.is_dir() {
            return Err(CommandFailure::usage(format!(
                "`{name}` is a command, and `man` takes a folder for all pages"
            ))
            .advise(format!("`lockkeeper help {name}` explains it; for a folder of this name: `./{name}`")));
        }
        fs::create_dir_all(&folder).map_err(unwritten)?;
        let mut lockkeeper = lockkeeper.disable_help_subcommand(true);
        lockkeeper.build();
        write_pages(lockkeeper, &folder).map_err(unwritten)?;
        process.output.remark(&format!("The pages are in {}", folder.display()));
        Ok(())
    }
}

/// Writes the pages of a command and of its subcommands.
fn write_pages(command: clap::Command, folder: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        write_pages(subcommand.clone(), folder)?;
    }
    let man = Man::new(command);
    fs::write(folder.join(man.get_filename()), page(&man)?)
}

/// The text of a page. Its examples keep their line breaks.
fn page(man: &Man) -> io::Result<String> {
    let mut rendered = Vec::new();
    man.render(&mut rendered)?;
    let text = String::from_utf8_lossy(&rendered).into_owned();
    let Some((before, rest)) = text.split_once("\n.SH EXTRA\n") else { return Ok(text) };
    let (examples, after) = rest.split_once("\n.SH ").unwrap_or((rest.trim_end(), "\n"));
    let examples = examples.strip_prefix("Examples:\n").unwrap_or(examples);
    let after = if after == "\n" { String::new() } else { format!(".SH {after}") };
    Ok(format!("{before}\n.SH EXAMPLES\n.nf\n{examples}\n.fi\n{after}"))
}
