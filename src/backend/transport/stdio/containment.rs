//! Containment of one program: which protections this machine can give it, how, and what the launcher must give up for
//! that. This file only decides; the launcher acts.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use nix::unistd::{AccessFlags, User, access, geteuid};

use super::{cgroup::ProgramGroups, container::ContainerEngine, privileged};
use crate::{
    model::{BackendSpec, Contain, ContainmentStatus, Mechanism, Protection, ProtectionState, StdioSpec},
    support::{
        Secret,
        launcher::{self, HiddenPlaces, LandlockDomain, LaunchPlan, LaunchTrial},
    },
};

/// First version of Landlock with which a contained program can move files between folders.
const MOVES: u8 = 2;
/// First version of Landlock that prevents truncating files.
const TRUNCATES: u8 = 3;
/// First version of Landlock with scopes for signals and abstract sockets.
const SCOPES: u8 = 6;
/// Bits of `CapEff` for the capabilities to become another user.
const CHANGES_USERS: u64 = 1 << 6 | 1 << 7;

/// Disadvantage of a domain that restricts file access.
const NO_MOUNTS: &str = "no program in it can mount, so bubblewrap, flatpak and rootless containers fail in it";

/// Mechanisms that this machine offers.
#[derive(Debug)]
pub(crate) struct ContainmentMeans {
    /// Result of trying the launcher; `None` without one.
    trial: Option<LaunchTrial>,
    changes_users: bool,
    groups: OnceLock<Result<ProgramGroups, String>>,
}

/// Containment of one program.
#[derive(Debug)]
pub(crate) struct Containment {
    /// The steps of the launcher before it becomes the program.
    pub(super) plan: LaunchPlan,
    /// The user to run the program as; `None` for the gateway's own.
    pub(super) user: Option<User>,
    /// The protections that hold, for the status.
    pub(super) status: ContainmentStatus,
}

/// A program with its configuration, and the means of this machine.
struct ProgramAndMeans<'a> {
    spec: &'a BackendSpec,
    program: &'a StdioSpec,
    environment: &'a BTreeMap<String, Secret>,
    means: &'a ContainmentMeans,
}

/// The way a program is kept from the gateway's data.
struct DataHiding {
    state: ProtectionState,
    /// Places to cover in a mount namespace.
    mounted_over: Option<HiddenPlaces>,
    /// Places to exclude from a Landlock domain.
    around: Option<HiddenPlaces>,
}

// === impl ContainmentMeans ===

impl ContainmentMeans {
    /// Finds out what this machine offers.
    pub(super) fn find(launcher: Option<&Path>) -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let effective = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        let changes_users = effective.map_or_else(|| geteuid().is_root(), |bits| bits & CHANGES_USERS == CHANGES_USERS);
        Self { trial: launcher.map(launcher::try_out), changes_users, groups: OnceLock::new() }
    }

    /// The cgroups for programs, or why there are none.
    pub(super) fn groups(&self) -> &Result<ProgramGroups, String> {
        self.groups.get_or_init(|| ProgramGroups::open(Path::new("/")))
    }

    fn landlock(&self) -> u8 {
        self.trial.as_ref().map_or(0, |trial| trial.landlock)
    }

    /// Why there are no namespaces; `None` if there are.
    fn no_namespace(&self) -> Option<&str> {
        match &self.trial {
            Some(trial) => trial.no_namespace.as_deref(),
            None => Some("only Linux has namespaces"),
        }
    }
}

// === impl Containment ===

impl Containment {
    /// Decides how this program is contained.
    ///
    /// # Errors
    ///
    /// Why the program must not be started, and what to do.
    pub(crate) fn decide(
        spec: &BackendSpec,
        program: &StdioSpec,
        environment: &BTreeMap<String, Secret>,
        means: &ContainmentMeans,
    ) -> Result<Self, String> {
        let known = ProgramAndMeans { spec, program, environment, means };
        let contained = if spec.container.is_some() { known.in_container()? } else { known.on_this_machine()? };
        let missing: Vec<String> = contained
            .status
            .missing()
            .map(|state| format!("{} ({})", state.protection.name(), state.note.as_deref().unwrap_or_default()))
            .collect();
        if spec.programs.is_required && !missing.is_empty() {
            return Err(format!(
                "the program is not started, since `require_containment` is set and these protections do not hold: {}",
                missing.join("; ")
            ));
        }
        Ok(contained)
    }
}

// === impl ProgramAndMeans ===

