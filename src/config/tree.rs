//! A parsed configuration file of any format: a tree of values with their places.

use super::problem::ConfigPlace;

/// A parsed file: its values, and the line starts for places.
#[derive(Debug, Clone)]
pub struct Document {
    /// File name as given.
    pub file: String,
    /// Start of each line, in bytes.
    line_starts: Vec<usize>,
    pub root: Vec<ConfigEntry>,
}

/// A key with its value.
#[derive(Debug, Clone)]
pub struct ConfigEntry {
    pub key: String,
    /// Start of the key, in bytes.
    pub at: usize,
    pub value: ConfigNode,
}

/// A value with its place.
#[derive(Debug, Clone)]
pub struct ConfigNode {
    /// Start of the value, in bytes.
    pub at: usize,
    pub value: ConfigValue,
}

#[derive(Debug, Clone)]
pub enum ConfigValue {
    Text(String),
    Integer(i64),
    Flag(bool),
    List(Vec<ConfigNode>),
    /// A table, in file order.
    Table(Vec<ConfigEntry>),
    /// Value of a type that no option accepts: a fraction, a date, null.
    Other(&'static str),
}

// === impl Document ===

impl Document {
    /// The tree of `file`, with the whole text `text`.
    pub fn new(file: &str, text: &str, root: Vec<ConfigEntry>) -> Self {
        Self { file: file.to_owned(), line_starts: line_starts(text), root }
    }

    /// The same file with other entries, which keep their places.
    #[must_use]
    pub fn with_root(self, root: Vec<ConfigEntry>) -> Self {
        Self { root, ..self }
    }

    /// The place at byte `at` for the option `path`.
    pub fn place(&self, at: usize, path: &str) -> ConfigPlace {
        let (line, column) = line_and_column(&self.line_starts, at);
        ConfigPlace::File { file: self.file.clone(), line, column, path: path.to_owned() }
    }
}

// === impl ConfigValue ===

impl ConfigValue {
    /// Kind of the value, for messages.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(_) => "a number",
            Self::Flag(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other(kind) => kind,
        }
    }
}

/// The place of a syntax error, before there is a tree.
pub(super) fn place_in(file: &str, text: &str, at: usize) -> ConfigPlace {
    let (line, column) = line_and_column(&line_starts(text), at);
    ConfigPlace::File { file: file.to_owned(), line, column, path: String::new() }
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

/// Line and column from 1; columns count bytes, as compilers do for ASCII.
fn line_and_column(line_starts: &[usize], at: usize) -> (usize, usize) {
    let line = line_starts.partition_point(|start| *start <= at);
    (line, at - line_starts.get(line.saturating_sub(1)).copied().unwrap_or(0) + 1)
}
