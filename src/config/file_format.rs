//! The format of a configuration file, detected from its content where possible.

use std::path::Path;

use super::{from_json, from_toml, from_yaml, problem::ConfigProblems, tree::Document};

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileFormat {
    /// JSON, perhaps with comments.
    Json,
    Toml,
    Yaml,
}

// === impl FileFormat ===

impl FileFormat {
    /// The format of a file with this name and this text.
    pub(super) fn of(path: &Path, text: &str) -> Self {
        let begin = text.trim_start_matches('\u{feff}').trim_start();
        let is_named = |endings: &[&str]| {
            path.extension().is_some_and(|own| endings.iter().any(|ending| own.eq_ignore_ascii_case(ending)))
        };
        if begin.starts_with(['{', '/']) || is_named(&["json", "jsonc"]) {
            return Self::Json;
        }
        if is_named(&["yaml", "yml"]) { Self::Yaml } else { Self::Toml }
    }

    /// Parses the text of `file`; reports every syntax error found by the format's parser.
    pub(super) fn parse(self, file: &str, text: &str) -> Result<Document, ConfigProblems> {
        match self {
            Self::Json => from_json::parse(file, text.trim_start_matches('\u{feff}')),
            Self::Toml => from_toml::parse(file, text),
            Self::Yaml => from_yaml::parse(file, text.trim_start_matches('\u{feff}')),
        }
    }
}
