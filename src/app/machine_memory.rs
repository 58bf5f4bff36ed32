//! The memory that this process may use: that of the machine, or less in a control group with a limit.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Assumed if the system gives no figure, in bytes.
const UNKNOWN: usize = 2 << 30;

/// The memory that this process may use, in bytes.
pub(super) fn usable() -> usize {
    within(Path::new("/"))
}

fn within(root: &Path) -> usize {
    let machine = fs::read_to_string(root.join("proc/meminfo")).ok().and_then(|text| total(&text)).unwrap_or(UNKNOWN);
    let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let groups = root.join("sys/fs/cgroup");
    own.lines().flat_map(|line| limits(line, &groups)).fold(machine, usize::min)
}

/// Value of `MemTotal:` in bytes.
fn total(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

/// Limits of a control group and of all groups above it. In a container, the path may exist only on the host; then the
/// root group has the container's limits.
fn limits(line: &str, groups: &Path) -> Vec<usize> {
    let mut parts = line.splitn(3, ':');
    let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
        return Vec::new();
    };
    let (base, file) = match controllers {
        "" => (groups.to_owned(), "memory.max"),
        "memory" => (groups.join("memory"), "memory.limit_in_bytes"),
        _ => return Vec::new(),
    };
    let own = base.join(path.trim_start_matches('/'));
    let around = own.ancestors().take_while(|group| group.starts_with(&base)).map(PathBuf::from);
    around.filter_map(|group| fs::read_to_string(group.join(file)).ok()?.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> usize {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        within(root.path())
    }

    #[test]
    fn the_smallest_of_machine_and_control_groups_counts() {
        let meminfo = ("proc/meminfo", "MemTotal:        1024 kB\nMemFree:  7 kB\n");
        let group = ("proc/self/cgroup", "0::/system.slice/lockkeeper.service\n");
        let of_service = "sys/fs/cgroup/system.slice/lockkeeper.service/memory.max";
        let of_slice = "sys/fs/cgroup/system.slice/memory.max";
        assert_eq!(machine(&[meminfo]), 1 << 20);
        assert_eq!(machine(&[meminfo, group, (of_service, "max\n")]), 1 << 20);
        assert_eq!(machine(&[meminfo, group, (of_service, "max\n"), (of_slice, "4096\n")]), 4096);
        assert_eq!(machine(&[meminfo, group, (of_service, "2048\n"), (of_slice, "4096\n")]), 2048);
        let (old, limit) = ("proc/self/cgroup", "sys/fs/cgroup/memory/memory.limit_in_bytes");
        assert_eq!(machine(&[meminfo, (old, "4:memory:/docker/x\n3:cpu:/y\n"), (limit, "512\n")]), 512);
        assert_eq!(machine(&[]), UNKNOWN);
    }
}
