//! Setup of logs and metrics. Knows nothing of what is logged.
//!
//! Logs go to the writer that they are given, which is standard error: standard output holds only the output of
//! commands. [`Telemetry::render`] renders metrics for Prometheus.

mod described;
mod escaped;
mod histograms;
mod line_format;
mod reading;
mod recorder;

use std::{backtrace::Backtrace, panic};

use tracing_subscriber::{
    EnvFilter, Registry,
    filter::{LevelFilter, ParseError},
    fmt,
    layer::SubscriberExt as _,
    reload,
    util::SubscriberInitExt as _,
};

pub use self::{
    described::{DescribedMetric, LabelValues, METRICS, MetricGroup, MetricKind, MetricLabel},
    line_format::LineFormat,
    reading::MetricReading,
    recorder::begin_at_zero,
};
use self::{
    escaped::{EscapedFields, EscapedJson},
    line_format::{EitherFormat, SharedFormat},
    recorder::{MetricRecorder, Recorded},
};
use crate::support::{BackgroundWriter, log_context::WithRequestFields};

/// Directives for libraries whose details nobody asks for with `debug` alone: each statement, each frame.
const QUIET_LIBRARIES: &str = "sqlx=warn,hyper=info,hyper_util=info,h2=info,rustls=info,tungstenite=info";

/// Log settings, which may change while the process runs.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// Directives in `RUST_LOG` syntax.
    pub filter: String,
    /// Line format.
    pub format: LineFormat,
}

/// Use of colours in lines of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// Colours are shown, since the log goes to a terminal.
    Shown,
    /// For a file or another program.
    Left,
}

