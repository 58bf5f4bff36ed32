//! The figures as a table for people and as JSON for comparisons.

use std::fmt;

use serde::Serialize;

use crate::{
    idle::{Idle, Start},
    load::{Batch, Work},
    ways::{DIRECT_WAY, FLOOR_WAY, NGINX_WAY},
};

/// One way, with one number of concurrent calls.
#[derive(Serialize)]
pub(crate) struct Row {
    work: Work,
    way: &'static str,
    at_once: usize,
    calls_per_second: Spread,
    p50_us: Spread,
    p99_us: Spread,
    /// CPU time per call of the programs between client and backend.
    cpu_between_us: Spread,
    cpu_backend_us: Spread,
    /// The same, as a ratio to others in the same round.
    cpu_beside_nginx: Option<Spread>,
    cpu_beside_floor: Option<Spread>,
    calls_beside_nginx: Option<Spread>,
    /// Increase over the median latency of a direct call in the same round.
    p50_added_us: Option<Spread>,
}

/// The line above the rows.
pub(crate) struct Heading;

/// Median, lowest and highest of all rounds.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Spread {
    median: f64,
    lowest: f64,
    highest: f64,
}

/// The batches of one way, one for each round.
pub(crate) struct Measured {
    pub(crate) way: &'static str,
    pub(crate) batches: Vec<Batch>,
}

/// All measurements of one run.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
    pub(crate) start: Start,
    pub(crate) idle: Vec<Idle>,
    pub(crate) program_bytes: u64,
}

/// The rows of one kind of work at one number of concurrent calls.
pub(crate) fn rows(work: Work, at_once: usize, measured: &[Measured]) -> Vec<Row> {
    let other = |name: &str| measured.iter().find(|measured| measured.way == name);
    let (direct, nginx, floor) = (other(DIRECT_WAY), other(NGINX_WAY), other(FLOOR_WAY));
    let cpu = |batch: &Batch| batch.cpu_per_call()[0];
    let row = |measured: &Measured| {
        let all = |figure: fn(&Batch) -> f64| Spread::of(measured.batches.iter().map(figure));
        // a direct call has nothing in between
        let stands_between = measured.batches.iter().any(|batch| cpu(batch) > 0.0);
        Row {
            work,
            way: measured.way,
            at_once,
            calls_per_second: all(Batch::calls_per_second),
            p50_us: all(|batch| batch.latency(500)),
            p99_us: all(|batch| batch.latency(990)),
            cpu_between_us: all(|batch| batch.cpu_per_call()[0]),
            cpu_backend_us: all(|batch| batch.cpu_per_call()[1]),
            cpu_beside_nginx: nginx
                .filter(|_| stands_between)
                .map(|nginx| measured.beside(nginx, |own, other| cpu(own) / cpu(other))),
            cpu_beside_floor: floor
                .filter(|_| stands_between)
                .map(|floor| measured.beside(floor, |own, other| cpu(own) / cpu(other))),
            calls_beside_nginx: nginx
                .map(|nginx| measured.beside(nginx, |own, other| own.calls_per_second() / other.calls_per_second())),
            p50_added_us: direct
                .map(|direct| measured.beside(direct, |own, other| own.latency(500) - other.latency(500))),
        }
    };
    measured.iter().map(row).collect()
}

// === impl Measured ===

impl Measured {
    /// A figure for each round, from the batches of this way and another.
    fn beside(&self, other: &Self, figure: impl Fn(&Batch, &Batch) -> f64) -> Spread {
        Spread::of(self.batches.iter().zip(&other.batches).map(|(own, other)| figure(own, other)))
    }
}

// === impl Spread ===

impl Spread {
    pub(crate) fn of(figures: impl Iterator<Item = f64>) -> Self {
        let mut figures: Vec<f64> = figures.collect();
        figures.sort_by(f64::total_cmp);
        let at = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
        Self { median: at(figures.len() / 2), lowest: at(0), highest: at(figures.len().saturating_sub(1)) }
    }
}

/// `1.7 (1.6-1.9)`
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = f.precision().unwrap_or(1);
        let Self { median, lowest, highest } = self;
        write!(f, "{median:.places$} ({lowest:.places$}-{highest:.places$})")
    }
}

// === impl Report ===

impl Report {
    pub(crate) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |spread: Option<Spread>, places: usize| {
            spread.map_or_else(String::new, |spread| format!("{spread:.places$}"))
        };
        write!(
            f,
            "{:<8} {:>3} {:<32} {:>8.0} {:>7.0} {:>7.0} {:>7.1} {:>17} {:>17} {:>18} {:>17}",
            format!("{:?}", self.work).to_lowercase(),
            self.at_once,
            self.way,
            self.calls_per_second.median,
            self.p50_us.median,
            self.p99_us.median,
            self.cpu_between_us.median,
            text(self.cpu_beside_nginx, 1),
            text(self.cpu_beside_floor, 1),
            text(self.calls_beside_nginx, 2),
            text(self.p50_added_us, 0),
        )
    }
}

impl fmt::Display for Heading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<8} {:>3} {:<32} {:>8} {:>7} {:>7} {:>7} {:>17} {:>17} {:>18} {:>17}",
            "work",
            "at",
            "way",
            "calls/s",
            "p50 µs",
            "p99 µs",
            "CPU µs",
            "CPU x nginx",
            "CPU x floor",
            "calls/s x nginx",
            "p50 added µs"
        )
    }
}

/// The lines below the rows, which are printed one after the other.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Start { first_ever, median, fastest } = &self.start;
        writeln!(
            f,
            "\nstart to first answer: {median:.1} ms median, {fastest:.1} ms fastest, {first_ever:.1} ms the first time ever"
        )?;
        for Idle { way, sessions, empty_bytes, full_bytes, bytes_per_session } in &self.idle {
            let (each, full, empty) = (bytes_per_session / 1000, full_bytes >> 20, empty_bytes >> 20);
            writeln!(f, "open stream, {way}: {each} kB each ({sessions} of them: {full} MiB, before {empty} MiB)")?;
        }
        write!(f, "program: {:.1} MB", thousandth(self.program_bytes / 1000))
    }
}

#[expect(clippy::cast_precision_loss, reason = "kilobytes of one file")]
fn thousandth(kilobytes: u64) -> f64 {
    kilobytes as f64 / 1000.0
}
