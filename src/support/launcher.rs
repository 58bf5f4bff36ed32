//! The launcher of programs: this program itself, with a mark in place of a subcommand. It asks the kernel to end it
//! together with the gateway, for any reason, gives up what the program must not have, and becomes the program named in
//! its arguments.
//!
//! Code between the start of a process and its program would be unsafe in this process; a program of its own needs no
//! unsafe code.

#[cfg(target_os = "linux")]
mod domain;
#[cfg(target_os = "linux")]
mod hiding;
mod plan;
#[cfg(target_os = "linux")]
mod rights;
mod trial;

use std::{
    ffi::{OsStr, OsString},
    process::ExitCode,
};

pub use self::{
    plan::{HiddenPlaces, LandlockDomain, LaunchPlan},
    trial::{LaunchTrial, try_out},
};

/// The argument in place of a subcommand.
const MARK: &str = "\u{1}launch";

/// The arguments of a launcher that becomes `program` under `plan`; the program's own follow. It must be started by a
/// thread that lives as long as the process, since the kernel waits for that thread's end.
pub fn arguments(program: &OsStr, plan: &LaunchPlan) -> [OsString; 4] {
    [MARK.into(), std::process::id().to_string().into(), plan.to_text().into(), program.to_owned()]
}

/// Becomes the program, if these are the arguments of a launcher; `None` if they are not.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.skip(1);
    let first = arguments.next()?;
    if first == trial::MARK {
        return Some(trial::run());
    }
    if first != MARK {
        return None;
    }
    let (parent, plan, program) = (arguments.next()?, arguments.next()?, arguments.next()?);
    Some(become_program(&parent, &plan, &program, arguments))
}

/// Keeps other programs of this user out of the memory and the environment of this process, and prevents memory dumps.
pub fn close_to_others() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_dumpable(false);
}

#[cfg(target_os = "linux")]
fn become_program(
    parent: &OsStr,
    plan: &OsStr,
    program: &OsStr,
    arguments: impl Iterator<Item = OsString>,
) -> ExitCode {
    use std::{
        io::{self, Write as _},
        os::unix::process::CommandExt as _,
        process::Command,
    };

    let refused = |why: &dyn std::fmt::Display| {
        let _ = writeln!(io::stderr(), "{} is not started: {why}", program.to_string_lossy());
        ExitCode::from(126)
    };
    let Some(plan) = plan.to_str().and_then(LaunchPlan::parse) else {
        return refused(&"the launcher is of another version than the gateway: restart the gateway");
    };
    if let Err(fault) = give_up(&plan) {
        return refused(&fault);
    }
    // this process does without huge pages, which its program would inherit
    let _ = nix::sys::prctl::set_thp_disable(false);
    match ends_with(parent) {
        Ok(true) => {}
        Ok(false) => return ExitCode::FAILURE,
        Err(error) => return refused(&error),
    }
    // from here on, nothing may open a file of the data
    if let Some(domain) = &plan.domain
        && let Err(fault) = domain::enter(domain)
    {
        return refused(&fault);
    }
    let error = Command::new(program).args(arguments).exec();
    let _ = writeln!(io::stderr(), "{} cannot be started: {error}", program.to_string_lossy());
    // the exit code that shells use
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

/// Gives up descriptors, resources, rights and the view of the data, in an order that keeps each step possible.
#[cfg(target_os = "linux")]
fn give_up(plan: &LaunchPlan) -> Result<(), plan::LaunchFault> {
    rights::close_inherited();
    rights::join_group(plan)?;
    rights::limit(plan)?;
    if let Some(user) = &plan.run_as {
        rights::become_user(user)?;
    }
    match &plan.hidden {
        Some(_) => rights::drop_capabilities_for_namespace()?,
        None if plan.unprivileged => rights::drop_capabilities()?,
        None => {}
    }
    // its files in /proc would belong to root, and no namespace could be set up
    nix::sys::prctl::set_dumpable(true).map_err(|error| format!("its files in /proc cannot be its own: {error}"))?;
    if let Some(places) = &plan.hidden {
        hiding::hide(places)?;
        // the capabilities in the new namespace
        rights::drop_capabilities()?;
    }
    if plan.unprivileged {
        nix::sys::prctl::set_no_new_privs().map_err(|error| format!("it cannot give up privileges: {error}"))?;
    }
    Ok(())
}

/// Makes the kernel end this process together with `parent`; false if that has already ended. A change of users undoes
/// it, so it comes afterwards.
#[cfg(target_os = "linux")]
fn ends_with(parent: &OsStr) -> nix::Result<bool> {
    use nix::sys::{prctl, signal::Signal};
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    Ok(nix::unistd::getppid().to_string() == parent.to_string_lossy())
}

#[cfg(not(target_os = "linux"))]
fn become_program(_: &OsStr, _: &OsStr, _: &OsStr, _: impl Iterator<Item = OsString>) -> ExitCode {
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
