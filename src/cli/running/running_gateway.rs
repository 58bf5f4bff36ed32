//! Finds the running gateway that a command is for. A command without a named file or data folder works on the gateway
//! that runs on this machine, from any folder.

use std::path::{Path, PathBuf};

use crate::{
    app::{ForeignRecords, RunRecord, RunningGateways},
    cli::{
        arguments,
        terminal::{
            failure::CommandFailure,
            process::{CommandPurpose, ProcessContext},
        },
    },
    config::{self, ConfigSource, UnnamedFiles},
};

/// The file that commands and gateways find in the working directory.
const ADJACENT: &str = "lockkeeper.toml";

/// The gateway that reads a configuration file.
pub(in crate::cli) enum FileReader {
    /// The gateway that runs on the data of this command.
    Running,
    /// The gateway that runs there reads something else.
    OfAnother(RunRecord),
    /// No gateway runs there.
    Nobody,
}

/// Sets the file and the data folder of a command to the running gateway's, unless the person has named others.
///
/// # Errors
///
/// Wrong usage if a change could be meant for another file, or for one of several gateways.
pub(in crate::cli) fn follow(purpose: CommandPurpose, process: &mut ProcessContext) -> Result<(), CommandFailure> {
    process.purpose = purpose;
    if purpose == CommandPurpose::Unrelated {
        return Ok(());
    }
    let environment = process.environment.clone();
    let said = |option: &Option<PathBuf>, variable: &str| {
        let named = option.clone().or_else(|| environment.said(variable).map(PathBuf::from));
        named.map(|path| process.folder.join(path))
    };
    let file = said(&process.options.config, "LOCKKEEPER_CONFIG");
    let data = said(&process.options.data_dir, "LOCKKEEPER_DATA_DIR");
    process.is_data_dir_named = data.is_some();
    match (file, data) {
        (Some(_), Some(_)) => Ok(()),
        (Some(file), None) => follow_reader(&file, process),
        (None, Some(data)) => follow_holder(&data, process),
        (None, None) => {
            let RunningGateways { own, foreign } = RunningGateways::find(&environment);
            if let Some(gateway) = chosen(own, process)? {
                return take(&gateway, process);
            }
            tell_foreign(&foreign, process);
            Ok(())
        }
    }
}

/// For a named file, takes the data folder of the gateway that reads it: that may have been started with another folder
/// than the file names.
fn follow_reader(file: &Path, process: &mut ProcessContext) -> Result<(), CommandFailure> {
    let mut readers = RunningGateways::find(&process.environment).own;
    readers.retain(|gateway| gateway.reads(file));
    match readers.len() {
        0 => {}
        1 => process.options.data_dir = readers.pop().map(|gateway| gateway.data_dir),
        _ => return Err(several(&readers)),
    }
    Ok(())
}

/// For a named data folder, takes the file of the gateway that runs on it.
fn follow_holder(data: &Path, process: &mut ProcessContext) -> Result<(), CommandFailure> {
    let Some(gateway) = RunRecord::on(data) else { return Ok(()) };
    let is_other = adjacent(process).is_some_and(|file| !gateway.reads(&file));
    if is_other && process.purpose == CommandPurpose::ChangesFile {
        return Err(other_file(&gateway, process));
    }
    take(&gateway, process)
}

/// The gateway that the person means; `None` if none runs.
fn chosen(mut gateways: Vec<RunRecord>, process: &mut ProcessContext) -> Result<Option<RunRecord>, CommandFailure> {
    let adjacent = adjacent(process);
    if let Some(at) = adjacent.as_ref().and_then(|file| gateways.iter().position(|gateway| gateway.reads(file))) {
        return Ok(Some(gateways.swap_remove(at)));
    }
    if gateways.len() > 1 {
        return Err(several(&gateways));
    }
    let Some(gateway) = gateways.pop() else { return Ok(None) };
    if adjacent.is_some() {
        if process.purpose != CommandPurpose::Asks {
            return Err(other_file(&gateway, process));
        }
        let read = file_of(&gateway);
        process
            .output
            .remark(&format!("using the running gateway, which reads {read}, and not the {ADJACENT} in this folder"));
    }
    Ok(Some(gateway))
}

