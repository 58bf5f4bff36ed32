//! The training calls for a program built with profiling: a batch of each load on each way, then a clean end, when the
//! gateway writes its profile; the gateway on pipes is killed and writes none. Nothing is measured.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result};

use crate::{LOADS, ways::Bed};

/// Length of one batch: a few thousand calls, so that the call path dominates the start.
const BATCH: Duration = Duration::from_millis(300);

/// Makes the calls through this program; `LLVM_PROFILE_FILE` names the file of the profile.
pub(crate) async fn run(program: &Path) -> Result<()> {
    let mut bed = Bed::lay(program).await.context("the parts could not be started")?;
    for (work, at_once) in LOADS {
        for way in bed.ways.iter_mut().filter(|way| way.work == work) {
            way.run(at_once, BATCH).await.with_context(|| format!("{}, {work:?}", way.name))?;
        }
    }
    bed.end().await
}
