//! Values that are read when somebody asks for the metrics, and not recorded: what is gone leaves none behind.

use std::fmt::Write as _;

use super::described::DescribedMetric;

/// One value.
#[derive(Debug, Clone, Copy)]
pub struct MetricReading<'a> {
    /// The metric, which has this label or none.
    pub name: &'static str,
    /// The server that it is of.
    pub server: Option<&'a str>,
    /// The value.
    pub value: f64,
}

/// Writes readings in the text format of Prometheus. Those of one metric must be together.
pub(super) fn write(text: &mut String, readings: &[MetricReading<'_>]) {
    for of_one in readings.chunk_by(|one, next| one.name == next.name) {
        let described = of_one.first().and_then(|reading| DescribedMetric::of(reading.name));
        let Some(described) = described else { continue };
        described.write_head(text);
        let name = described.name;
        for MetricReading { server, value, .. } in of_one {
            let _ = match server {
                // a name of the configuration has no character that needs an escape
                Some(server) => writeln!(text, "{name}{{server=\"{server}\"}} {value}"),
                None => writeln!(text, "{name} {value}"),
            };
        }
        text.push('\n');
    }
}
