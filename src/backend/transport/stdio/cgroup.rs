//! The cgroup of one program, which limits its memory, processes and processor time. It is made within the gateway's
//! own cgroup, if that is delegated (cgroup v2).

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use crate::model::{BackendId, BackendSpec};

/// The subgroup that the gateway moves itself into: a cgroup with subgroups may have no processes of its own.
const OWN: &str = "gateway";
/// Controllers that the limits need.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];
/// Period for processor time, in microseconds.
const PERIOD: usize = 100_000;

/// The gateway's cgroup, in which programs get subgroups. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct ProgramGroups {
    folder: PathBuf,
    made: Arc<AtomicU64>,
    emptying: EmptyingGroups,
}

/// Folders of ended programs that still have processes: the kernel removes a cgroup only when it is empty.
type EmptyingGroups = Arc<Mutex<Vec<PathBuf>>>;

/// The cgroup of one program. Dropping it kills all processes in it.
#[derive(Debug)]
pub(super) struct ProgramGroup {
    folder: PathBuf,
    emptying: EmptyingGroups,
}

// === impl ProgramGroups ===

impl ProgramGroups {
    /// Prepares the cgroup of this process for subgroups; `root` is `/`.
    ///
    /// # Errors
    ///
    /// Why it cannot have subgroups, and what to do.
    pub(super) fn open(root: &Path) -> Result<Self, String> {
        let folder = own_group(root)?;
        let controllers = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
        let lacking: Vec<&str> = CONTROLLERS
            .into_iter()
            .filter(|name| !controllers.split_whitespace().any(|there| there == *name))
            .collect();
        if !lacking.is_empty() {
            return Err(format!(
                "{} has no controllers for {}: run the gateway as a unit of systemd with `Delegate=yes`, or in a container of its own",
                folder.display(),
                lacking.join(", ")
            ));
        }
        let divided = divide(&folder);
        divided.map_err(|error| {
            format!(
                "{} may not be divided ({error}): run the gateway as a unit of systemd with `Delegate=yes`",
                folder.display()
            )
        })?;
        Ok(Self { folder, made: Arc::default(), emptying: Arc::default() })
    }

    /// Creates a cgroup with the limits of this server.
    pub(super) fn group(&self, spec: &BackendSpec) -> io::Result<ProgramGroup> {
        self.emptying.lock().retain(|ended| fs::remove_dir(ended).is_err() && ended.exists());
        let folder = self.folder.join(self.name(&spec.id));
        fs::create_dir(&folder)?;
        let group = ProgramGroup { folder, emptying: Arc::clone(&self.emptying) };
        if let Some(bytes) = spec.memory {
            group.set("memory.max", &bytes.to_string())?;
            // a program without one of its processes is of no use, so kill all together; older kernels lack this file
            let _ = group.set("memory.oom.group", "1");
            let _ = group.set("memory.swap.max", "0");
        }
        if let Some(number) = spec.processes {
            group.set("pids.max", &number.to_string())?;
        }
        if let Some(percent) = spec.cpu {
            group.set("cpu.max", &format!("{} {PERIOD}", percent * (PERIOD / 100)))?;
        }
        Ok(group)
    }

    /// A name that no other cgroup has.
    fn name(&self, id: &BackendId) -> String {
        format!("program-{id}-{}-{}", std::process::id(), self.made.fetch_add(1, Ordering::Relaxed))
    }
}

/// Folder of this process's cgroup; its parent, if the process is already in the gateway's subgroup.
fn own_group(root: &Path) -> Result<PathBuf, String> {
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    let groups = read("proc/self/cgroup");
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let mounts = read("proc/self/mountinfo");
    let mounted = mounts.lines().find_map(|line| {
        let (mount, about) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        about.starts_with("cgroup2 ").then_some((fields.next()?, fields.next()?))
    });
    let Some((path, (from, at))) = path.zip(mounted) else {
        return Err("this system has no cgroup v2".to_owned());
    };
    let within = path.strip_prefix(from).unwrap_or(path).trim_start_matches('/');
    let folder = root.join(at.trim_start_matches('/')).join(within);
    Ok(if folder.ends_with(OWN) { folder.parent().map(Path::to_owned).unwrap_or(folder) } else { folder })
}

