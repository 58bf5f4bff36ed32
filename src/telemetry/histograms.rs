//! Histograms of seconds with fixed buckets: recording takes no memory, and nobody has to collect what was recorded.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use metrics::{HistogramFn, Key, Label};
use parking_lot::Mutex;

use super::described::DescribedMetric;

/// Upper bounds of the buckets: from a millisecond to five minutes.
const BOUNDS: [f64; 15] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// All histograms, in the order of their names.
#[derive(Default)]
pub(super) struct Histograms(Mutex<BTreeMap<Key, Arc<FixedHistogram>>>);

/// Values with the same name and labels.
#[derive(Default)]
pub(super) struct FixedHistogram {
    /// Those up to each bound and above the one before it, then those above all.
    counts: [AtomicU64; BOUNDS.len() + 1],
    /// The bits of their sum.
    sum: AtomicU64,
}

// === impl Histograms ===

impl Histograms {
    pub(super) fn get_or_make(&self, key: &Key) -> Arc<FixedHistogram> {
        Arc::clone(self.0.lock().entry(key.clone()).or_default())
    }

    /// Writes all of them in the text format of Prometheus.
    pub(super) fn write(&self, text: &mut String) {
        let mut last = None;
        for (key, histogram) in &*self.0.lock() {
            let Some(described) = DescribedMetric::of(key.name()) else { continue };
            let name = described.name;
            if last != Some(name) {
                described.write_head(text);
                last = Some(name);
            }
            let labels: Vec<String> = key.labels().map(shown).collect();
            histogram.write(text, name, &labels.join(","));
        }
    }
}

// === impl FixedHistogram ===

impl FixedHistogram {
    /// Writes its lines. `labels` must not be empty, since a comma follows.
    fn write(&self, text: &mut String, name: &str, labels: &str) {
        let mut count = 0;
        for (at, here) in self.counts.iter().enumerate() {
            count += here.load(Ordering::Relaxed);
            let bound = BOUNDS.get(at).map_or_else(|| "+Inf".to_owned(), ToString::to_string);
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
        }
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        let _ = writeln!(text, "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {count}");
    }
}

impl HistogramFn for FixedHistogram {
    fn record(&self, value: f64) {
        let at = BOUNDS.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let added = |sum| Some((f64::from_bits(sum) + value).to_bits());
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
    }
}

fn shown(label: &Label) -> String {
    let value = label.value().replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
    format!("{}=\"{value}\"", label.key())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_its_bucket_and_in_all_above() {
        let histograms = Histograms::default();
        let key = |server: &'static str| {
            Key::from_parts("lockkeeper_server_call_duration_seconds", vec![Label::new("server", server)])
        };
        for value in [0.0, 0.001, 0.002, 30.5, 1e9] {
            histograms.get_or_make(&key("git")).record(value);
        }
        histograms.get_or_make(&key("a\"\\\n"));
        let mut text = String::new();
        histograms.write(&mut text);
        let bucket = |bound: &str| {
            let line = format!("lockkeeper_server_call_duration_seconds_bucket{{server=\"git\",le=\"{bound}\"}} ");
            text.lines().find_map(|found| found.strip_prefix(&line)).unwrap().to_owned()
        };
        assert_eq!(["0.001", "0.005", "30", "60", "300", "+Inf"].map(bucket), ["2", "3", "3", "4", "4", "5"]);
        assert!(text.contains("_sum{server=\"git\"} 1000000030.503\n") && text.contains("_count{server=\"git\"} 5\n"));
        assert!(text.contains(r#"_count{server="a\"\\\n"} 0"#), "{text}");
        assert_eq!(text.matches("# TYPE lockkeeper_server_call_duration_seconds histogram\n").count(), 1);
    }
}
