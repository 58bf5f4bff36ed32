//! The figures that are kept in the repository, and what has changed against them. Knows nothing of how is counted.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{callgrind::Count, pair::Pair};

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

/// What a call may need of the instructions that it needed before, as factors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    over_stdio: f64,
    over_sockets: f64,
}

// === impl Limits ===

impl Limits {
    /// Of the figures in the repository, which are as old as the last change that was accepted: by the kernel's timing
    /// alone nothing fails.
    pub(super) const OF_THE_REPOSITORY: Self = Self { over_stdio: 1.1, over_sockets: f64::INFINITY };

    /// Of one change: `most` over stdio, and over sockets, where counts differ more, three times as much more.
    pub(super) fn of_a_change(most: f64) -> Self {
        Self { over_stdio: most, over_sockets: 1.0 + 3.0 * (most - 1.0) }
    }

    fn factor(self, pair: &str) -> f64 {
        let over_sockets = Pair::exactly(pair).is_some_and(Pair::is_over_sockets);
        if over_sockets { self.over_sockets } else { self.over_stdio }
    }
}

// === impl Figures ===

impl Figures {
    /// The figures of counts of `calls` calls each, in whatever order.
    pub(super) fn of(counts: &[(Pair, Count)], calls: u32) -> Result<Self> {
        let call = |pair: Pair| {
            let of_pair = || counts.iter().filter(move |(counted, _)| *counted == pair);
            let sorted = |what: fn(&Count) -> u64| sorted(of_pair().map(|(_, count)| per_call(what(count), calls)));
            let (instructions, allocations) = (sorted(|count| count.instructions), sorted(|count| count.allocations));
            let spread = instructions[instructions.len() - 1] - instructions[0];
            let allocations = (allocations[0] * 10.0).round() / 10.0;
            (pair.to_string(), Call { instructions: instructions[instructions.len() / 2].round(), allocations, spread })
        };
        ensure!(!counts.is_empty(), "at least one pair and one run");
        let lock = Sha256::digest(fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock"))?);
        Ok(Self {
            compiler: compiler()?,
            lock: lock.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat(),
            calls: counts.iter().map(|(pair, _)| call(*pair)).collect(),
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

    /// What calls need more than `before` and its limits allow, unless `accepted` allows it.
    pub(super) fn excesses(&self, before: &Self, accepted: Option<&Self>, limits: Limits) -> Vec<String> {
        let mut excesses = Vec::new();
        for (pair, call) in &self.calls {
            let excess = |figures: &Self| match figures.calls.get(pair) {
                Some(before) => call.excess(*before, limits.factor(pair)),
                None => Some("no figures yet".to_owned()),
            };
            let is_accepted = accepted.is_some_and(|accepted| excess(accepted).is_none());
            if let Some(text) = excess(before).filter(|_| !is_accepted) {
                excesses.push(format!("{pair}: {text}"));
            }
        }
        excesses
    }
}

// === impl Call ===

impl Call {
    /// How this call is dearer than `before`, of whose instructions it may need `factor` times as many.
    fn excess(self, before: Self, factor: f64) -> Option<String> {
        if self.instructions > before.instructions * factor {
            return Some(format!("{:.0} instructions, {:.0} before", self.instructions, before.instructions));
        }
        (self.allocations > before.allocations + ROUNDING)
            .then(|| format!("{:.1} allocations, {:.1} before", self.allocations, before.allocations))
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
