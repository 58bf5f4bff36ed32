//! The section `[log]`. Knows nothing of how logs are written.

use super::section::Section;

/// Log settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// `filter`: a level, or directives such as `info,lockkeeper::backend=debug`.
    pub filter: String,
    /// `format`.
    pub format: LogFormat,
}

/// Format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Text for people, with colours on a terminal.
    Text,
    /// One JSON object per line.
    Json,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { filter: "info".to_owned(), format: LogFormat::Text }
    }
}

impl LogConfig {
    /// Reads the section; reports invalid values and uses their defaults.
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

/// Checks log directives.
pub(super) fn filter(text: &str) -> Result<String, String> {
    match tracing_subscriber::EnvFilter::try_new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("a filter is a level (`error`, `warn`, `info`, `debug`, `trace`), or directives such as \
                       `info,lockkeeper::backend=debug`"
            .to_owned()),
    }
}
