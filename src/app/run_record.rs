//! Records of running gateways, by which commands on this machine find the file, the data folder and the database of one. One is in
//! the runtime folder of the user and ends with the gateway; a copy is in the data folder and stays. Knows nothing of commands.
//!
//! A record names a file that starts programs and holds secrets. A command believes it only if nobody but its own user could have
//! written it, and if the gateway that wrote it still has the lock of the data folder.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
    process,
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    data_lock::DataLock,
    own_files::{self, FolderTrust},
};
use crate::{
    config::{Config, DatabasePlace, Environment, files},
    model::status::ProcessStatus,
    support::Digest,
};

/// Records of one folder that are read.
const RECORDS_READ: usize = 256;

/// A gateway that runs, or that ran last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The process.
    pub pid: u32,
    /// The data folder, without links.
    pub data_dir: PathBuf,
    /// The absolute path of the configuration file that it reads, also if there is none yet; `None` if it reads no file.
    pub configuration: Option<PathBuf>,
    /// The database, without a password.
    pub database: String,
}

/// The records that this process leaves.
#[derive(Debug)]
pub(super) struct LeftRecords {
    record: RunRecord,
    in_runtime_folder: OnceLock<PathBuf>,
}

/// The gateways that run on this machine.
#[derive(Debug, Default)]
pub struct RunningGateways {
    /// Those of this user.
    pub own: Vec<RunRecord>,
    /// Folders with the records of others: the user, and the folder. Their content is never read.
    pub foreign: Vec<ForeignRecords>,
}

/// A folder with records of gateways that run as another user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignRecords {
    /// The number of the user.
    pub user: u32,
    /// The folder.
    pub folder: PathBuf,
}

// === impl RunRecord ===

impl RunRecord {
    /// The record of this process. The data folder must exist.
    fn of(config: &Config) -> io::Result<Self> {
        Ok(Self {
            pid: process::id(),
            data_dir: fs::canonicalize(&config.data_dir)?,
            configuration: config.source.file().map(std::path::absolute).transpose()?,
            database: database_name(&config.database),
        })
    }

    /// The record of the gateway that runs on a data folder; `None` if none does, or if others could have written it.
    pub fn on(data_dir: &Path) -> Option<Self> {
        let folder = fs::canonicalize(data_dir).ok()?;
        if own_files::trust(&folder) != FolderTrust::Own {
            return None;
        }
        let record = Self::parse(&own_files::read(&files::last_start(&folder))?)?;
        (record.data_dir == folder && record.is_live()).then_some(record)
    }

    /// The record of the last start on a data folder, whoever wrote it. Only for refusals: nothing that it names is opened.
    pub fn last_on(data_dir: &Path) -> Option<Self> {
        Self::parse(&own_files::read_of_anybody(&files::last_start(data_dir))?)
    }

    /// True if the gateway that wrote it still runs: a kill leaves the record and frees the lock, and the lock tells its holder, so
    /// that another gateway on the same folder is not taken for it.
    fn is_live(&self) -> bool {
        DataLock::holder(&self.data_dir) == Some(self.pid)
    }

    /// True if a gateway has the lock, also as another user.
    pub fn is_locked(&self) -> bool {
        DataLock::is_held(&self.data_dir)
    }

    /// True if a gateway reads this configuration file.
    pub fn reads(&self, file: &Path) -> bool {
        let Some(own) = &self.configuration else { return false };
        let resolved = |path: &Path| fs::canonicalize(path).or_else(|_| std::path::absolute(path)).ok();
        resolved(own).is_some_and(|own| resolved(file) == Some(own))
    }

    /// True if this is the database of the gateway.
    pub fn uses(&self, database: &DatabasePlace) -> bool {
        self.database == database_name(database)
    }

    fn parse(text: &str) -> Option<Self> {
        let record: Self = serde_json::from_str(text).ok()?;
        let is_absolute = record.data_dir.is_absolute() && record.configuration.iter().all(|file| file.is_absolute());
        is_absolute.then_some(record)
    }

    /// Writes it, readable by this user alone, in one step.
    fn write(&self, path: &Path) -> io::Result<()> {
        let next = path.with_extension("json.new");
        let _ = fs::remove_file(&next);
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&next)?.write_all(serde_json::to_string(self)?.as_bytes())?;
        fs::rename(&next, path)
    }
}