impl ProgramAndMeans<'_> {
    fn in_container(&self) -> Result<Containment, String> {
        if self.spec.run_as.is_some() {
            return Err("`run_as` and `container` exclude each other: remove one of them".to_owned());
        }
        ContainerEngine::find(self.environment)?;
        let protections = Protection::ALL.map(|protection| protection.held(Mechanism::Container)).to_vec();
        let status = ContainmentStatus { level: "container".to_owned(), protections };
        Ok(Containment { plan: LaunchPlan::default(), user: None, status })
    }

    fn on_this_machine(&self) -> Result<Containment, String> {
        let spec = self.spec;
        let user = self.user()?;
        if spec.memory.or(spec.processes).or(spec.cpu).is_some() {
            self.means.groups().as_ref().map_err(|why| {
                format!("`memory`, `processes` and `cpu` need a cgroup of the gateway's own, and there is none: {why}")
            })?;
        }
        let limits = LaunchPlan {
            run_as: spec.run_as.clone(),
            open_files: spec.open_files,
            core: spec.core,
            ..LaunchPlan::default()
        };
        if spec.containment() == Contain::Off {
            let state = |protection: Protection| self.by_user(protection, "`contain` is \"off\"");
            let status =
                ContainmentStatus { level: "off".to_owned(), protections: Protection::ALL.map(state).to_vec() };
            return Ok(Containment { plan: limits, user, status });
        }
        let level = "keys".to_owned();
        if let Some(why) = self.needs_privileges() {
            let state = |protection: Protection| self.by_user(protection, &why);
            let status = ContainmentStatus { level, protections: Protection::ALL.map(state).to_vec() };
            return Ok(Containment { plan: limits, user, status });
        }
        let hiding = self.hiding();
        let (processes, domain) = self.processes(hiding.around);
        let protections = vec![processes, hiding.state, Protection::NoNewPrivileges.held(Mechanism::NoNewPrivileges)];
        let plan = LaunchPlan { unprivileged: true, hidden: hiding.mounted_over, domain, ..limits };
        Ok(Containment { plan, user, status: ContainmentStatus { level, protections } })
    }

    /// The user to run the program as, if it is configured.
    fn user(&self) -> Result<Option<User>, String> {
        let Some(name) = &self.spec.run_as else { return Ok(None) };
        let user = User::from_name(name).ok().flatten();
        let user = user.ok_or_else(|| {
            format!(
                "`run_as` names the user `{name}`, which this machine does not have: create it, or correct the name"
            )
        })?;
        if !self.means.changes_users && user.uid != geteuid() {
            return Err(format!(
                "the gateway may not run a program as `{name}`: give it the capabilities CAP_SETUID and CAP_SETGID, as the \
                 shipped unit does in its comments, or remove `run_as`"
            ));
        }
        Ok(Some(user))
    }

    /// True if the program runs as another user than the gateway.
    fn is_of_other_user(&self) -> bool {
        let user = self.spec.run_as.as_ref().and_then(|name| User::from_name(name).ok().flatten());
        user.is_some_and(|user| user.uid != geteuid())
    }

    /// State of a protection if the program is not contained: it holds only with another user.
    fn by_user(&self, protection: Protection, why: &str) -> ProtectionState {
        match protection {
            Protection::Processes | Protection::DataFolder if self.is_of_other_user() => {
                protection.held(Mechanism::RunAs)
            }
            _ => protection.missing(why),
        }
    }

    /// Why the program cannot be contained; `None` if it can.
    fn needs_privileges(&self) -> Option<String> {
        if self.means.trial.is_none() {
            return Some("only on Linux can a program give this up: `run_as` works here too".to_owned());
        }
        let path = self.environment.get("PATH").map_or("", |path| path.expose());
        let name = privileged::command(self.program, path)?;
        Some(format!("`{name}` needs privileges that a contained program cannot get"))
    }

    fn hiding(&self) -> DataHiding {
        let places = self.places();
        let protection = Protection::DataFolder;
        let by_user = self.is_of_other_user();
        if let Some(what) = places.folder.as_deref().and_then(|folder| self.lives_in(folder)) {
            let why = format!("{what} is in the data folder: move it out, or the data (`data_dir`)");
            let state = if by_user { protection.held(Mechanism::RunAs) } else { protection.missing(why) };
            return DataHiding { state, mounted_over: None, around: None };
        }
        let Some(no_namespace) = self.means.no_namespace() else {
            let state = protection.held(Mechanism::Namespace);
            return DataHiding { state, mounted_over: Some(places), around: None };
        };
        if by_user {
            return DataHiding { state: protection.held(Mechanism::RunAs), mounted_over: None, around: None };
        }
        match writable_above(&places) {
            None if self.means.landlock() >= MOVES => {
                let emptied =
                    if self.means.landlock() < TRUNCATES { ", and it can empty files of the data" } else { "" };
                let state = protection.held(Mechanism::Landlock).priced(format!("{NO_MOUNTS}{emptied}"));
                DataHiding { state, mounted_over: None, around: Some(places) }
            }
            Some(folder) if self.means.landlock() >= MOVES => {
                let state = protection.missing(format!(
                    "{no_namespace}; Landlock would keep programs from creating files in {}, where they may: use `run_as` or \
                     `container`",
                    folder.display()
                ));
                DataHiding { state, mounted_over: None, around: None }
            }
            _ => {
                let why =
                    format!("{no_namespace}; and this kernel has no Landlock that could: use `run_as` or `container`");
                DataHiding { state: protection.missing(why), mounted_over: None, around: None }
            }
        }
    }

    fn processes(&self, around: Option<HiddenPlaces>) -> (ProtectionState, Option<LandlockDomain>) {
        let (protection, version) = (Protection::Processes, self.means.landlock());
        let held = protection.held(Mechanism::Landlock);
        let signals = "programs can send signals to others of their user, and reach their abstract sockets: that needs Linux 6.12";
        if let Some(places) = around {
            let held = if version < SCOPES { held.priced(signals) } else { held };
            return (held, Some(LandlockDomain::Around(places)));
        }
        if version >= SCOPES {
            return (held, Some(LandlockDomain::Scopes));
        }
        if self.means.no_namespace().is_none() {
            // a process in its own user namespace cannot look into processes outside
            return (protection.held(Mechanism::Namespace).priced(signals), None);
        }
        if version >= MOVES {
            return (held.priced(format!("{NO_MOUNTS}; {signals}")), Some(LandlockDomain::OneRight));
        }
        (self.by_user(protection, "this kernel has no Landlock, or too old a one: it needs Linux 5.19"), None)
    }

    /// Places that this program must not see.
    fn places(&self) -> HiddenPlaces {
        let mut places = self.spec.programs.hidden.clone();
        // a file named in the program's own section is meant for it
        places.files.retain(|file| !self.names(file));
        if let Some(folder) = places.folder.as_ref().filter(|_| self.is_connect()) {
            places.handed = ["logins", "local"].map(|name| folder.join(name)).to_vec();
        }
        places
    }

    /// True if the program is `lockkeeper connect`, which keeps its logins in the data folder.
    fn is_connect(&self) -> bool {
        let name = Path::new(&self.program.command).file_name();
        name.is_some_and(|name| name == "lockkeeper") && self.program.args.iter().any(|argument| argument == "connect")
    }

    /// True if an argument or a variable of the program names this file.
    fn names(&self, file: &Path) -> bool {
        let text = file.to_string_lossy();
        let variables = self.program.env.values().map(Secret::expose);
        self.program.args.iter().map(String::as_str).chain(variables).any(|value| value.contains(&*text))
    }

    /// Which part of the program is inside this folder, as words for an error; `None` if nothing is.
    fn lives_in(&self, folder: &Path) -> Option<&'static str> {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = real(folder);
        let is_within = |path: &Path| real(path).starts_with(&folder);
        let variable = |name: &str| self.environment.get(name).map(|value| PathBuf::from(value.expose()));
        let cwd = self.program.cwd.clone().or_else(|| std::env::current_dir().ok());
        if variable("HOME").is_some_and(|home| is_within(&home)) {
            return Some("its home folder");
        }
        if cwd.as_deref().is_some_and(is_within) {
            return Some("its working directory");
        }
        let words = [&self.program.command].into_iter().chain(&self.program.args);
        let mut paths = words.map(Path::new).filter(|word| word.is_absolute());
        // `lockkeeper connect` gets access to its part of the folder
        if !self.is_connect() && paths.any(is_within) {
            return Some("its command or an argument");
        }
        None
    }
}

/// The first folder in which this user can create files, among those above the places.
fn writable_above(places: &HiddenPlaces) -> Option<PathBuf> {
    let hidden = places.folder.iter().chain(&places.files).filter_map(|path| fs::canonicalize(path).ok());
    let mut above = hidden.flat_map(|path| path.ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>());
    above.find(|folder| geteuid().is_root() || access(folder, AccessFlags::W_OK).is_ok())
}

#[cfg(test)]
mod tests;
