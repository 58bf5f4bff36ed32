//! The programs that run for one backend, by the number of their first process. Knows nothing of what they are.

use std::{collections::BTreeSet, sync::Arc};

use tokio::sync::watch;

/// The programs that run. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunningPrograms(Arc<watch::Sender<BTreeSet<u32>>>);

/// A program that runs until this is dropped.
#[derive(Debug)]
pub(super) struct RunningProgram {
    all: RunningPrograms,
    pid: u32,
}

// === impl RunningPrograms ===

impl RunningPrograms {
    /// Their numbers at this moment.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.0.borrow().iter().copied().collect()
    }

    pub(super) fn began(&self, pid: u32) -> RunningProgram {
        self.0.send_modify(|running| {
            running.insert(pid);
        });
        RunningProgram { all: self.clone(), pid }
    }
}

// === impl RunningProgram ===

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.all.0.send_modify(|running| {
            running.remove(&self.pid);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_runs_until_its_place_is_dropped() {
        let programs = RunningPrograms::default();
        let (first, second) = (programs.began(7), programs.began(9));
        assert_eq!(programs.pids(), [7, 9]);
        drop(first);
        assert_eq!(programs.pids(), [9]);
        drop(second);
    }
}
