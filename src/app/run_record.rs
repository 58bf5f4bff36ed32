//! Records of running gateways. Commands on this machine use them to find a gateway's configuration file, data folder
//! and database. One record is in the user's runtime folder, and is removed when the gateway ends. A copy stays in the
//! data folder.
//!
//! A record names a file that starts programs and holds secrets. So a command trusts it only if no other user could
//! have written it, and the gateway that wrote it still holds the lock of the data folder.

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

/// Maximum number of records read in one folder.
const RECORDS_READ: usize = 256;

/// A gateway that runs, or the last one that ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Process id.
    pub pid: u32,
    /// Data folder, with links resolved.
    pub data_dir: PathBuf,
    /// Absolute path of the configuration file, which need not exist; `None` if the gateway reads no file.
    pub configuration: Option<PathBuf>,
    /// The database, without its password.
    pub database: String,
}

/// The records of this process.
#[derive(Debug)]
pub(super) struct LeftRecords {
    record: RunRecord,
    in_runtime_folder: OnceLock<PathBuf>,
}

/// Gateways that run on this machine.
#[derive(Debug, Default)]
pub struct RunningGateways {
    /// Gateways of this user.
    pub own: Vec<RunRecord>,
    /// Folders with records of other users. Their files are never read.
    pub foreign: Vec<ForeignRecords>,
}

/// A folder with records of another user's gateways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignRecords {
    /// Id of that user.
    pub user: u32,
    pub folder: PathBuf,
}

// === impl RunRecord ===

impl RunRecord {
    /// The record for this process. The data folder must exist.
    fn of(config: &Config) -> io::Result<Self> {
        Ok(Self {
            pid: process::id(),
            data_dir: fs::canonicalize(&config.data_dir)?,
            configuration: config.source.file().map(std::path::absolute).transpose()?,
            database: database_name(&config.database),
        })
    }

    /// The record of the gateway that runs on a data folder; `None` if no gateway runs there, or other users could have
    /// written the record.
    pub fn on(data_dir: &Path) -> Option<Self> {
        let folder = fs::canonicalize(data_dir).ok()?;
        if own_files::trust(&folder) != FolderTrust::Own {
            return None;
        }
        let record = Self::parse(&own_files::read(&files::last_start(&folder))?)?;
        (record.data_dir == folder && record.is_live()).then_some(record)
    }

    /// The record of the last start on a data folder, no matter who wrote it. Only for error messages: the files that
    /// it names are not opened.
    pub fn last_on(data_dir: &Path) -> Option<Self> {
        Self::parse(&own_files::read_of_anybody(&files::last_start(data_dir))?)
    }

    /// True if the gateway that wrote the record still runs. A killed gateway leaves its record but frees the lock. The
    /// lock contains its holder's process id, which distinguishes another gateway on the same folder.
    fn is_live(&self) -> bool {
        DataLock::holder(&self.data_dir) == Some(self.pid)
    }

    /// True if a gateway holds the lock of the data folder, even as another user.
    pub fn is_locked(&self) -> bool {
        DataLock::is_held(&self.data_dir)
    }

    /// True if the gateway reads this configuration file.
    pub fn reads(&self, file: &Path) -> bool {
        let Some(own) = &self.configuration else { return false };
        let resolved = |path: &Path| fs::canonicalize(path).or_else(|_| std::path::absolute(path)).ok();
        resolved(own).is_some_and(|own| resolved(file) == Some(own))
    }

    /// True if the gateway uses this database.
    pub fn uses(&self, database: &DatabasePlace) -> bool {
        self.database == database_name(database)
    }

    fn parse(text: &str) -> Option<Self> {
        let record: Self = serde_json::from_str(text).ok()?;
        let is_absolute = record.data_dir.is_absolute() && record.configuration.iter().all(|file| file.is_absolute());
        is_absolute.then_some(record)
    }

    /// Writes the record to `path`, atomically, readable only by this user.
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

/// Name of a database in records, without its password.
fn database_name(place: &DatabasePlace) -> String {
    match place {
        DatabasePlace::File(path) => {
            // if the file does not exist yet, resolve its folder
            let whole = fs::canonicalize(path)
                .ok()
                .or_else(|| Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?)));
            format!("sqlite:{}", whole.unwrap_or_else(|| path.clone()).display())
        }
        DatabasePlace::Server(_) => format!("postgres://{place}"),
    }
}

/// Removes the record in the runtime folder when dropped.
#[derive(Debug)]
pub(super) struct RecordGuard(Arc<LeftRecords>);

// === impl RecordGuard ===

impl RecordGuard {
    /// Guards the records of this process.
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
    /// Prepares the records of this process. The data folder must exist.
    pub(super) fn of(config: &Config) -> io::Result<Self> {
        Ok(Self { record: RunRecord::of(config)?, in_runtime_folder: OnceLock::new() })
    }

    /// Writes the records. Must be called while the data folder is locked. Without a runtime folder, only the data
    /// folder gets one.
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

    /// Removes the record in the runtime folder. Must be called while the data folder is locked.
    fn remove(&self) {
        if let Some(path) = self.in_runtime_folder.get() {
            let _ = fs::remove_file(path);
        }
    }

    /// This process in the form of the status.
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

/// File name of the record for a data folder. Each gateway on that folder replaces the record of the one before it.
fn record_name(data_dir: &Path) -> String {
    let digest = Digest::sha256(data_dir.as_os_str().as_encoded_bytes());
    let [start, ..] = digest.as_bytes().as_chunks::<16>().0 else { return "gateway.json".to_owned() };
    format!("{:032x}.json", u128::from_be_bytes(*start))
}

/// Removes the records of killed gateways.
fn remove_ended(folder: &Path) {
    for (path, record) in records(folder) {
        // a gateway that starts on that folder waits until this is done
        DataLock::while_free(&record.data_dir, || drop(fs::remove_file(&path)));
    }
}

/// All valid records in a folder of this user.
fn records(folder: &Path) -> Vec<(PathBuf, RunRecord)> {
    json_files(folder)
        .filter_map(|path| {
            let record = RunRecord::parse(&own_files::read(&path)?)?;
            Some((path, record))
        })
        .collect()
}

/// The first [`RECORDS_READ`] files of a folder that may be records.
fn json_files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .take(RECORDS_READ)
}

// === impl RunningGateways ===

impl RunningGateways {
    /// Finds the gateways that run on this machine, by their records.
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
