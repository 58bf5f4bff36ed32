//! The operating system's user who runs a command, for the audit trail.

use super::process::ProcessContext;

/// The name of the user; under `sudo` also the name of the user who called it.
pub(super) fn name(process: &ProcessContext) -> String {
    let own = own(process);
    match process.environment.get("SUDO_USER").filter(|by| !by.is_empty() && *by != own) {
        Some(by) => format!("{own} (sudo by {by})"),
        None => own,
    }
}

#[cfg(unix)]
fn own(_process: &ProcessContext) -> String {
    let id = nix::unistd::getuid();
    let known = nix::unistd::User::from_uid(id).ok().flatten();
    known.map_or_else(|| format!("uid {id}"), |user| user.name)
}

#[cfg(not(unix))]
fn own(process: &ProcessContext) -> String {
    process.environment.get("USERNAME").unwrap_or("unknown").to_owned()
}