/// Failure to set up logs or metrics.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("the log filter is invalid: {0}")]
    Filter(#[from] ParseError),
    /// The log is gone.
    #[error("the log cannot be changed: {0}")]
    Log(#[from] reload::Error),
    /// Logs or metrics are already set up in this process.
    #[error("logs and metrics are already set up")]
    Twice,
}

/// Logs and metrics of this process. Cheap to clone.
#[derive(Clone)]
pub struct Telemetry {
    metrics: Recorded,
    /// `None` for values without logs.
    log: Option<LogHandle>,
}

/// What changes the log.
#[derive(Clone)]
struct LogHandle {
    filter: reload::Handle<EnvFilter, Registry>,
    format: SharedFormat,
}

/// Reports in the log that lines of it were lost.
pub fn report_lost_lines(count: u64) {
    tracing::warn!(count, "lines of the log were dropped: nobody read it fast enough");
}

/// Panics as lines of the log: the default hook waits for standard error.
fn log_panics() {
    panic::set_hook(Box::new(|panic| {
        let (text, place) =
            (panic.payload_as_str().unwrap_or("(no message)"), panic.location().map(tracing::field::display));
        let backtrace = Backtrace::capture();
        let backtrace = matches!(backtrace.status(), std::backtrace::BacktraceStatus::Captured).then_some(backtrace);
        tracing::error!(
            panic = text,
            place,
            backtrace = backtrace.as_ref().map(tracing::field::display),
            "a thread panicked"
        );
    }));
}

/// The filter of these directives; libraries stay quiet unless a directive names them.
fn filter(directives: &str) -> Result<EnvFilter, ParseError> {
    let own = EnvFilter::try_new(directives)?;
    if own.max_level_hint().is_none_or(|level| level <= LevelFilter::INFO) {
        return Ok(own);
    }
    // of two directives with one target, the later counts
    EnvFilter::try_new(format!("{QUIET_LIBRARIES},{directives}"))
}

// === impl Telemetry ===

impl Telemetry {
    /// Sets up metrics, and logs to `writer`, for the whole process. Call it once.
    pub fn install(settings: &LogSettings, colours: Colours, writer: BackgroundWriter) -> Result<Self, TelemetryError> {
        let (filter, handle) = reload::Layer::new(filter(&settings.filter)?);
        let format = SharedFormat::new(settings.format);
        let other = writer.clone();
        let text = fmt::layer().with_writer(move || writer.clone()).with_ansi(colours == Colours::Shown);
        let text = text.with_target(false).fmt_fields(EscapedFields);
        let json = fmt::layer().with_writer(move || other.clone()).json().flatten_event(true);
        let json = json.with_current_span(true).with_span_list(false).map_event_format(EscapedJson);
        let lines = EitherFormat { format: format.clone(), text, json };
        let registry = tracing_subscriber::registry().with(filter).with(WithRequestFields::new(lines));
        registry.try_init().map_err(|_| TelemetryError::Twice)?;
        log_panics();
        let recorder = MetricRecorder::new();
        let metrics = recorder.recorded();
        metrics::set_global_recorder(recorder).map_err(|_| TelemetryError::Twice)?;
        Ok(Self { metrics, log: Some(LogHandle { filter: handle, format }) })
    }

    /// Metrics for this value only, without logs: for tests, which share one process.
    pub fn detached() -> Self {
        Self { metrics: MetricRecorder::new().recorded(), log: None }
    }

    /// Changes what is logged, and how, from the next line on.
    pub fn change_log(&self, settings: &LogSettings) -> Result<(), TelemetryError> {
        let Some(log) = &self.log else { return Ok(()) };
        log.filter.reload(filter(&settings.filter)?)?;
        log.format.set(settings.format);
        Ok(())
    }

    /// Every metric in the text format of Prometheus, with what was read for it.
    pub fn render(&self, readings: &[MetricReading<'_>]) -> String {
        let mut text = self.metrics.render();
        reading::write(&mut text, readings);
        text
    }
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Telemetry")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_statements_unless_a_directive_asks_for_them() {
        let shows = |directives: &str| filter(directives).unwrap().to_string();
        assert!(shows("debug").contains("sqlx=warn") && shows("debug").contains("debug"));
        assert!(shows("debug,sqlx=debug").contains("sqlx=debug") && !shows("debug,sqlx=debug").contains("sqlx=warn"));
        assert_eq!(shows("error"), "error");
        assert!(filter("lockkeeper=nonsense").is_err());
    }

    #[test]
    fn what_is_counted_is_described_and_begins_at_zero() {
        let recorder = MetricRecorder::new();
        let telemetry = Telemetry { metrics: recorder.recorded(), log: None };
        metrics::with_local_recorder(&recorder, || {
            begin_at_zero(&["git"]);
            metrics::histogram!("lockkeeper_server_call_duration_seconds", "server" => "git").record(0.003);
        });
        let text = telemetry.render(&[]);
        for line in [
            "lockkeeper_server_calls_total{server=\"git\",method=\"tools/call\",outcome=\"lost\"} 0",
            "lockkeeper_server_restarts_total{server=\"git\"} 0",
            "lockkeeper_memory_refused_total 0",
            "# TYPE lockkeeper_memory_refused_total counter",
            "# HELP lockkeeper_memory_refused_total messages, bodies and calls refused for lack of memory",
            "lockkeeper_server_call_duration_seconds_bucket{server=\"git\",le=\"0.005\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert!(!text.contains("lockkeeper_oauth_refusals_total{"), "nobody knows which will come");
        assert!(!text.contains("process_"), "these are read");
    }

    #[test]
    fn what_is_read_is_not_there_afterwards() {
        let telemetry = Telemetry::detached();
        let up =
            |server: &'static str, value| MetricReading { name: "lockkeeper_server_up", server: Some(server), value };
        let cpu = MetricReading { name: "process_cpu_seconds_total", server: None, value: 0.25 };
        let text = telemetry.render(&[up("a", 1.0), up("b", 0.0), cpu]);
        let described: Vec<&str> = text.lines().filter(|line| line.contains("lockkeeper_server_up")).collect();
        assert_eq!(described.len(), 4, "{described:?}");
        assert_eq!(
            described[1..],
            [
                "# TYPE lockkeeper_server_up gauge",
                "lockkeeper_server_up{server=\"a\"} 1",
                "lockkeeper_server_up{server=\"b\"} 0"
            ]
        );
        assert!(text.contains("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 0.25\n"), "{text}");
        let text = telemetry.render(&[up("a", 1.0)]);
        assert!(!text.contains("\"b\""), "it was removed: {text}");
    }
}
