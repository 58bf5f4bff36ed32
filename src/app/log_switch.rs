//! Log filter of a running gateway: the configured one, or another one that an operator sets for a while.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::telemetry::{LogSettings, Telemetry, TelemetryError};

/// Shared by all clones.
#[derive(Clone)]
pub(super) struct LogSwitch(Arc<Mutex<SwitchState>>);

struct SwitchState {
    telemetry: Telemetry,
    configured: LogSettings,
    raised: Option<RaisedFilter>,
}

/// A filter that replaces the configured one for a while.
struct RaisedFilter {
    filter: String,
    /// Cancelled when the filter is replaced or ends.
    over: CancellationToken,
}

// === impl LogSwitch ===

impl LogSwitch {
    /// Starts with the configured log settings.
    pub(super) fn new(telemetry: Telemetry, configured: LogSettings) -> Self {
        Self(Arc::new(Mutex::new(SwitchState { telemetry, configured, raised: None })))
    }

    /// Applies changed settings. A filter set by the operator stays until its time is over.
    pub(super) fn configure(&self, settings: LogSettings) -> Result<(), TelemetryError> {
        let mut state = self.0.lock();
        state.configured = settings;
        state.apply()
    }

    /// Sets another filter, until the next call of this method or of [`LogSwitch::end`], which also cancels the
    /// returned token.
    ///
    /// # Errors
    ///
    /// If the filter is invalid; the old one stays.
    pub(super) fn raise(&self, filter: &str) -> Result<CancellationToken, TelemetryError> {
        let mut state = self.0.lock();
        let over = CancellationToken::new();
        let before = state.raised.replace(RaisedFilter { filter: filter.to_owned(), over: over.clone() });
        if let Err(error) = state.apply() {
            state.raised = before;
            return Err(error);
        }
        if let Some(before) = before {
            before.over.cancel();
        }
        Ok(over)
    }

    /// Returns to the configured filter after this time, unless another one takes its place before: then `over` is
    /// cancelled.
    pub(super) async fn end_after(&self, over: CancellationToken, time: Duration) {
        if over.run_until_cancelled(tokio::time::sleep(time)).await.is_none() {
            return;
        }
        match self.end() {
            Ok(_) => tracing::info!("the log is as configured again"),
            Err(error) => tracing::error!(%error, "the log stays as it is"),
        }
    }

    /// Returns to the configured filter; false if that was in use already.
    pub(super) fn end(&self) -> Result<bool, TelemetryError> {
        let mut state = self.0.lock();
        let Some(raised) = state.raised.take() else { return Ok(false) };
        raised.over.cancel();
        state.apply().map(|()| true)
    }
}

// === impl SwitchState ===

impl SwitchState {
    fn apply(&self) -> Result<(), TelemetryError> {
        let raised = self.raised.as_ref().map(|raised| raised.filter.clone());
        let filter = raised.unwrap_or_else(|| self.configured.filter.clone());
        self.telemetry.change_log(&LogSettings { filter, ..self.configured.clone() })
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::telemetry::LineFormat;

    #[tokio::test(start_paused = true)]
    async fn a_changed_log_is_as_configured_after_its_time_unless_it_was_changed_again() {
        let settings = LogSettings { filter: "info".to_owned(), format: LineFormat::Text };
        let switch = LogSwitch::new(Telemetry::detached(), settings);
        let begun = Instant::now();
        let over = switch.raise("debug").unwrap();
        switch.end_after(over, Duration::from_mins(10)).await;
        assert_eq!(begun.elapsed(), Duration::from_mins(10));
        assert!(!switch.end().unwrap(), "it is in force already");

        let first = switch.raise("debug").unwrap();
        switch.raise("error").unwrap();
        switch.end_after(first, Duration::from_mins(10)).await;
        assert_eq!(begun.elapsed(), Duration::from_mins(10), "its time ended with the second change");
        assert!(switch.end().unwrap(), "the second change was in force");
    }
}
