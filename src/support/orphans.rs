//! Processes without a parent, which belong to process 1: in a container that is the gateway, so it has to reap them.
//! The gateway's own children are handled elsewhere.

use std::{convert::Infallible, process, time::Duration};

use nix::{
    sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid},
    unistd::Pid,
};
use tokio::time::sleep;

/// Time between two looks. A child of the gateway's own is gone by the second one.
const LOOK: Duration = Duration::from_millis(250);

/// Ends the entries of processes that have exited and have no other parent, for ever; does nothing if this process is not the first.
pub async fn reap() -> Infallible {
    if process::id() != 1 {
        return std::future::pending().await;
    }
    let mut seen = None;
    loop {
        sleep(LOOK).await;
        let exited = exited();
        if let Some(orphan) = exited.filter(|_| exited == seen) {
            let _ = waitpid(orphan, Some(WaitPidFlag::WNOHANG));
        }
        seen = exited;
    }
}

/// A process that has exited, and whose entry is still there.
fn exited() -> Option<Pid> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::All, flags).ok().and_then(|status: WaitStatus| status.pid())
}
