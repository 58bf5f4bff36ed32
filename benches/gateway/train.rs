//! The calls from which a program that was built to profile itself learns: a batch of each load on each way, then an
//! orderly end, at which the gateway writes its profile; the one on pipes is killed and writes none. Nothing is measured.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result};

use crate::{LOADS, ways::Bed};

/// Of one batch: some thousand calls, so that what a call runs through stands out against a start.
const BATCH: Duration = Duration::from_millis(300);

/// Makes them through this program, in which `LLVM_PROFILE_FILE` names the file of the profile.
pub(crate) async fn run(program: &Path) -> Result<()> {
    let mut bed = Bed::lay(program).await.context("the parts could not be started")?;
    for (work, at_once) in LOADS {
        for way in bed.ways.iter_mut().filter(|way| way.work == work) {
            way.run(at_once, BATCH).await.with_context(|| format!("{}, {work:?}", way.name))?;
        }
    }
    bed.end().await
}
