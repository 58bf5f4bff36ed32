//! Progress that only increases during one call of a client, even if the gateway makes several calls for it or waits
//! before it (all versions, *Progress*: the value increases with each notification).

use serde::Deserialize;

use super::{Method, Notification, Payload, Revision, json};

/// The amount that a wait adds. It is small, so that the server's next value is probably higher.
const LITTLE: f64 = 0.001;

/// The progress sent for one call of a client.
#[derive(Debug)]
pub(crate) struct MonotonicProgress {
    /// The last value sent to the client; `None` before the first.
    last: Option<f64>,
    /// The last value received from a server.
    base: f64,
    current: CallProgress,
}

/// The progress of the current call to a server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum CallProgress {
    /// The first call: progress passes unchanged.
    First,
    Silent,
    /// A later call: progress is raised by this amount.
    Shifted(f64),
}

#[derive(Deserialize)]
struct ProgressView {
    progress: f64,
    total: Option<f64>,
}

// === impl MonotonicProgress ===

impl MonotonicProgress {
    /// Creates a state without progress.
    pub(crate) const fn new() -> Self {
        Self { last: None, base: 0.0, current: CallProgress::First }
    }

    /// Starts the next call to a server.
    pub(crate) fn next_call(&mut self) {
        self.current = CallProgress::Silent;
    }

    /// Records a notification of the first call, which passes unchanged.
    pub(crate) fn see(&mut self, told: &Notification) {
        if told.method == Method::Progress
            && let Some(ProgressView { progress, .. }) = told.params.view()
        {
            self.note(progress);
        }
    }

    /// The notification for the client; `None` if its value would not increase. Progress of the first call passes
    /// unchanged, and so does progress of a later call that continues above the last value.
    pub(crate) fn pass(&mut self, told: Notification) -> Option<Notification> {
        if told.method != Method::Progress {
            return Some(told);
        }
        let Some(ProgressView { progress, total }) = told.params.view() else { return Some(told) };
        if self.current == CallProgress::Silent {
            self.current = CallProgress::Shifted(self.shift(progress));
        }
        let shift = match self.current {
            CallProgress::Shifted(shift) if shift > 0.0 => shift,
            _ => {
                self.note(progress);
                return Some(told);
            }
        };
        let raised = progress + shift;
        if self.last.is_some_and(|last| raised <= last) {
            return None;
        }
        self.note(raised);
        let mut params = told.params.with("progress", &number(raised));
        if let Some(total) = total {
            params = params.with("total", &number(total + shift));
        }
        Some(Notification { params, ..told })
    }

    /// A progress notification that reports a wait, for the client's token (JSON text); `None` if no higher number
    /// exists.
    pub(crate) fn waiting(&mut self, token: &str, message: &str) -> Option<Notification> {
        let value = self.last.map_or(0.0, |last| last + LITTLE);
        if self.last.is_some_and(|last| value <= last) {
            return None;
        }
        self.last = Some(value);
        let (value, message) = (number(value), json::quote(message));
        let text = format!(r#"{{"progressToken":{token},"progress":{value},"message":{message}}}"#);
        Some(Notification { method: Method::Progress, params: Payload::new(Revision::V2026_07_28, text.into()) })
    }

    /// The amount to add to the progress of a call that begins with `first`.
    fn shift(&self, first: f64) -> f64 {
        let Some(last) = self.last.filter(|last| first <= *last) else { return 0.0 };
        if self.base + first > last { self.base } else { self.base + 1.0 - first }
    }

    fn note(&mut self, value: f64) {
        self.last = Some(self.last.map_or(value, |last| last.max(value)));
        self.base = self.base.max(value);
    }
}

/// The JSON text of a number; whole numbers have no fraction.
fn number(value: f64) -> String {
    // from 2^53 on, a float has no fraction
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= MAX_EXACT {
        format!("{value:.0}")
    } else {
        serde_json::json!(value).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Notification {
        Notification { method: Method::Progress, params: Payload::new(Revision::V2026_07_28, text.to_owned().into()) }
    }

    fn text(told: Option<Notification>) -> String {
        told.map(|told| String::from_utf8_lossy(told.params.json()).into_owned()).unwrap_or_default()
    }

    #[test]
    fn the_first_call_tells_what_it_likes() {
        let mut rising = MonotonicProgress::new();
        for odd in [r#"{ "progress":1.50 ,"x":1}"#, r#"{"progress":1}"#, r#"{"progress":"much"}"#] {
            assert_eq!(text(rising.pass(told(odd))), odd);
        }
    }

    #[test]
    fn a_later_call_that_begins_lower_is_raised_with_its_total() {
        let mut rising = MonotonicProgress::new();
        rising.pass(told(r#"{"progress":5,"total":6}"#));
        assert_eq!(text(rising.waiting("\"p\"", "on")), r#"{"progressToken":"p","progress":5.001,"message":"on"}"#);
        rising.next_call();
        assert_eq!(text(rising.pass(told(r#"{"progress":1,"total":3, "x":1}"#))), r#"{"progress":6,"total":8, "x":1}"#);
        assert_eq!(text(rising.pass(told(r#"{"progress":2.5}"#))), r#"{"progress":7.5}"#);
        assert_eq!(text(rising.pass(told(r#"{"progress":2.5}"#))), "");
        rising.next_call();
        assert_eq!(text(rising.pass(told(r#"{"progress":0}"#))), r#"{"progress":8.5}"#);
    }

    #[test]
    fn a_later_call_that_goes_on_above_is_left_alone() {
        let mut rising = MonotonicProgress::new();
        rising.pass(told(r#"{"progress":5}"#));
        rising.waiting("\"p\"", "on");
        rising.next_call();
        assert_eq!(text(rising.pass(told(r#"{"progress" : 6.0}"#))), r#"{"progress" : 6.0}"#);
    }

    #[test]
    fn a_wait_before_any_progress_is_below_it() {
        let mut silent = MonotonicProgress::new();
        assert_eq!(text(silent.waiting("7", "on")), r#"{"progressToken":7,"progress":0,"message":"on"}"#);
        silent.next_call();
        assert_eq!(text(silent.pass(told(r#"{"progress":0}"#))), r#"{"progress":1}"#);
    }
}
