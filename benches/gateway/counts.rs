//! Instructions and allocations of one call, for each pair of client, transport and server, counted by callgrind and
//! compared with the figures in the repository.
//!
//! One thread is counted: the gateway with authorization, stored sessions and metrics; clients that reach it over
//! in-memory streams at `/mcp`, one call at a time; HTTP servers over loopback in the same thread; stdio servers as
//! child processes (`share = "session"`). The figures include the bench's own part of a call, which is the same for
//! all.
//!
//! A figure is the count of 1,000 calls minus that of 500, per call, and the minimum of several runs: chance events,
//! such as a line that arrives in two pieces or a spurious wake-up, only add. A pair that needs too much is counted
//! again before it fails.

mod callgrind;
mod figures;
mod pair;
pub(crate) mod subject;
mod wire;

use std::{num::NonZero, path::PathBuf, thread};

use anyhow::{Context as _, Result, bail, ensure};

use self::{
    callgrind::Count,
    figures::{Bounds, Figures},
    pair::Pair,
};

/// Runs of a pair over HTTP that is compared with another commit.
const RUNS_OVER_HTTP: usize = 5;
/// Additional runs of a pair that needs too much.
const RUNS_AGAIN: usize = 6;

/// The file of the kept figures.
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
    /// Figures of another commit by the same compiler: a call may need so much more that `--most` and `--accepted` allow it.
    #[arg(long, value_name = "FILE", conflicts_with = "write")]
    base: Option<PathBuf>,
    /// What a call over stdio may need of the base's instructions, as a factor. Over HTTP it may need three times as much
    /// more.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.01)]
    most: f64,
    /// The base's `--figures`: what those of today have more was accepted since.
    #[arg(long, value_name = "FILE", requires = "base")]
    accepted: Option<PathBuf>,
    /// A file for what was counted, to be a base later.
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Runs, of which the least counts. Pairs over HTTP have five when they are compared with a base.
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

/// Counts, prints the table, and fails if a call exceeds its limit.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let kept = Figures::read(&arguments.figures)?;
    let base = arguments.base.as_deref().map(Figures::expected).transpose()?;
    let accepted = arguments.accepted.as_deref().map(Figures::expected).transpose()?;
    let bounds = match &base {
        Some(base) => Some(Bounds::of_a_change(base, kept.as_ref().zip(accepted.as_ref()), arguments.most)),
        None => kept.as_ref().map(Bounds::of_the_repository),
    };
    let mut counts = arguments.count(&arguments.pairs_of_runs())?;
    let dear = |measured: &Figures| bounds.as_ref().map(|bounds| measured.dear(bounds)).unwrap_or_default();
    let again = dear(&Figures::of(&counts, arguments.calls)?);
    if !again.is_empty() {
        counts.extend(arguments.count(&vec![again; RUNS_AGAIN])?);
    }
    let measured = Figures::of(&counts, arguments.calls)?;
    if let Some(file) = &arguments.keep {
        measured.write(file)?;
    }
    println!("{}", measured.beside(base.as_ref().or(kept.as_ref())));
    if arguments.write {
        return measured.with_others_of(kept).write(&arguments.figures);
    }
    let Some(bounds) = &bounds else { bail!("no figures to compare with: accept these by --write") };
    let excesses = measured.excesses(bounds);
    match measured.difference(base.as_ref().or(kept.as_ref())) {
        Some(difference) if base.is_some() => bail!("{difference}: count the base again"),
        Some(difference) if !excesses.is_empty() => {
            println!("warning: {difference}, so this is no failure:\n{}", excesses.join("\n"));
            Ok(())
        }
        _ => refuse(&excesses),
    }
}

fn refuse(excesses: &[String]) -> Result<()> {
    ensure!(
        excesses.is_empty(),
        "calls have become dearer; make them cheaper, or accept by --write with the reason in the commit:\n{}",
        excesses.join("\n")
    );
    Ok(())
}

// === impl Arguments ===

impl Arguments {
    /// The pairs of each run. With a base, the floors are left out: they belong to the bench itself.
    fn pairs_of_runs(&self) -> Vec<Vec<Pair>> {
        let mut all = Pair::named(&self.only);
        all.retain(|pair| self.base.is_none() || !pair.is_floor());
        let over_http: Vec<_> = all.iter().copied().filter(|pair| pair.is_over_sockets()).collect();
        let more =
            if self.base.is_some() && !over_http.is_empty() { RUNS_OVER_HTTP.saturating_sub(self.runs) } else { 0 };
        let mut runs = vec![all; self.runs];
        runs.extend(vec![over_http; more]);
        runs
    }

    /// Runs callgrind once for each run, on all cores.
    fn count(&self, runs: &[Vec<Pair>]) -> Result<Vec<(Pair, Count)>> {
        let at_once = thread::available_parallelism().map_or(1, NonZero::get);
        let mut counts = Vec::new();
        for (chunk, some) in runs.chunks(at_once).enumerate() {
            let counted: Vec<Result<_>> = thread::scope(|scope| {
                let profiles = |index| self.profiles.as_deref().filter(|_| (chunk, index) == (0, 0));
                let started: Vec<_> = some
                    .iter()
                    .enumerate()
                    .map(|(index, pairs)| scope.spawn(move || callgrind::run(pairs, self.calls, profiles(index))))
                    .collect();
                started.into_iter().map(|run| run.join().unwrap_or_else(|_| bail!("a run panicked"))).collect()
            });
            for (pairs, counted) in some.iter().zip(counted) {
                counts.extend(pairs.iter().copied().zip(counted.context("callgrind")?));
            }
        }
        Ok(counts)
    }
}