/// Moves this process into a part of the cgroup, and gives the parts their controllers. If other processes are in the
/// whole, which the kernel refuses to divide then, everything is as before.
fn divide(folder: &Path) -> io::Result<()> {
    let (own, pid) = (folder.join(OWN), std::process::id().to_string());
    let is_new = !own.is_dir();
    if is_new {
        fs::create_dir(&own)?;
    }
    let all = CONTROLLERS.map(|name| format!("+{name}")).join(" ");
    let divided =
        fs::write(own.join("cgroup.procs"), &pid).and_then(|()| fs::write(folder.join("cgroup.subtree_control"), all));
    if divided.is_err() && is_new {
        let _ = fs::write(folder.join("cgroup.procs"), &pid);
        let _ = fs::remove_dir(&own);
    }
    divided
}

// === impl ProgramGroup ===

impl ProgramGroup {
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn set(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.folder.join(file), value)
    }
}

impl Drop for ProgramGroup {
    fn drop(&mut self) {
        // kills also those that have left the process group
        let _ = self.set("cgroup.kill", "1");
        if fs::remove_dir(&self.folder).is_err() {
            self.emptying.lock().push(std::mem::take(&mut self.folder));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TransportSpec;

    /// A system with a cgroup file system at `/sys/fs/cgroup`, and this process in `/unit`.
    fn system(controllers: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("sys/fs/cgroup/unit");
        fs::create_dir_all(&group).unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/self/cgroup"), "4:memory:/x\n0::/unit\n").unwrap();
        let mounts = "29 22 0:25 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        fs::write(root.path().join("proc/self/mountinfo"), mounts).unwrap();
        fs::write(group.join("cgroup.controllers"), controllers).unwrap();
        root
    }

    fn limited() -> BackendSpec {
        let id = BackendId::parse("files").unwrap();
        BackendSpec {
            memory: Some(64 << 20),
            processes: Some(10),
            cpu: Some(50),
            ..BackendSpec::new(id, TransportSpec::Demo)
        }
    }

    #[test]
    fn a_program_gets_a_part_with_its_limits() {
        let system = system("cpuset cpu io memory pids");
        let groups = ProgramGroups::open(system.path()).unwrap();
        let unit = system.path().join("sys/fs/cgroup/unit");
        assert_eq!(fs::read_to_string(unit.join("cgroup.subtree_control")).unwrap(), "+cpu +memory +pids");
        let own = fs::read_to_string(unit.join("gateway/cgroup.procs")).unwrap();
        assert_eq!(own, std::process::id().to_string(), "a cgroup with parts has no processes of its own");
        let (one, other) = (groups.group(&limited()).unwrap(), groups.group(&limited()).unwrap());
        assert_ne!(one.folder(), other.folder(), "two users' programs do not share a limit");
        let value = |file: &str| fs::read_to_string(one.folder().join(file)).unwrap();
        assert_eq!(
            (value("memory.max"), value("pids.max"), value("cpu.max")),
            ("67108864".to_owned(), "10".to_owned(), "50000 100000".to_owned())
        );
    }

    #[test]
    fn a_part_that_is_not_empty_yet_is_removed_with_the_next_start() {
        let system = system("cpuset cpu io memory pids");
        let groups = ProgramGroups::open(system.path()).unwrap();
        let ended = groups.group(&limited()).unwrap();
        let folder = ended.folder().to_owned();
        // the files in it stand for a process that has not ended yet
        drop(ended);
        assert!(folder.exists());
        for file in fs::read_dir(&folder).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        let _next = groups.group(&limited()).unwrap();
        assert!(!folder.exists());
    }

    #[test]
    fn where_none_may_be_divided_the_reason_says_what_to_do() {
        let refused = |root: &Path| ProgramGroups::open(root).unwrap_err();
        assert_eq!(refused(tempfile::tempdir().unwrap().path()), "this system has no cgroup v2");
        let why = refused(system("cpuset cpu").path());
        assert!(why.contains("no controllers for memory, pids") && why.contains("Delegate=yes"), "{why}");
    }
}
