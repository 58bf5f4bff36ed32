//! Rights and resources of a process that is about to become a program: open files, limits, user, capabilities.

use std::{ffi::CString, fs, io};

use caps::{CapSet, Capability, CapsHashSet};
use nix::{
    sys::resource::{Resource, getrlimit, setrlimit},
    unistd::{self, User},
};

use super::plan::{LaunchFault, LaunchPlan};

/// The descriptors of a program: input, output and errors.
const STANDARD: i32 = 2;
/// The limit that prevents dumps. With 0, programs that collect dumps (`core_pattern`) still get one.
const NO_DUMP: u64 = 1;

/// Closes descriptors inherited from the gateway's parent.
pub(super) fn close_inherited() {
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<i32> = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > STANDARD) {
        // one of them was the folder's own
        let _ = unistd::close(number);
    }
}

/// Joins the cgroup that limits the program.
pub(super) fn join_group(plan: &LaunchPlan) -> Result<(), LaunchFault> {
    let Some(group) = &plan.group else { return Ok(()) };
    fs::write(group.join("cgroup.procs"), "0")
        .map_err(|error| format!("it cannot join its cgroup {}: {error}", group.display()))
}

/// Limits open files and dumps.
pub(super) fn limit(plan: &LaunchPlan) -> Result<(), LaunchFault> {
    if let Some(files) = plan.open_files {
        set_limit(Resource::RLIMIT_NOFILE, files as u64, "open_files")?;
    }
    match plan.core {
        Some(size) => set_limit(Resource::RLIMIT_CORE, size as u64, "core"),
        None => setrlimit(Resource::RLIMIT_CORE, NO_DUMP, NO_DUMP).or(Ok(())),
    }
}

fn set_limit(resource: Resource, value: u64, key: &str) -> Result<(), LaunchFault> {
    setrlimit(resource, value, value).map_err(|error| {
        let most = getrlimit(resource).map_or_else(|_| "unknown".to_owned(), |(_, most)| most.to_string());
        format!("`{key}` cannot be {value}: {error}; the gateway itself may have {most} at most")
    })
}

/// Becomes this user, with its groups.
pub(super) fn become_user(name: &str) -> Result<(), LaunchFault> {
    let user = User::from_name(name).ok().flatten();
    let user = user.ok_or_else(|| format!("`run_as` names `{name}`, and this machine has no such user"))?;
    let become_it = || -> io::Result<()> {
        unistd::initgroups(&CString::new(name)?, user.gid)?;
        unistd::setgid(user.gid)?;
        unistd::setuid(user.uid)?;
        Ok(())
    };
    become_it().map_err(|error| format!("it cannot become the user `{name}`: {error}"))
}

/// Gives up every capability.
pub(super) fn drop_capabilities() -> Result<(), LaunchFault> {
    keep_capabilities(&CapsHashSet::new())
}

/// The same before a namespace is made, which takes the rest: for root, the kernel requires one capability there (Linux
/// 5.12).
pub(super) fn drop_capabilities_for_namespace() -> Result<(), LaunchFault> {
    let has = caps::has_cap(None, CapSet::Permitted, Capability::CAP_SETFCAP).unwrap_or(false);
    let kept = (has && unistd::geteuid().is_root()).then_some(Capability::CAP_SETFCAP);
    keep_capabilities(&kept.into_iter().collect())
}

fn keep_capabilities(kept: &CapsHashSet) -> Result<(), LaunchFault> {
    // a kernel without ambient capabilities has none to give up
    let _ = caps::clear(None, CapSet::Ambient);
    let set = |set, value: &CapsHashSet| {
        caps::set(None, set, value).map_err(|error| format!("it cannot give up its capabilities: {error}"))
    };
    set(CapSet::Effective, kept)?;
    set(CapSet::Permitted, kept)?;
    set(CapSet::Inheritable, &CapsHashSet::new())
}
