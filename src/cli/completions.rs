//! `lockkeeper completions` and `lockkeeper man`: texts for shells and for `man`, made of the command line itself.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap_complete::Shell;
use clap_mangen::Man;

use super::{failure::CommandFailure, process::ProcessContext};

const EXAMPLES: &str = "\
Examples:
  lockkeeper completions bash > lockkeeper.bash
  lockkeeper completions zsh > ~/.zfunc/_lockkeeper
  lockkeeper completions fish > ~/.config/fish/completions/lockkeeper.fish";

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
    pub fn run(self, mut lockkeeper: clap::Command, process: &mut ProcessContext) {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut lockkeeper, "lockkeeper", &mut script);
        let mut script = String::from_utf8_lossy(&script).into_owned();
        if self.shell == Shell::Fish {
            script.extend(lockkeeper.get_subcommands().filter_map(fish_values));
        }
        process.output.print(&script);
    }
}

/// Completes the values that a command takes by position, which `clap_complete` leaves out for fish.
fn fish_values(command: &clap::Command) -> Option<String> {
    let values = command.get_positionals().flat_map(clap::Arg::get_possible_values);
    let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
    let name = command.get_name();
    (!names.is_empty()).then(|| {
        format!(
            "complete -c lockkeeper -n \"__fish_lockkeeper_using_subcommand {name}\" -f -a \"{}\"\n",
            names.join(" ")
        )
    })
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
        let folder = process.folder.join(folder);
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

/// The page, whose examples keep their lines.
fn page(man: &Man) -> io::Result<String> {
    let mut rendered = Vec::new();
    man.render(&mut rendered)?;
    let text = String::from_utf8_lossy(&rendered).into_owned();
    let Some((before, rest)) = text.split_once("\n.SH EXTRA\n") else { return Ok(text) };
    let (examples, after) = rest.split_once("\n.SH ").unwrap_or((rest.trim_end(), "\n"));
    let after = if after == "\n" { String::new() } else { format!(".SH {after}") };
    Ok(format!("{before}\n.SH EXAMPLES\n.nf\n{examples}\n.fi\n{after}"))
}
