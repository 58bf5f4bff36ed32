//! The figures as a table for people and as JSON for comparisons.

use std::fmt;

use serde::Serialize;

use crate::{
    idle::{Idle, Start},
    load::Figures,
};

/// One way at one number of calls at once.
#[derive(Serialize)]
pub(crate) struct Row {
    way: &'static str,
    at_once: usize,
    calls_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    /// CPU time per call of what stands between client and backend.
    cpu_between_us: f64,
    cpu_backend_us: f64,
}

/// All that was measured in one run.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
    pub(crate) start: Start,
    pub(crate) idle: Idle,
}

// === impl Row ===

impl Row {
    pub(crate) fn new(way: &'static str, at_once: usize, mut figures: Figures) -> Self {
        let cpu = figures.cpu_per_call();
        Self {
            way,
            at_once,
            calls_per_second: figures.calls_per_second(),
            p50_us: figures.latency(500),
            p99_us: figures.latency(990),
            cpu_between_us: cpu[0],
            cpu_backend_us: cpu[1],
        }
    }
}

// === impl Report ===

impl Report {
    pub(crate) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// What a way costs in CPU time beside nginx, at the same number of calls at once.
    fn beside_nginx(&self, row: &Row) -> Option<f64> {
        let nginx = self.rows.iter().find(|other| other.way == "HTTP, nginx" && other.at_once == row.at_once)?;
        Some(row.cpu_between_us / nginx.cpu_between_us)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<16} {:>7} {:>9} {:>9} {:>9} {:>12} {:>12} {:>9}",
            "way", "at once", "calls/s", "p50 µs", "p99 µs", "CPU between", "CPU backend", "x nginx"
        )?;
        for row in &self.rows {
            let times = self.beside_nginx(row).filter(|times| *times > 0.0);
            let times = times.map_or_else(String::new, |times| format!("{times:.1}"));
            writeln!(
                f,
                "{:<16} {:>7} {:>9.0} {:>9.0} {:>9.0} {:>12.1} {:>12.1} {times:>9}",
                row.way,
                row.at_once,
                row.calls_per_second,
                row.p50_us,
                row.p99_us,
                row.cpu_between_us,
                row.cpu_backend_us
            )?;
        }
        let Start { first_ever, median, fastest } = &self.start;
        writeln!(
            f,
            "\nstart to first answer: {median:.1} ms median, {fastest:.1} ms fastest, {first_ever:.1} ms the first time ever"
        )?;
        let Idle { sessions, empty_bytes, full_bytes, bytes_per_session } = &self.idle;
        let mebibytes = |bytes: &u64| bytes / 1024 / 1024;
        write!(
            f,
            "idle session with an open stream: {:.1} kB each ({sessions} of them: {} MiB, before {} MiB)",
            thousandth(*bytes_per_session),
            mebibytes(full_bytes),
            mebibytes(empty_bytes)
        )
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes of one session")]
fn thousandth(bytes: u64) -> f64 {
    bytes as f64 / 1000.0
}
