//! The figures kept in the repository, and the changes against them.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{callgrind::Count, pair::Pair};

/// Additional allocations that a call may need: less than a whole one.
const ROUNDING: f64 = 0.9;

/// The cost of a call, with the compiler and dependencies used.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    /// The output of `rustc --version`.
    compiler: String,
    /// SHA-256 of `Cargo.lock`.
    lock: String,
    /// By the name of the pair.
    calls: BTreeMap<String, Call>,
}

/// The cost of one call of a pair: the minimum of all runs, since chance only adds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Call {
    instructions: f64,
    /// To a tenth, since occasional allocations count in part.
    allocations: f64,
    /// Difference between the highest and the lowest run, in instructions.
    #[serde(skip)]
    spread: f64,
}

/// Limits on the cost of calls.
pub(super) struct Bounds<'a> {
    before: &'a Figures,
    /// The figures in the repository: the current ones, and the ones for `before`.
    accepted: Option<(&'a Figures, &'a Figures)>,
    /// Limit over stdio, as a factor of the instructions needed before.
    over_stdio: f64,
    /// The same over HTTP, where counts vary more.
    over_sockets: f64,
}

// === impl Bounds ===

impl<'a> Bounds<'a> {
    /// Limits against the figures in the repository, which date from the last accepted change: the kernel's timing must
    /// not be enough to fail.
    pub(super) const fn of_the_repository(before: &'a Figures) -> Self {
        Self { before, accepted: None, over_stdio: 1.1, over_sockets: f64::INFINITY }
    }

    /// Limits for a change since `before`: `most` over stdio, three times the excess over sockets, plus the changes
    /// accepted since. They count as a factor, because figures differ between machines.
    pub(super) fn of_a_change(before: &'a Figures, accepted: Option<(&'a Figures, &'a Figures)>, most: f64) -> Self {
        Self { before, accepted, over_stdio: most, over_sockets: 1.0 + 3.0 * (most - 1.0) }
    }

    /// The excess of this pair's call over its limit.
    fn excess(&self, pair: &str, call: Call) -> Option<String> {
        let Some(before) = self.before.calls.get(pair) else { return Some("no figures yet".to_owned()) };
        let over_sockets = Pair::exactly(pair).is_some_and(Pair::is_over_sockets);
        let factor = if over_sockets { self.over_sockets } else { self.over_stdio };
        let accepted = self.accepted.and_then(|(now, then)| Some((now.calls.get(pair)?, then.calls.get(pair)?)));
        let (times, more) = accepted.map_or((1.0, 0.0), |(now, then)| {
            ((now.instructions / then.instructions).max(1.0), (now.allocations - then.allocations).max(0.0))
        });
        if call.instructions > before.instructions * factor * times {
            return Some(format!("{:.0} instructions, {:.0} before", call.instructions, before.instructions));
        }
        (call.allocations > before.allocations + more + ROUNDING)
            .then(|| format!("{:.1} allocations, {:.1} before", call.allocations, before.allocations))
    }
}

// === impl Figures ===

impl Figures {
    /// The figures from counts of `calls` calls each, in any order.
    pub(super) fn of(counts: &[(Pair, Count)], calls: u32) -> Result<Self> {
        let call = |pair: Pair| {
            let of_pair = || counts.iter().filter(move |(counted, _)| *counted == pair);
            let sorted = |what: fn(&Count) -> u64| sorted(of_pair().map(|(_, count)| per_call(what(count), calls)));
            let (instructions, allocations) = (sorted(|count| count.instructions), sorted(|count| count.allocations));
            let spread = instructions[instructions.len() - 1] - instructions[0];
            let allocations = (allocations[0] * 10.0).round() / 10.0;
            (pair.to_string(), Call { instructions: instructions[0].round(), allocations, spread })
        };
        ensure!(!counts.is_empty(), "at least one pair and one run");
        let lock = Sha256::digest(fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock"))?);
        Ok(Self {
            compiler: compiler()?,
            lock: lock.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat(),
            calls: counts.iter().map(|(pair, _)| call(*pair)).collect(),
        })
    }

    /// The figures in a file, if it exists.
    pub(super) fn read(file: &Path) -> Result<Option<Self>> {
        if !file.exists() {
            return Ok(None);
        }
        serde_json::from_slice(&fs::read(file)?).map(Some).with_context(|| file.display().to_string())
    }

    /// The figures in a file, which must exist.
    pub(super) fn expected(file: &Path) -> Result<Self> {
        Self::read(file)?.with_context(|| format!("{}: there is no such file", file.display()))
    }

    pub(super) fn write(&self, file: &Path) -> Result<()> {
        Ok(fs::write(file, serde_json::to_string_pretty(self)? + "\n")?)
    }

    /// These figures, with figures of `others` for pairs that were not counted.
    pub(super) fn with_others_of(mut self, others: Option<Self>) -> Self {
        for (pair, call) in others.into_iter().flat_map(|others| others.calls) {
            self.calls.entry(pair).or_insert(call);
        }
        self
    }

    /// The table: each pair, with the changes next to it.
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

    /// Reason why these figures cannot be compared with others.
    pub(super) fn difference(&self, others: Option<&Self>) -> Option<String> {
        others
            .filter(|others| self.compiler != others.compiler)
            .map(|others| format!("the figures are of {}, and this is {}", others.compiler, self.compiler))
    }

    /// The pairs whose calls exceed their limits.
    pub(super) fn dear(&self, bounds: &Bounds<'_>) -> Vec<Pair> {
        let dear = self.calls.iter().filter(|(pair, call)| bounds.excess(pair, **call).is_some());
        dear.filter_map(|(pair, _)| Pair::exactly(pair)).collect()
    }

    /// The excesses of calls over their limits.
    pub(super) fn excesses(&self, bounds: &Bounds<'_>) -> Vec<String> {
        let of = |(pair, call): (&String, &Call)| Some(format!("{pair}: {}", bounds.excess(pair, *call)?));
        self.calls.iter().filter_map(of).collect()
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
