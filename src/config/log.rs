//! The section `[log]`. Knows nothing of how logs are written.

use super::{keys, section::Section};
use crate::model::config_key::config_keys;

config_keys! {
    /// Log settings.
    pub struct LogConfig, taken at reload {
        /// A level (`error`, `warn`, `info`, `debug`, `trace`) or directives such as `info,lockkeeper::backend=debug`.
        filter: String = text("info", filter);
        /// Lines for people, or one JSON object a line.
        format: LogFormat = choice("text" => LogFormat::Text, "json" => LogFormat::Json);
    }
}

/// Format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Text for people, with colours on a terminal.
    Text,
    /// One JSON object per line.
    Json,
}

impl LogConfig {
    /// Reads the section; reports invalid values and uses their defaults.
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        keys::read(section, Self::KEYS, Self::default()).0
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
