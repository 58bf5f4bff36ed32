//! The `lockkeeper` command.

use std::process::ExitCode;

use lockkeeper::cli;

fn main() -> ExitCode {
    cli::run(std::env::args_os(), cli::Process::system()).into()
}
