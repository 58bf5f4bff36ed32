//! The launcher of programs: this program itself, with a mark in place of a subcommand. It asks the kernel to end it with the
//! gateway, however that ends, and becomes the program that its arguments name.
//!
//! What runs between the start of a process and its program would be unsafe code in this process; a program of its own needs none.

use std::{
    ffi::{OsStr, OsString},
    process::ExitCode,
};

/// The argument in place of a subcommand.
const MARK: &str = "\u{1}launch";

/// The arguments of a launcher that becomes `program`, whose arguments follow. It has to be started by a thread that lives as long as
/// the process: the kernel waits for the end of that.
pub fn arguments(program: &OsStr) -> [OsString; 3] {
    [MARK.into(), std::process::id().to_string().into(), program.to_owned()]
}

/// Becomes the program, if these are the arguments of a launcher; `None` if they are not.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.skip(1);
    if arguments.next().is_none_or(|first| first != MARK) {
        return None;
    }
    let (parent, program) = (arguments.next()?, arguments.next()?);
    Some(become_program(&parent, &program, arguments))
}

#[cfg(target_os = "linux")]
fn become_program(parent: &OsStr, program: &OsStr, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    use std::{
        io::{self, Write as _},
        os::unix::process::CommandExt as _,
        process::Command,
    };

    use nix::{
        sys::{prctl, signal::Signal},
        unistd::getppid,
    };

    let asked = prctl::set_pdeathsig(Signal::SIGKILL);
    // the gateway may have ended before that
    if asked.is_ok() && getppid().to_string() != parent.to_string_lossy() {
        return ExitCode::FAILURE;
    }
    let error = Command::new(program).args(arguments).exec();
    let _ = writeln!(io::stderr(), "{} cannot be started: {error}", program.to_string_lossy());
    // as shells tell it
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

#[cfg(not(target_os = "linux"))]
fn become_program(_: &OsStr, _: &OsStr, _: impl Iterator<Item = OsString>) -> ExitCode {
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_a_person_are_none_of_a_launcher() {
        for arguments in [&["lockkeeper"][..], &["lockkeeper", "serve"], &["lockkeeper", "launch"], &[]] {
            assert!(run(arguments.iter().map(OsString::from)).is_none());
        }
    }
}
