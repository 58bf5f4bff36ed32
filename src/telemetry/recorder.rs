//! The recorder of the metrics: what it knows from the start, and its histograms.

use std::{env::consts, sync::Arc};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use super::{
    described::{DescribedMetric, MetricKind},
    histograms::Histograms,
};

/// Counters and gauges of the exporter, and histograms of our own: the exporter's keep each value until somebody
/// collects them.
pub(super) struct MetricRecorder {
    exporter: PrometheusRecorder,
    histograms: Arc<Histograms>,
}

/// What has been recorded. Cheap to clone.
#[derive(Clone)]
pub(super) struct Recorded {
    exporter: PrometheusHandle,
    histograms: Arc<Histograms>,
}

/// Lets the counters of these servers begin at zero: an alert sees a growth only from a value that was there before.
pub fn begin_at_zero(servers: &[&str]) {
    for metric in DescribedMetric::all().filter(|metric| metric.kind == MetricKind::Counter && !metric.is_read()) {
        for labels in metric.label_sets(servers) {
            metrics::counter!(metric.name, labels).increment(0);
        }
    }
}

// === impl MetricRecorder ===

impl MetricRecorder {
    /// With all descriptions, and with the counters that have no server.
    pub(super) fn new() -> Self {
        let exporter = PrometheusBuilder::new().build_recorder();
        let recorder = Self { exporter, histograms: Arc::default() };
        metrics::with_local_recorder(&recorder, || {
            for DescribedMetric { name, kind, meaning, .. } in DescribedMetric::all() {
                match kind {
                    MetricKind::Counter => metrics::describe_counter!(*name, *meaning),
                    MetricKind::Gauge => metrics::describe_gauge!(*name, *meaning),
                    MetricKind::Histogram => metrics::describe_histogram!(*name, *meaning),
                }
            }
            begin_at_zero(&[]);
            let target = format!("{}-{}", consts::ARCH, consts::OS);
            metrics::gauge!("lockkeeper_build_info", "version" => env!("CARGO_PKG_VERSION"), "target" => target)
                .set(1.0);
        });
        recorder
    }

    pub(super) fn recorded(&self) -> Recorded {
        Recorded { exporter: self.exporter.handle(), histograms: Arc::clone(&self.histograms) }
    }
}

impl Recorder for MetricRecorder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.exporter.describe_counter(key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.exporter.describe_gauge(key, unit, description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.exporter.describe_histogram(key, unit, description);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.exporter.register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.exporter.register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.histograms.get_or_make(key))
    }
}

// === impl Recorded ===

impl Recorded {
    /// All of it in the text format of Prometheus.
    pub(super) fn render(&self) -> String {
        let mut text = self.exporter.render();
        self.histograms.write(&mut text);
        text
    }
}
