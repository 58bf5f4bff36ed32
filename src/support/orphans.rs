//! Processes without a parent, which belong to process 1: in a container that is the gateway, so it has to reap them.
//! The gateway's own children are handled elsewhere.

use std::{convert::Infallible, process, time::Duration};

use nix::{
    sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid},
    unistd::Pid,
};
use tokio::time::sleep;

/// Time between two looks. The gateway's own children are gone by the second one.
const LOOK: Duration = Duration::from_millis(250);

/// Reaps exited processes that have no other parent, forever; does nothing if this is not process 1.
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

/// An exited process that was not reaped yet.
fn exited() -> Option<Pid> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::All, flags).ok().and_then(|status: WaitStatus| status.pid())
}
