//! Forms of log lines in which no value ends its line, hides text or controls a terminal. The colours of a line are the
//! formatter's own, so values are escaped before they get any. Knows nothing of what is logged.

use std::fmt::{self, Write as _};

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Json, Writer},
    },
    registry::LookupSpan,
};

use crate::support::printable::{EscapeForm, Escaping};

/// Fields as `name=value`, with quotes where the value is no single word, and the message as it is; escaped.
#[derive(Debug, Clone, Copy)]
pub(super) struct EscapedFields;

/// Events as JSON in ASCII where a terminal would act on it; the values stay the same.
#[derive(Debug)]
pub(super) struct EscapedJson(pub(super) Format<Json>);

struct FieldWriter<'w> {
    writer: Writer<'w>,
    is_first: bool,
    result: fmt::Result,
    /// Scratch space for a value.
    text: String,
}

// === impl EscapedFields ===

impl<'w> FormatFields<'w> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut fields_written = FieldWriter { writer, is_first: true, result: Ok(()), text: String::new() };
        fields.record(&mut fields_written);
        fields_written.result
    }
}

// === impl FieldWriter ===

impl FieldWriter<'_> {
    fn write(&mut self, field: &Field, value: &str) -> fmt::Result {
        if !std::mem::take(&mut self.is_first) {
            self.writer.write_char(' ')?;
        }
        match field.name() {
            "message" => {}
            name if self.writer.has_ansi_escapes() => write!(self.writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?,
            name => write!(self.writer, "{name}=")?,
        }
        let mut escaping = Escaping::new(&mut self.writer, EscapeForm::Text);
        if field.name() == "message" || is_word(value) {
            return escaping.write_str(value);
        }
        escaping.write_char('"')?;
        for part in value.split_inclusive(['"', '\\']) {
            match part.strip_suffix(['"', '\\']) {
                Some(before) => write!(escaping, "{before}\\{}", &part[before.len()..])?,
                None => escaping.write_str(part)?,
            }
        }
        escaping.write_char('"')
    }
}

/// True for a value that cannot be mistaken for anything else without quotes.
fn is_word(value: &str) -> bool {
    !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c.is_control() || ['"', '=', '\\'].contains(&c))
}

impl Visit for FieldWriter<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if self.result.is_ok() {
            self.result = self.write(field, value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.result.is_ok() {
            self.text.clear();
            // of a value that displays itself, this is what it displays
            self.result = write!(self.text, "{value:?}");
        }
        if self.result.is_ok() {
            let text = std::mem::take(&mut self.text);
            self.result = self.write(field, &text);
            self.text = text;
        }
    }
}

// === impl EscapedJson ===

impl<S, N> FormatEvent<S, N> for EscapedJson
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut escaping = Escaping::new(&mut writer, EscapeForm::Json);
        self.0.format_event(context, Writer::new(&mut escaping), event)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing::field::display;
    use tracing_subscriber::{fmt, layer::SubscriberExt as _};

    use super::*;
    use crate::support::log_context::{WithRequestFields, log_with};

    /// What a server or a client sends to forge a line, and to hide it.
    const FORGED: &str =
        "x\r\n2026-01-01T00:00:00Z  INFO audit: event=\"login\" user=\"admin\"\x1b[2K\u{9b}1A\x7f\u{2028}\u{202e}y";

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(text)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    /// Logs hostile text in every place that takes some.
    fn log() {
        let events = async {
            tracing::warn!(error = %FORGED, version = FORGED, lines = ?[FORGED], "failed: {FORGED}");
            tracing::info!(target: "audit", event = "login", user = FORGED, "a person logged in");
            tracing::debug!(method = %FORGED, "größer");
        };
        let fields = || vec![("method", Box::new(display(FORGED)) as Box<dyn tracing::Value>)];
        let _ = futures_util::FutureExt::now_or_never(log_with(*b"0123456789abcdef", fields, events));
    }

    fn written(form: impl FnOnce(Lines)) -> String {
        let lines = Lines::default();
        form(lines.clone());
        let text = lines.text();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(!text.contains(['\r', '\x7f', '\u{9b}', '\u{2028}', '\u{202e}']), "{text:?}");
        assert!(text.contains("größer"));
        text
    }

    #[test]
    fn no_text_forges_a_line_or_controls_a_terminal() {
        for ansi in [false, true] {
            let text = written(|lines| {
                let layer = fmt::layer().with_ansi(ansi).fmt_fields(EscapedFields).with_writer(move || lines.clone());
                let layer = WithRequestFields::new(layer);
                tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
            });
            let sequences = text.matches("\x1b[").count();
            assert_eq!(text.matches('\x1b').count(), sequences, "of the formatter alone");
            assert_eq!(sequences > 0, ansi);
            assert!(!text.contains("\x1b[2K") && text.contains(r"\u{1b}[2K"), "{text:?}");
            if !ansi {
                assert!(text.contains(r#"WARN request{method="x\r\n2026"#), "{text}");
                let quoted =
                    r#"version="x\r\n2026-01-01T00:00:00Z  INFO audit: event=\"login\" user=\"admin\"\u{1b}[2K"#;
                assert!(text.contains(quoted) && text.contains("event=login user="), "{text}");
            }
        }
    }

    #[test]
    fn json_keeps_every_value() {
        let text = written(|lines| {
            let layer = fmt::layer().json().flatten_event(true).with_writer(move || lines.clone());
            let layer = WithRequestFields::new(layer.map_event_format(EscapedJson));
            tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
        });
        assert!(!text.contains('\x1b'));
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(first["version"], FORGED);
        assert_eq!(first["message"], format!("failed: {FORGED}"));
    }
}
