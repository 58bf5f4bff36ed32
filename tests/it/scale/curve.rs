//! A curve: the cost at four points, and how it grows from one to the next.

use std::{fmt, time::Duration};

use tokio::time::Instant;

/// How the cost may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    /// It does not depend on the number.
    Flat,
    /// It grows as the number does.
    Linear,
}

/// A cost at one point.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cost {
    Time(Duration),
    Bytes(u64),
}

/// One curve.
pub(super) struct Curve {
    cost: String,
    over: &'static str,
    allowed: Growth,
    points: Vec<(u32, Cost)>,
}

// === impl Cost ===

impl Cost {
    /// The cost of each of so many.
    pub(super) fn each(self, count: u32) -> Self {
        match self {
            Self::Time(time) => Self::Time(time / count),
            Self::Bytes(bytes) => Self::Bytes(bytes / u64::from(count)),
        }
    }

    /// How many times as much as another it is.
    pub(super) fn times(self, other: Self) -> f64 {
        self.size() / other.size()
    }

    #[expect(clippy::cast_precision_loss, reason = "it is printed with few digits")]
    fn size(self) -> f64 {
        match self {
            Self::Time(time) => time.as_secs_f64() * 1_000.0,
            Self::Bytes(bytes) => bytes as f64 / 1_024.0,
        }
    }
}

impl From<Duration> for Cost {
    fn from(time: Duration) -> Self {
        Self::Time(time)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if matches!(self, Self::Time(_)) { "ms" } else { "KiB" };
        write!(f, "{:.1} {unit}", self.size())
    }
}

// === impl Curve ===

impl Curve {
    /// The numbers at which most costs are measured.
    pub(super) const POINTS: [u32; 4] = [100, 1_000, 10_000, 100_000];

    /// A curve of this cost over the number of something.
    pub(super) fn new(cost: impl Into<String>, over: &'static str, allowed: Growth) -> Self {
        Self { cost: cost.into(), over, allowed, points: Vec::new() }
    }

    /// Adds a point.
    pub(super) fn add(&mut self, number: u32, cost: impl Into<Cost>) {
        self.points.push((number, cost.into()));
    }

    /// The cost at this number.
    pub(super) fn at(&self, number: u32) -> Cost {
        self.points.iter().find(|(other, _)| *other == number).unwrap().1
    }

    /// Prints the row of the table in `docs/scale.md`.
    pub(super) fn print(&self) {
        let numbers: Vec<String> = self.points.iter().map(|(number, _)| with_commas(*number)).collect();
        let costs: Vec<String> = self.points.iter().map(|(_, cost)| cost.to_string()).collect();
        let (over, exponent, allowed) = (self.over, self.exponent(), self.allowed);
        let (numbers, costs) = (numbers.join(" / "), costs.join(" | "));
        println!("\n| {} | {over}: {numbers} | {costs} | {exponent:.2} ({allowed:?}) |", self.cost);
    }

    /// The exponent of the number in the cost, fitted to all points: 0 is flat, 1 linear, 2 quadratic. A cost that is always
    /// there hides one that grows, until that is larger.
    fn exponent(&self) -> f64 {
        let logs = self.points.iter().map(|(number, cost)| (f64::from(*number).ln(), cost.size().max(1e-6).ln()));
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

fn with_commas(number: u32) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}
