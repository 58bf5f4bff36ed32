//! The processes of this machine with their parents, groups and memory, as the kernel shows them (Linux). Knows nothing
//! of servers.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
};

/// The processes at one moment.
#[derive(Debug)]
pub struct ProcessTable {
    folder: PathBuf,
    /// By parent, and by the first process of their group.
    below: HashMap<u32, Vec<u32>>,
    living: BTreeSet<u32>,
}

/// The use of several processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessUse {
    /// Their number.
    pub processes: usize,
    /// Their resident memory in bytes; pages that several of them share count for each.
    pub memory: u64,
}

/// One process of a kernel, which no later one with the same number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// The time of its start, in ticks since the kernel's.
    pub began: u64,
}

// === impl ProcessIdentity ===

impl ProcessIdentity {
    /// This process; `None` where the system does not tell.
    pub fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        relatives(&stat)?;
        let (_, rest) = stat.rsplit_once(')')?;
        // proc_pid_stat(5): the 22nd value, and the third follows the name
        let began = rest.split_ascii_whitespace().nth(19)?.parse().ok()?;
        Some(Self { pid, began })
    }

    /// True if it still runs.
    pub fn is_running(self) -> bool {
        Self::of(self.pid) == Some(self)
    }
}

/// The kernel since its start, with the numbers of processes that this process sees there.
pub fn kernel_identity() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let numbers = fs::read_link("/proc/self/ns/pid").ok()?;
    let digits: String = numbers.to_str()?.chars().filter(char::is_ascii_digit).collect();
    Some(format!("{}-{digits}", boot.trim()))
}

// === impl ProcessTable ===

impl ProcessTable {
    /// Reads it, in some milliseconds; `None` where there is none.
    pub fn read() -> Option<Self> {
        Self::of(Path::new("/proc"))
    }

    fn of(folder: &Path) -> Option<Self> {
        let (mut below, mut living) = (HashMap::<u32, Vec<u32>>::new(), BTreeSet::new());
        for entry in fs::read_dir(folder).ok()?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            // it may have ended meanwhile
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            let Some([parent, group]) = relatives(&stat) else { continue };
            living.insert(pid);
            for other in [parent, group] {
                below.entry(other).or_default().push(pid);
            }
        }
        (!living.is_empty()).then_some(Self { folder: folder.to_owned(), below, living })
    }

    /// The use of these processes and of all that they have started; `None` if one of them is not shown to this user.
    pub fn used_by(&self, roots: &[u32]) -> Option<ProcessUse> {
        let mut found = BTreeSet::new();
        let mut left = roots.to_vec();
        while let Some(pid) = left.pop() {
            if found.insert(pid) {
                left.extend(self.below.get(&pid).into_iter().flatten());
            }
        }
        if !roots.iter().all(|root| self.living.contains(root)) {
            return None;
        }
        let memory = found.iter().map(|pid| self.memory(*pid)).sum();
        Some(ProcessUse { processes: found.len(), memory })
    }

    fn memory(&self, pid: u32) -> u64 {
        resident_bytes(&self.folder.join(pid.to_string())).unwrap_or_default()
    }
}

/// The resident memory of this process, in bytes; `None` if the system does not tell.
pub fn own_memory() -> Option<u64> {
    resident_bytes(Path::new("/proc/self"))
}

fn resident_bytes(process: &Path) -> Option<u64> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(resident.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// The parent and the group of a process; `None` if it has ended.
fn relatives(stat: &str) -> Option<[u32; 2]> {
    // its name may have spaces and brackets
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_ascii_whitespace();
    let state = words.next()?;
    let relatives = [words.next()?.parse().ok()?, words.next()?.parse().ok()?];
    (!matches!(state, "Z" | "X")).then_some(relatives)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(processes: &[(u32, &str, u32, u32, u32)]) -> ProcessTable {
        let folder = tempfile::tempdir().unwrap();
        for (pid, state, parent, group, kibibytes) in processes {
            let own = folder.path().join(pid.to_string());
            fs::create_dir(&own).unwrap();
            fs::write(own.join("stat"), format!("{pid} (a) b ({pid})) {state} {parent} {group} 0 0\n")).unwrap();
            fs::write(own.join("status"), format!("Name:\ta\nVmRSS:\t    {kibibytes} kB\n")).unwrap();
        }
        ProcessTable::of(&folder.keep()).unwrap()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_is_not_mistaken_for_an_earlier_one_with_its_number() {
        let own = ProcessIdentity::own().unwrap();
        assert!(own.is_running());
        assert!(!ProcessIdentity { began: own.began + 1, ..own }.is_running());
        assert!(!ProcessIdentity { pid: u32::MAX, ..own }.is_running());
        assert_eq!(kernel_identity(), kernel_identity());
    }

    #[test]
    fn a_server_is_its_process_with_all_that_it_started() {
        let table = machine(&[
            (1, "S", 0, 1, 1),
            (10, "S", 1, 10, 100),
            (11, "S", 10, 10, 20),
            // of a group of its own
            (12, "R", 11, 12, 3),
            // its parent has ended
            (13, "S", 1, 10, 4),
            (14, "Z", 10, 10, 0),
            (20, "S", 1, 20, 5000),
        ]);
        assert_eq!(table.used_by(&[10]), Some(ProcessUse { processes: 4, memory: 127 * 1024 }));
        assert_eq!(table.used_by(&[10, 20]), Some(ProcessUse { processes: 5, memory: 5127 * 1024 }));
        assert_eq!(table.used_by(&[]), Some(ProcessUse::default()));
        assert_eq!(table.used_by(&[99]), None, "it is hidden");
        let _ = fs::remove_dir_all(&table.folder);
    }

    #[test]
    fn without_a_table_nothing_is_known() {
        let folder = tempfile::tempdir().unwrap();
        assert!(ProcessTable::of(folder.path()).is_none() && ProcessTable::of(&folder.path().join("proc")).is_none());
    }
}
