//! Context of log events: the fields of their request. They are formatted only when something is logged.
//!
//! Event formatters show the fields of spans. A span for each request would cost more than all other logging, so one
//! exists only while an event is written.

use std::sync::{Arc, OnceLock};

use tokio::task::futures::TaskLocalFuture;
use tracing::{
    Dispatch, Event, Id, Metadata, Subscriber, Value,
    dispatcher::WeakDispatch,
    field::Empty,
    span::{Attributes, Record},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

/// Fields by name: `method`, `path`, `request_id` and `client_ip`.
pub type Fields = Vec<(&'static str, Box<dyn Value>)>;

/// The fields of one request, made anew for each event.
#[derive(Clone)]
pub struct RequestFields {
    /// The digits of its correlation id.
    id: [u8; 16],
    fields: Arc<dyn Fn() -> Fields + Send + Sync>,
}

tokio::task_local! {
    static REQUEST: RequestFields;
}

/// A layer that writes each event within a span of its request. It passes on only what formatters of lines need: new
/// spans, their fields, and events.
pub struct WithRequestFields<L> {
    writer: L,
    dispatch: OnceLock<WeakDispatch>,
}

/// Runs `future` for the request with these digits as its correlation id; `fields` is called for each event logged in
/// it.
pub fn log_with<F: Future>(
    id: [u8; 16],
    fields: impl Fn() -> Fields + Send + Sync + 'static,
    future: F,
) -> TaskLocalFuture<RequestFields, F> {
    REQUEST.scope(RequestFields { id, fields: Arc::new(fields) }, future)
}

/// The current request, for a part of it that runs on another thread.
pub fn carried_fields() -> Option<RequestFields> {
    REQUEST.try_with(RequestFields::clone).ok()
}

/// The correlation id of the current request, if there is one.
pub fn current_request() -> Option<String> {
    REQUEST.try_with(|request| String::from_utf8_lossy(&request.id).into_owned()).ok()
}

/// Metadata of the span.
fn metadata() -> Option<&'static Metadata<'static>> {
    static METADATA: OnceLock<Option<&'static Metadata<'static>>> = OnceLock::new();
    *METADATA.get_or_init(|| {
        tracing::info_span!("request", method = Empty, path = Empty, request_id = Empty, client_ip = Empty).metadata()
    })
}

/// Opens a span with these fields.
fn open(dispatch: &Dispatch, fields: &Fields) -> Option<Id> {
    let metadata = metadata()?;
    let declared = metadata.fields();
    let id = dispatch.new_span(&Attributes::new(metadata, &declared.value_set(&[])));
    for (name, value) in fields {
        if let Some(field) = declared.field(name) {
            let values = [(&field, Some(&**value as &dyn Value))];
            dispatch.record(&id, &Record::new(&declared.value_set(&values)));
        }
    }
    dispatch.enter(&id);
    Some(id)
}

// === impl RequestFields ===

impl RequestFields {
    /// Runs a future for this request, in another task.
    pub async fn around<F: Future>(self, future: F) -> F::Output {
        REQUEST.scope(self, future).await
    }

    /// Runs `part` for this request.
    pub fn within<T>(self, part: impl FnOnce() -> T) -> T {
        REQUEST.sync_scope(self, part)
    }
}

// === impl WithRequestFields ===

impl<L> WithRequestFields<L> {
    /// The layer around `writer`.
    pub const fn new(writer: L) -> Self {
        Self { writer, dispatch: OnceLock::new() }
    }
}

impl<S, L> Layer<S> for WithRequestFields<L>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    L: Layer<S>,
{
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        let _ = self.dispatch.set(dispatch.downgrade());
        self.writer.on_register_dispatch(dispatch);
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        self.writer.on_new_span(attributes, id, context);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        self.writer.on_record(id, values, context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let fields = REQUEST.try_with(|request| (request.fields)()).ok();
        let dispatch = self.dispatch.get().and_then(WeakDispatch::upgrade);
        let span = fields.zip(dispatch).and_then(|(fields, dispatch)| Some((open(&dispatch, &fields)?, dispatch)));
        self.writer.on_event(event, context);
        if let Some((id, dispatch)) = span {
            dispatch.exit(&id);
            dispatch.try_close(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use futures_util::FutureExt as _;
    use tracing::field::display;
    use tracing_subscriber::{fmt, layer::SubscriberExt as _};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(text)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Written {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn log_twice() {
        let events = async {
            tracing::info!("one");
            tracing::info!("two");
        };
        log_with(
            *b"0123456789abcdef",
            || vec![("method", Box::new(display("POST"))), ("path", Box::new("/mcp"))],
            events,
        )
        .now_or_never();
        tracing::info!("three");
    }

    #[test]
    fn events_of_a_request_carry_its_fields_in_every_form() {
        let (plain, json) = (Written::default(), Written::default());
        let written = plain.clone();
        let layer = fmt::layer().with_ansi(false).without_time().with_writer(move || written.clone());
        tracing::subscriber::with_default(
            tracing_subscriber::registry().with(WithRequestFields::new(layer)),
            log_twice,
        );
        let expected = ["one", "two"]
            .map(|event| format!(" INFO request{{method=POST path=\"/mcp\"}}: {}: {event}\n", module_path!()));
        assert_eq!(plain.text(), format!("{} INFO {}: three\n", expected.concat(), module_path!()));
        let written = json.clone();
        let layer = fmt::layer().json().with_writer(move || written.clone());
        tracing::subscriber::with_default(
            tracing_subscriber::registry().with(WithRequestFields::new(layer)),
            log_twice,
        );
        let lines: Vec<serde_json::Value> =
            json.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let request = serde_json::json!({ "name": "request", "method": "POST", "path": "/mcp" });
        assert_eq!(
            [&lines[0]["span"], &lines[1]["span"], &lines[2]["span"]],
            [&request, &request, &serde_json::Value::Null]
        );
    }
}
