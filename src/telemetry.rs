//! Setup of logs and metrics. Knows nothing of what is logged.
//!
//! Logs go to the writer that they are given, which is standard error: standard output holds only the output of commands.
//! [`Telemetry::render`] renders metrics for Prometheus.

mod escaped;
mod line_format;

use std::{backtrace::Backtrace, panic, time::Duration};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::{
    EnvFilter, Registry,
    filter::{LevelFilter, ParseError},
    fmt,
    layer::SubscriberExt as _,
    reload,
    util::SubscriberInitExt as _,
};

pub use self::line_format::LineFormat;
use self::{
    escaped::{EscapedFields, EscapedJson},
    line_format::{EitherFormat, SharedFormat},
};
use crate::support::{BackgroundWriter, log_context::WithRequestFields};

/// Directives for libraries whose details nobody asks for with `debug` alone: each statement, each frame.
const QUIET_LIBRARIES: &str = "sqlx=warn,hyper=info,hyper_util=info,h2=info,rustls=info,tungstenite=info";

/// Upper bounds of the buckets of every histogram of seconds: 100 µs to a minute.
const SECONDS: [f64; 18] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Interval between runs of the histogram upkeep, which bounds their memory.
const UPKEEP: Duration = Duration::from_secs(5);

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
    /// For a terminal.
    Shown,
    /// For a file or another program.
    Left,
}

/// Failure to set up logs or metrics.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// Invalid filter.
    #[error("the log filter is invalid: {0}")]
    Filter(#[from] ParseError),
    /// The log is gone.
    #[error("the log cannot be changed: {0}")]
    Log(#[from] reload::Error),
    /// Logs or metrics are already set up in this process.
    #[error("logs and metrics are already set up")]
    Twice,
    /// Invalid buckets.
    #[error("metrics cannot be set up: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
}

/// Logs and metrics of this process. Cheap to clone.
#[derive(Clone)]
pub struct Telemetry {
    metrics: PrometheusHandle,
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
        let recorder = builder()?.build_recorder();
        let metrics = recorder.handle();
        // Not `install_recorder`, which starts a thread of its own: upkeep runs on a task that has an owner.
        metrics::set_global_recorder(recorder).map_err(|_| TelemetryError::Twice)?;
        Ok(Self { metrics, log: Some(LogHandle { filter: handle, format }) })
    }

    /// Metrics for this value only, without logs: for tests, which share one process.
    pub fn detached() -> Result<Self, TelemetryError> {
        Ok(Self { metrics: builder()?.build_recorder().handle(), log: None })
    }

    /// Changes what is logged, and how, from the next line on.
    pub fn change_log(&self, settings: &LogSettings) -> Result<(), TelemetryError> {
        let Some(log) = &self.log else { return Ok(()) };
        log.filter.reload(filter(&settings.filter)?)?;
        log.format.set(settings.format);
        Ok(())
    }

    /// Every metric in the text format of Prometheus.
    pub fn render(&self) -> String {
        self.metrics.render()
    }

    /// Runs the histogram upkeep until `cancel`. Run it on the app's task tracker.
    pub async fn upkeep(self, cancel: CancellationToken) {
        while cancel.run_until_cancelled(tokio::time::sleep(UPKEEP)).await.is_some() {
            self.metrics.run_upkeep();
        }
    }
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Telemetry")
    }
}

fn builder() -> Result<PrometheusBuilder, TelemetryError> {
    let seconds = Matcher::Suffix("_seconds".to_owned());
    Ok(PrometheusBuilder::new().set_buckets_for_metric(seconds, &SECONDS)?)
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
    fn seconds_have_buckets() {
        let recorder = builder().unwrap().build_recorder();
        let telemetry = Telemetry { metrics: recorder.handle(), log: None };
        metrics::with_local_recorder(&recorder, || {
            metrics::counter!("lockkeeper_calls_total", "server" => "git").increment(2);
            metrics::histogram!("lockkeeper_call_seconds").record(0.003);
        });
        let text = telemetry.render();
        assert!(text.contains("lockkeeper_calls_total{server=\"git\"} 2"), "{text}");
        assert!(text.contains("lockkeeper_call_seconds_bucket{le=\"0.005\"} 1"), "{text}");
    }
}
