//! Fields of spans that are formatted when the first event within the span is logged. Most requests log nothing, and to
//! format the fields of their spans took a twentieth of a call.

use tracing::{
    Event, Id, Span, Subscriber, Value,
    span::{Attributes, Record},
};
use tracing_subscriber::{Layer, Registry, layer::Context, registry::LookupSpan};

/// Fields by their names.
pub type Fields = Vec<(&'static str, Box<dyn Value>)>;

/// A layer that writes events, and learns the late fields of their spans first.
pub struct WithLateFields<L>(pub L);

/// The fields of a span that has logged nothing yet.
struct Late(Box<dyn Fn() -> Fields + Send + Sync>);

/// Gives a span fields that it declares as empty; `fields` is called if something within the span is logged.
pub fn record_late(span: &Span, fields: impl Fn() -> Fields + Send + Sync + 'static) {
    span.with_subscriber(|(id, dispatch)| {
        if let Some(span) = dispatch.downcast_ref::<Registry>().and_then(|registry| registry.span(id)) {
            span.extensions_mut().insert(Late(Box::new(fields)));
        }
    });
}

// === impl WithLateFields ===

impl<S, L> Layer<S> for WithLateFields<L>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    L: Layer<S>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        self.0.on_new_span(attributes, id, context);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        self.0.on_record(id, values, context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        for span in context.event_scope(event).into_iter().flatten() {
            let late = span.extensions_mut().remove::<Late>();
            let declared = span.metadata().fields();
            for (name, value) in late.map(|Late(fields)| fields()).unwrap_or_default() {
                if let Some(field) = declared.field(name) {
                    let values = [(&field, Some(&*value as &dyn Value))];
                    self.0.on_record(&span.id(), &Record::new(&declared.value_set(&values)), context.clone());
                }
            }
        }
        self.0.on_event(event, context);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing::field::{Empty, display};
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
        let span = tracing::info_span!("request", method = Empty, path = Empty);
        record_late(&span, || vec![("method", Box::new(display("POST"))), ("path", Box::new("/mcp"))]);
        let _entered = span.entered();
        tracing::info!("one");
        tracing::info!("two");
    }

    #[test]
    fn events_carry_the_late_fields_of_their_span_in_every_form() {
        let (plain, json) = (Written::default(), Written::default());
        let written = plain.clone();
        let layer = fmt::layer().with_ansi(false).without_time().with_writer(move || written.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(WithLateFields(layer)), log_twice);
        let expected = ["one", "two"]
            .map(|event| format!(" INFO request{{method=POST path=\"/mcp\"}}: {}: {event}\n", module_path!()));
        assert_eq!(plain.text(), expected.concat());
        let written = json.clone();
        let layer = fmt::layer().json().with_writer(move || written.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(WithLateFields(layer)), log_twice);
        for line in json.text().lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["span"], serde_json::json!({ "name": "request", "method": "POST", "path": "/mcp" }));
        }
        assert_eq!(json.text().lines().count(), 2);
    }
}
