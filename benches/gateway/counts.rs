//! Instructions and allocations of one call, for each pair of client, transport and server, counted by callgrind and
//! compared with the figures in the repository. Knows nothing of what the counted program does.
//!
//! What is counted is one thread: the gateway with authorization, stored sessions and metrics; clients that reach it
//! over streams in memory at `/mcp`, one call at a time; HTTP servers over loopback in the same thread; stdio servers as
//! child processes (`share = "session"`). The bench's own part of a call is in the figures, and is the same for all.
//!
//! A figure is the count of 1,000 calls less that of 500, per call, the median of three runs. Runs differ by less than
//! half a percent.

mod callgrind;
mod figures;
mod pair;
pub(crate) mod subject;
mod wire;

use std::{num::NonZero, path::PathBuf, thread};

use anyhow::{Context as _, Result, bail};

use self::{callgrind::Count, figures::Figures, pair::Pair};

/// Where the figures are kept.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/gateway/counts.json");

/// How it is counted.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Accepts the new figures.
    #[arg(long)]
    write: bool,
    /// The file of the figures.
    #[arg(long, value_name = "FILE", default_value = KEPT)]
    figures: PathBuf,
    /// Runs, of which the median counts.
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: usize,
    /// Calls of which twice as many are made and the first half is left out. More make it slower, hardly more exact.
    #[arg(long, value_name = "N", default_value_t = 500)]
    calls: u32,
    /// Only the pairs whose names contain this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// A folder for the profile of each pair, to be read by `callgrind_annotate`.
    #[arg(long, value_name = "FOLDER")]
    profiles: Option<PathBuf>,
}

/// Counts, prints the table, and fails where a call has become dearer than the figures allow.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let runs = count(arguments)?;
    let measured = Figures::of(&Pair::named(&arguments.only), arguments.calls, &runs)?;
    let kept = Figures::read(&arguments.figures)?;
    println!("{}", measured.beside(kept.as_ref()));
    if arguments.write {
        return measured.with_others_of(kept).write(&arguments.figures);
    }
    let Some(kept) = kept else { bail!("no figures to compare with: accept these by --write") };
    let (over_sockets, excesses): (Vec<_>, Vec<_>) =
        measured.excesses(&kept).into_iter().partition(|excess| Pair::is_over_sockets(&excess.pair));
    for excess in over_sockets {
        println!("warning: {} (over sockets, so this is no failure)", excess.text);
    }
    if excesses.is_empty() {
        return Ok(());
    }
    let excesses = excesses.into_iter().map(|excess| excess.text).collect::<Vec<_>>().join("\n");
    if let Some(difference) = measured.difference(&kept) {
        println!("warning: {difference}, so this is no failure:\n{excesses}");
        return Ok(());
    }
    bail!(
        "calls have become dearer; make them cheaper, or accept by --write with the reason in the commit:\n{excesses}"
    )
}

/// Runs callgrind as often as asked, on all cores.
fn count(arguments: &Arguments) -> Result<Vec<Vec<Count>>> {
    let at_once = thread::available_parallelism().map_or(1, NonZero::get);
    let numbers: Vec<usize> = (0..arguments.runs).collect();
    let mut runs = Vec::new();
    for numbers in numbers.chunks(at_once) {
        let counted: Vec<Result<Vec<Count>>> = thread::scope(|scope| {
            let profiles = |number| arguments.profiles.as_deref().filter(|_| number == 0);
            let started: Vec<_> = numbers
                .iter()
                .map(|number| scope.spawn(move || callgrind::run(arguments, profiles(*number))))
                .collect();
            started.into_iter().map(|run| run.join().unwrap_or_else(|_| bail!("a run panicked"))).collect()
        });
        runs.extend(counted.into_iter().collect::<Result<Vec<_>>>().context("callgrind")?);
    }
    Ok(runs)
}
