//! A curve: the cost at four points ten apart, and how it grows from one to the next.

use std::time::Duration;

use tokio::time::Instant;

/// How the cost may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    /// It does not depend on the number.
    Flat,
    /// It grows as the number does.
    Linear,
}

/// One curve.
pub(super) struct Curve {
    cost: String,
    over: &'static str,
    allowed: Growth,
    points: Vec<(u32, Duration)>,
}

// === impl Curve ===

impl Curve {
    /// The points at which a cost is measured.
    pub(super) const POINTS: [u32; 4] = [100, 1_000, 10_000, 100_000];

    /// A curve of this cost over the number of something.
    pub(super) fn new(cost: impl Into<String>, over: &'static str, allowed: Growth) -> Self {
        Self { cost: cost.into(), over, allowed, points: Vec::new() }
    }

    /// Adds a point.
    pub(super) fn add(&mut self, number: u32, cost: Duration) {
        self.points.push((number, cost));
    }

    /// Prints the row of the table in `docs/scale.md`.
    pub(super) fn print(&self) {
        let points: Vec<String> = self.points.iter().map(|(_, cost)| milliseconds(*cost)).collect();
        let (exponent, allowed) = (self.exponent(), self.allowed);
        println!("\n| {} | {} | {} | {exponent:.2} ({allowed:?}) |", self.cost, self.over, points.join(" | "));
    }

    /// The exponent of the number in the cost, fitted to all points: 0 is flat, 1 linear, 2 quadratic. A cost that is always
    /// there hides one that grows, until that is larger.
    fn exponent(&self) -> f64 {
        let logs =
            self.points.iter().map(|(number, cost)| (f64::from(*number).ln(), cost.as_secs_f64().max(1e-9).ln()));
        let logs: Vec<(f64, f64)> = logs.collect();
        let count = f64::from(u32::try_from(logs.len()).unwrap().max(1));
        let (x, y) = logs.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
        let covered: f64 = logs.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
        covered / logs.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>().max(f64::MIN_POSITIVE)
    }
}

/// The median of the times that something takes, so many times.
pub(super) async fn median(times: usize, mut what: impl AsyncFnMut()) -> Duration {
    let mut taken = Vec::new();
    for _ in 0..times {
        let started = Instant::now();
        what().await;
        taken.push(started.elapsed());
    }
    taken.sort_unstable();
    taken[taken.len() / 2]
}

pub(super) fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1_000.0)
}