/// Makes the command work on this gateway.
fn take(gateway: &RunRecord, process: &mut ProcessContext) -> Result<(), CommandFailure> {
    let options = &mut process.options;
    options.data_dir.get_or_insert_with(|| gateway.data_dir.clone());
    match &gateway.configuration {
        Some(file) if process.purpose == CommandPurpose::ChangesFile || file.symlink_metadata().is_ok() => {
            options.config = Some(file.clone());
        }
        None if process.purpose == CommandPurpose::ChangesFile => {
            return Err(CommandFailure::usage("the running gateway reads no configuration file")
                .why(description(gateway))
                .advise(format!("name the file to change: `--config {ADJACENT}`")));
        }
        // any file that is found without being named would be another one
        _ => options.unnamed = UnnamedFiles::Ignored,
    }
    Ok(())
}

/// The relation of a configuration file to the gateway that runs on this command's data.
pub(in crate::cli) fn reader(file: &Path, process: &ProcessContext) -> FileReader {
    let Ok(folder) = arguments::data_folder(process) else { return FileReader::Nobody };
    match RunRecord::on(&folder) {
        Some(gateway) if gateway.reads(file) => FileReader::Running,
        Some(gateway) => FileReader::OfAnother(gateway),
        None => FileReader::Nobody,
    }
}

/// A gateway in a few words.
pub(in crate::cli) fn description(gateway: &RunRecord) -> String {
    format!("process {} reads {}, with its data in {}", gateway.pid, file_of(gateway), gateway.data_dir.display())
}

fn file_of(gateway: &RunRecord) -> String {
    gateway.configuration.as_ref().map_or_else(|| "no file".to_owned(), |file| file.display().to_string())
}

/// Anything named `lockkeeper.toml` in the working directory.
fn adjacent(process: &ProcessContext) -> Option<PathBuf> {
    let file = process.folder.join(ADJACENT);
    file.symlink_metadata().is_ok().then_some(file)
}

fn other_file(gateway: &RunRecord, process: &ProcessContext) -> CommandFailure {
    let here = process.folder.join(ADJACENT).display().to_string();
    let named = match &gateway.configuration {
        Some(file) => format!("--config {}", file.display()),
        None => format!("--data-dir {}", gateway.data_dir.display()),
    };
    let failure =
        CommandFailure::usage("the file in this folder is not the running gateway's, and nothing was changed");
    if Path::new(&here).is_dir() {
        let why = "a folder, as Docker makes one where a file that is to be mounted is missing";
        return failure
            .why(format!("this folder has {here}, {why}\n{}", description(gateway)))
            .advise(format!("if that gateway is meant: `{named}`"));
    }
    failure
        .why(format!("this folder has {here}\n{}", description(gateway)))
        .advise(format!("say which is meant: `{named}` or `--config {ADJACENT}`"))
}

fn several(gateways: &[RunRecord]) -> CommandFailure {
    let each: Vec<String> = gateways.iter().map(description).collect();
    CommandFailure::usage("several gateways run on this machine")
        .why(each.join("\n"))
        .advise("say which is meant: `--data-dir DIR`, or `--config FILE`")
}

/// Mentions gateways of other users, without reading their files: those could start programs and read secrets as this
/// user.
fn tell_foreign(foreign: &[ForeignRecords], process: &mut ProcessContext) {
    let has_own = match config::source(&process.options.given(), &process.environment, &process.folder) {
        ConfigSource::Adjacent(_) => true,
        ConfigSource::Usual(file) => !file.starts_with("/etc"),
        ConfigSource::Named(_) | ConfigSource::CommandLine | ConfigSource::Demo => false,
    };
    if has_own {
        return;
    }
    // skips this user's own records that are not trusted, such as one in a folder that others can write to
    for ForeignRecords { user, folder } in foreign.iter().filter(|record| record.user != own_user()) {
        let name = user_name(*user);
        let folder = folder.display();
        process.output.remark(&format!(
            "note: a gateway runs as the user {name} ({folder}), and this command does not work on it; \
             for that: `sudo -u {name} lockkeeper …`"
        ));
    }
}

#[cfg(unix)]
fn own_user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

#[cfg(not(unix))]
const fn own_user() -> u32 {
    0
}

#[cfg(unix)]
fn user_name(user: u32) -> String {
    let known = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(user)).ok().flatten();
    known.map_or_else(|| format!("'#{user}'"), |known| known.name)
}

#[cfg(not(unix))]
fn user_name(user: u32) -> String {
    user.to_string()
}
