//! Landlock domains. A process in a domain cannot look into processes outside, and can never leave it. Entering also
//! gives up new privileges.

use std::{
    collections::BTreeSet,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use landlock::{
    AccessFs, BitFlags, CompatLevel, Compatible as _, LandlockStatus, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use super::plan::{HiddenPlaces, LandlockDomain, LaunchFault};

pub(super) fn enter(domain: &LandlockDomain) -> Result<(), LaunchFault> {
    let entered = match domain {
        LandlockDomain::Scopes => scopes(),
        LandlockDomain::OneRight => one_right(),
        LandlockDomain::Around(places) => around(places),
    };
    match entered {
        Ok(RulesetStatus::NotEnforced) => Err("this kernel has no Landlock".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("it cannot enter a Landlock domain: {error}")),
    }
}

fn scopes() -> Result<RulesetStatus, Box<dyn Error>> {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let rules = rules.scope(Scope::AbstractUnixSocket | Scope::Signal)?;
    Ok(rules.create()?.restrict_self()?.ruleset)
}

/// The right to move files between folders: a domain that handles any other right takes it away.
fn one_right() -> Result<RulesetStatus, Box<dyn Error>> {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(AccessFs::Refer)?;
    let rules = rules.create()?.add_rule(PathBeneath::new(PathFd::new("/")?, AccessFs::Refer))?;
    Ok(rules.restrict_self()?.ruleset)
}

/// Rights that the domain around the places takes away. Listing folders stays allowed everywhere.
fn handled() -> BitFlags<AccessFs> {
    AccessFs::ReadFile
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::MakeSym
        | AccessFs::MakeSock
        | AccessFs::MakeFifo
        | AccessFs::Refer
}

/// The access rights that apply to a file.
fn of_files() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate
}

fn around(places: &HiddenPlaces) -> Result<RulesetStatus, Box<dyn Error>> {
    let rules = Ruleset::default().handle_access(handled())?;
    let rules = rules.scope(Scope::AbstractUnixSocket | Scope::Signal)?;
    let mut rules = rules.create()?;
    for path in granted(places) {
        // a place that has disappeared needs no rule
        let Ok(open) = PathFd::new(&path) else { continue };
        let access = if path.is_dir() { handled() } else { of_files() };
        rules = rules.add_rule(PathBeneath::new(open, access))?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// The paths around the places: the entries of every folder above a hidden one.
fn granted(places: &HiddenPlaces) -> Vec<PathBuf> {
    let hidden = places.folder.iter().chain(&places.files).filter_map(|path| fs::canonicalize(path).ok());
    let hidden: BTreeSet<PathBuf> = hidden.collect();
    let above: BTreeSet<PathBuf> =
        hidden.iter().flat_map(|path| path.ancestors().skip(1)).map(Path::to_owned).collect();
    let below_hidden = |path: &Path| path.ancestors().any(|folder| hidden.contains(folder));
    let mut granted = places.handed.clone();
    for folder in above.iter().filter(|folder| !below_hidden(folder)) {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        let entries = entries.filter_map(|entry| Some(entry.ok()?.path()));
        // a rule for a link would apply to its target
        granted.extend(entries.filter(|path| !hidden.contains(path) && !above.contains(path) && !path.is_symlink()));
    }
    granted
}

/// The version of Landlock in this kernel, up to the newest known here; 0 without it. Enters a domain to find out.
pub(super) fn version() -> u8 {
    let rules = Ruleset::default().handle_access(AccessFs::MakeBlock).and_then(Ruleset::create);
    let tried = rules.and_then(RulesetCreated::restrict_self);
    match tried.map(|status| status.landlock) {
        Ok(LandlockStatus::Available { effective_abi, .. }) => effective_abi.to_string().parse().unwrap_or(0),
        _ => 0,
    }
}
