//! The section `[log]`. Knows nothing of how logs are written.

use super::section::Section;

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// `filter`: a level, or directives such as `info,lockkeeper::backend=debug`.
    pub filter: String,
    /// `format`.
    pub format: LogFormat,
}

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people: colours on a terminal.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info".to_owned(), format: LogFormat::Text }
    }
}

impl Log {
    /// Reads the section; what is wrong is noted there, and the default stands in.
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            filter: section.parsed("filter", filter).unwrap_or(default.filter),
            format: section
                .choice("format", &[("text", LogFormat::Text), ("json", LogFormat::Json)])
                .unwrap_or(default.format),
        }
    }
}

/// Directives that the log understands.
pub(super) fn filter(text: &str) -> Result<String, String> {
    match tracing_subscriber::EnvFilter::try_new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("a filter is a level (`error`, `warn`, `info`, `debug`, `trace`), or directives such as \
                       `info,lockkeeper::backend=debug`"
            .to_owned()),
    }
}
