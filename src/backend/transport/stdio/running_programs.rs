//! Programs that run for one backend, by the process id of their first process.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Running programs, with the token that ends each. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunningPrograms(Arc<watch::Sender<BTreeMap<u32, CancellationToken>>>);

/// Keeps a program in the list until dropped.
#[derive(Debug)]
pub(super) struct RunningProgram {
    all: RunningPrograms,
    pid: u32,
}

// === impl RunningPrograms ===

impl RunningPrograms {
    /// Process ids of the running programs.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.0.borrow().keys().copied().collect()
    }

    /// Ends the programs among `pids` that still run, and waits for their end.
    pub(crate) async fn end(&self, pids: &[u32]) {
        for stop in pids.iter().filter_map(|pid| self.0.borrow().get(pid).cloned()) {
            stop.cancel();
        }
        let _ = self.0.subscribe().wait_for(|running| !pids.iter().any(|pid| running.contains_key(pid))).await;
    }

    pub(super) fn began(&self, pid: u32, stop: &CancellationToken) -> RunningProgram {
        self.0.send_modify(|running| {
            running.insert(pid, stop.clone());
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
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn programs_that_are_ended_are_waited_for_and_others_run_on() {
        let (programs, stop) = (RunningPrograms::default(), CancellationToken::new());
        let (first, second) = (programs.began(7, &stop), programs.began(9, &CancellationToken::new()));
        assert_eq!(programs.pids(), [7, 9]);
        let mut ended = Box::pin(programs.end(&[7]));
        assert!(ended.as_mut().now_or_never().is_none() && stop.is_cancelled());
        drop(first);
        assert!(ended.now_or_never().is_some() && programs.pids() == [9]);
        drop(second);
    }
}
