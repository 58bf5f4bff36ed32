//! The format of lines of the log, which may change while the process runs.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tracing::{
    Event, Subscriber,
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

/// Line format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFormat {
    /// Text that people can read.
    Text,
    /// One JSON object per line.
    Json,
}

/// The present format. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct SharedFormat {
    is_json: Arc<AtomicBool>,
}

/// Layer that writes each line with either of two formats. `tracing_subscriber::reload` would be locked while it
/// writes, and writing a line opens the span of its request, which would lock it again.
pub(super) struct EitherFormat<T, J> {
    /// The format in use, which can change at any time.
    pub(super) format: SharedFormat,
    /// Writes a line of text.
    pub(super) text: T,
    /// Writes a line of JSON.
    pub(super) json: J,
}

// === impl SharedFormat ===

impl SharedFormat {
    /// This format, until it is set.
    pub(super) fn new(format: LineFormat) -> Self {
        Self { is_json: Arc::new(AtomicBool::new(format == LineFormat::Json)) }
    }

    fn is_json(&self) -> bool {
        self.is_json.load(Ordering::Relaxed)
    }

    /// Sets the format of further lines.
    pub(super) fn set(&self, format: LineFormat) {
        self.is_json.store(format == LineFormat::Json, Ordering::Relaxed);
    }
}

// === impl EitherFormat ===

impl<S, T, J> Layer<S> for EitherFormat<T, J>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    T: Layer<S>,
    J: Layer<S>,
{
    // spans are opened for the line of an event, so the format is the same

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if self.format.is_json() {
            self.json.on_new_span(attributes, id, context);
        } else {
            self.text.on_new_span(attributes, id, context);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if self.format.is_json() {
            self.json.on_record(id, values, context);
        } else {
            self.text.on_record(id, values, context);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if self.format.is_json() {
            self.json.on_event(event, context);
        } else {
            self.text.on_event(event, context);
        }
    }
}
