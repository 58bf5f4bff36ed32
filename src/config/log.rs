//! The section `[log]`.

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

/// The words for levels, as numbers too.
const LEVELS: [&str; 12] = ["off", "error", "warn", "info", "debug", "trace", "0", "1", "2", "3", "4", "5"];

/// Checks log directives.
///
/// # Errors
///
/// What a filter is, if this is none.
pub fn filter(text: &str) -> Result<String, String> {
    // an unknown word would be taken for the name of a part, and show nothing
    let names_nothing = |directive: &str| {
        let is_level = LEVELS.iter().any(|level| directive.eq_ignore_ascii_case(level));
        let is_word = directive.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        is_word && !is_level && directive != env!("CARGO_PKG_NAME") && !directive.is_empty()
    };
    match tracing_subscriber::EnvFilter::try_new(text) {
        Ok(_) if !text.split(',').any(|directive| names_nothing(directive.trim())) => Ok(text.to_owned()),
        _ => Err("a filter is a level (`error`, `warn`, `info`, `debug`, `trace`), or directives such as \
                       `info,lockkeeper::backend=debug`"
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for fine in ["info", "WARN", "info,lockkeeper::backend=debug", "lockkeeper", "hyper=warn", "off", ""] {
            assert!(filter(fine).is_ok(), "{fine}");
        }
        for wrong in ["banana", "info,banana", "verbose", "info,=", "lockkeeper=loud"] {
            assert!(filter(wrong).is_err(), "{wrong}");
        }
    }
}
