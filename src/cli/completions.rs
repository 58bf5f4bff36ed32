//! `lockkeeper completions` and `lockkeeper man`: texts for shells and for `man`, made of the command line itself.

use std::{fs, path::PathBuf};

use clap_complete::Shell;

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
        let unwritten = |error: std::io::Error| CommandFailure::failed("the pages cannot be written").why(error);
        let Some(folder) = self.folder else {
            let mut page = Vec::new();
            clap_mangen::Man::new(lockkeeper).render(&mut page).map_err(unwritten)?;
            process.output.print(&String::from_utf8_lossy(&page));
            return Ok(());
        };
        let folder = process.folder.join(folder);
        fs::create_dir_all(&folder).map_err(unwritten)?;
        clap_mangen::generate_to(lockkeeper, &folder).map_err(unwritten)?;
        process.output.remark(&format!("The pages are in {}", folder.display()));
        Ok(())
    }
}
