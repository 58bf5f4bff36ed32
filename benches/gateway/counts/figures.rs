//! The figures that are kept in the repository, and what has changed against them. Knows nothing of how is counted.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{callgrind::Count, pair::Pair};

/// Instructions that a call may need more than the figures say, as a factor.
const TOLERANCE: f64 = 1.1;

/// Allocations that a call may need more: less than a whole one.
const ROUNDING: f64 = 0.9;

/// What a call needs, and by which compiler and dependencies.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    /// As `rustc --version` gives it.
    compiler: String,
    /// SHA-256 of `Cargo.lock`.
    lock: String,
    /// By the name of the pair.
    calls: BTreeMap<String, Call>,
}

/// What one call of a pair needs.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Call {
    instructions: f64,
    /// The least of all runs, since a wake-up by chance only adds; to a tenth, since what is allocated now and then
    /// counts in part.
    allocations: f64,
    /// Difference between the highest and the lowest run, in instructions.
    #[serde(skip)]
    spread: f64,
}

/// A pair whose call has become dearer.
pub(super) struct Excess {
    pub(super) pair: String,
    pub(super) text: String,
}

// === impl Figures ===

impl Figures {
    /// The figures of several runs.
    pub(super) fn of(pairs: &[Pair], calls: u32, runs: &[Vec<Count>]) -> Result<Self> {
        let call = |(index, pair): (usize, &Pair)| {
            let counts = |what: fn(&Count) -> u64| sorted(runs.iter().map(|run| per_call(what(&run[index]), calls)));
            let (instructions, allocations) = (counts(|count| count.instructions), counts(|count| count.allocations));
            let spread = instructions[instructions.len() - 1] - instructions[0];
            let allocations = (allocations[0] * 10.0).round() / 10.0;
            (pair.to_string(), Call { instructions: instructions[instructions.len() / 2].round(), allocations, spread })
        };
        ensure!(!runs.is_empty(), "at least one run");
        let lock = Sha256::digest(fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock"))?);
        Ok(Self {
            compiler: compiler()?,
            lock: lock.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat(),
            calls: pairs.iter().enumerate().map(call).collect(),
        })
    }

    /// The figures of a file, if there is one.
    pub(super) fn read(file: &Path) -> Result<Option<Self>> {
        if !file.exists() {
            return Ok(None);
        }
        serde_json::from_slice(&fs::read(file)?).map(Some).with_context(|| file.display().to_string())
    }

    pub(super) fn write(&self, file: &Path) -> Result<()> {
        Ok(fs::write(file, serde_json::to_string_pretty(self)? + "\n")?)
    }

    /// These figures, and those of `others` for pairs that were not counted.
    pub(super) fn with_others_of(mut self, others: Option<Self>) -> Self {
        for (pair, call) in others.into_iter().flat_map(|others| others.calls) {
            self.calls.entry(pair).or_insert(call);
        }
        self
    }

    /// The table: each pair, and beside it what has changed.
    pub(super) fn beside(&self, kept: Option<&Self>) -> String {
        let mut table = format!(
            "{:<30} {:>12} {:>8} {:>9} {:>12} {:>8}\n",
            "one call at /mcp", "instructions", "spread", "change", "allocations", "change"
        );
        for (pair, call) in &self.calls {
            let before = kept.and_then(|kept| kept.calls.get(pair));
            let (instructions, allocations) = before.map_or_else(Default::default, |before| {
                let percent = (call.instructions / before.instructions - 1.0) * 100.0;
                (format!("{percent:+.1} %"), format!("{:+.1}", call.allocations - before.allocations))
            });
            let Call { instructions: count, allocations: allocated, spread } = call;
            let _ = writeln!(
                table,
                "{pair:<30} {count:>12.0} {spread:>8.0} {instructions:>9} {allocated:>12.1} {allocations:>8}"
            );
        }
        if kept.is_some_and(|kept| kept.lock != self.lock) {
            table += "Dependencies have changed since the figures were written (Cargo.lock).\n";
        }
        table
    }

    /// The reason why figures of these two cannot be held against each other.
    pub(super) fn difference(&self, kept: &Self) -> Option<String> {
        (self.compiler != kept.compiler)
            .then(|| format!("the figures are of {}, and this is {}", kept.compiler, self.compiler))
    }

    /// What calls need more than `kept` allows.
    pub(super) fn excesses(&self, kept: &Self) -> Vec<Excess> {
        let mut excesses = Vec::new();
        for (pair, call) in &self.calls {
            let mut add = |text: String| excesses.push(Excess { pair: pair.clone(), text: format!("{pair}: {text}") });
            let Some(before) = kept.calls.get(pair) else {
                add("no figures yet".to_owned());
                continue;
            };
            if call.instructions > before.instructions * TOLERANCE {
                add(format!("{:.0} instructions, {:.0} before", call.instructions, before.instructions));
            }
            if call.allocations > before.allocations + ROUNDING {
                add(format!("{:.1} allocations, {:.1} before", call.allocations, before.allocations));
            }
        }
        excesses
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52 instructions")]
fn per_call(count: u64, calls: u32) -> f64 {
    count as f64 / f64::from(calls)
}

fn sorted(figures: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures
}

fn compiler() -> Result<String> {
    let output = Command::new("rustc").arg("--version").output().context("rustc")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
