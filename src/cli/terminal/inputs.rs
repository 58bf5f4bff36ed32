//! Asks questions on the terminal: for confirmation, and for values that another program's file leaves open. Each value
//! is asked for once per process.

use std::io::{self, BufRead as _, IsTerminal as _};

use super::{failure::CommandFailure, process::ProcessContext};
use crate::{
    config::{self, InputKind, OpenInput},
    support::Secret,
};

/// Maximum length of an answer, in bytes.
const LONGEST: usize = 64 << 10;

/// Asks for all open values. Without a terminal it asks nothing, and reading the configuration reports what is missing.
pub(in crate::cli) fn ask(process: &mut ProcessContext) -> Result<(), CommandFailure> {
    if !is_interactive() {
        return Ok(());
    }
    for open in config::open_inputs(&process.options.given(), &process.environment, &process.folder) {
        let answer = answer(&open, process)?;
        process.options.inputs.insert(open.id, Secret::new(answer));
    }
    Ok(())
}

/// True if a person can be asked.
pub(super) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a yes-or-no question; without a terminal the answer is no.
pub(in crate::cli) fn confirmed(question: &str, process: &mut ProcessContext) -> Result<bool, CommandFailure> {
    if !is_interactive() {
        return Ok(false);
    }
    process.output.remark(question);
    let said = line().map_err(|error| CommandFailure::failed("there is no answer").why(error))?;
    Ok(["y", "yes"].contains(&said.trim().to_ascii_lowercase().as_str()))
}

fn answer(open: &OpenInput, process: &mut ProcessContext) -> Result<String, CommandFailure> {
    let failed = |error: io::Error| CommandFailure::failed(format!("no answer for `{}`", open.id)).why(error);
    let default = open.default.as_ref().map(|default| format!(" [{default}]")).unwrap_or_default();
    loop {
        let said = match &open.kind {
            InputKind::Hidden => {
                rpassword::prompt_password(format!("{}{default}: ", open.description)).map_err(failed)?
            }
            InputKind::Line => {
                process.output.remark(&format!("{}{default}: ", open.description));
                line().map_err(failed)?
            }
            InputKind::Choice(options) => {
                process.output.remark(&format!("{}{default} ({}): ", open.description, options.join(", ")));
                line().map_err(failed)?
            }
        };
        let given = if said.is_empty() { open.default.clone().unwrap_or_default() } else { said };
        match &open.kind {
            InputKind::Choice(options) if !options.contains(&given) => {
                process.output.remark(&format!("this must be one of {}", options.join(", ")));
            }
            _ if given.len() > LONGEST => process.output.remark("this is too long"),
            _ => return Ok(given),
        }
    }
}

/// A line of standard input, without its end.
fn line() -> io::Result<String> {
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