/// The database as a record names it.
fn database_name(place: &DatabasePlace) -> String {
    match place {
        DatabasePlace::File(path) => {
            // one that is not there yet is named by its folder
            let whole = fs::canonicalize(path)
                .ok()
                .or_else(|| Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?)));
            format!("sqlite:{}", whole.unwrap_or_else(|| path.clone()).display())
        }
        DatabasePlace::Server(_) => format!("postgres://{place}"),
    }
}

/// Removes the record of the runtime folder on drop.
#[derive(Debug)]
pub(super) struct RecordGuard(Arc<LeftRecords>);

// === impl RecordGuard ===

impl RecordGuard {
    /// For the records of this process.
    pub(super) const fn new(records: Arc<LeftRecords>) -> Self {
        Self(records)
    }
}

impl Drop for RecordGuard {
    fn drop(&mut self) {
        self.0.remove();
    }
}

// === impl LeftRecords ===

impl LeftRecords {
    /// The records of this process, before they are left. The data folder must exist.
    pub(super) fn of(config: &Config) -> io::Result<Self> {
        Ok(Self { record: RunRecord::of(config)?, in_runtime_folder: OnceLock::new() })
    }

    /// Leaves them. Call it under the lock of the data folder. Without a runtime folder there is only the one in the data folder.
    pub(super) fn leave(&self, environment: &Environment) -> io::Result<()> {
        self.record.write(&files::last_start(&self.record.data_dir))?;
        let Some(folder) = own_files::runtime_folder(environment) else { return Ok(()) };
        let path = folder.join(record_name(&self.record.data_dir));
        match own_files::create(&folder).and_then(|()| self.record.write(&path)) {
            Ok(()) => {
                remove_ended(&folder);
                let _ = self.in_runtime_folder.set(path);
            }
            Err(error) => tracing::warn!(
                folder = %folder.display(),
                "no record of this gateway could be left, so commands find it only by `--config` or `--data-dir`: {error}"
            ),
        }
        Ok(())
    }

    /// Removes the one in the runtime folder. Call it under the lock of the data folder.
    fn remove(&self) {
        if let Some(path) = self.in_runtime_folder.get() {
            let _ = fs::remove_file(path);
        }
    }

    /// This process as the status shows it.
    pub(super) fn status(&self, uptime: Duration) -> ProcessStatus {
        let RunRecord { pid, data_dir, configuration, .. } = &self.record;
        ProcessStatus {
            pid: *pid,
            uptime_seconds: uptime.as_secs(),
            configuration: configuration.as_ref().map(|file| file.display().to_string()),
            data_dir: data_dir.display().to_string(),
        }
    }
}

/// One name for each data folder: the gateway that has the lock replaces what one before it has left.
fn record_name(data_dir: &Path) -> String {
    let digest = Digest::sha256(data_dir.as_os_str().as_encoded_bytes());
    let [start, ..] = digest.as_bytes().as_chunks::<16>().0 else { return "gateway.json".to_owned() };
    format!("{:032x}.json", u128::from_be_bytes(*start))
}

/// Removes the records of gateways that were killed.
fn remove_ended(folder: &Path) {
    for (path, record) in records(folder) {
        // a gateway that starts there meanwhile waits for the end of this
        DataLock::while_free(&record.data_dir, || drop(fs::remove_file(&path)));
    }
}

/// The records in a folder of this user.
fn records(folder: &Path) -> Vec<(PathBuf, RunRecord)> {
    json_files(folder)
        .filter_map(|path| {
            let record = RunRecord::parse(&own_files::read(&path)?)?;
            Some((path, record))
        })
        .collect()
}

/// The first files of a folder that may be records.
fn json_files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .take(RECORDS_READ)
}

// === impl RunningGateways ===

impl RunningGateways {
    /// The gateways that run on this machine and have left a record.
    pub fn find(environment: &Environment) -> Self {
        let mut found = Self::default();
        for folder in own_files::record_folders(environment) {
            match own_files::trust(&folder) {
                FolderTrust::Own => {
                    let live = records(&folder).into_iter().map(|(_, record)| record).filter(RunRecord::is_live);
                    for record in live {
                        if !found.own.contains(&record) {
                            found.own.push(record);
                        }
                    }
                }
                FolderTrust::Foreign(user) if json_files(&folder).next().is_some() => {
                    found.foreign.push(ForeignRecords { user, folder });
                }
                FolderTrust::Foreign(_) | FolderTrust::Unsafe | FolderTrust::Missing => {}
            }
        }
        found.own.sort_by_key(|record| record.pid);
        found
    }
}
