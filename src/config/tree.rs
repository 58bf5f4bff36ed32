//! What a configuration file says, whatever its format: a tree of values, each with its place. Knows no option.

use super::problem::Place;

/// A file that was read: its values, and what is needed to tell a place in it.
#[derive(Debug, Clone)]
pub struct Document {
    /// The file as it was named.
    pub file: String,
    /// Where each line begins, in bytes.
    line_starts: Vec<usize>,
    /// The outermost table.
    pub root: Vec<Entry>,
}

/// A key with its value.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key begins, in bytes.
    pub at: usize,
    /// The value.
    pub value: Node,
}

/// A value with its place.
#[derive(Debug, Clone)]
pub struct Node {
    /// Where it begins, in bytes.
    pub at: usize,
    /// The value itself.
    pub value: Value,
}

/// A value.
#[derive(Debug, Clone)]
pub enum Value {
    /// A string.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// True or false.
    Flag(bool),
    /// Values in a row.
    List(Vec<Node>),
    /// Keys with values, in the order of the file.
    Table(Vec<Entry>),
    /// What no option takes: a fraction, a date, null.
    Other(&'static str),
}

// === impl Document ===

impl Document {
    /// The tree of `file`, whose whole text is `text`.
    pub fn new(file: &str, text: &str, root: Vec<Entry>) -> Self {
        Self { file: file.to_owned(), line_starts: line_starts(text), root }
    }

    /// The place at byte `at` for the option `path`.
    pub fn place(&self, at: usize, path: &str) -> Place {
        let (line, column) = line_and_column(&self.line_starts, at);
        Place::File { file: self.file.clone(), line, column, path: path.to_owned() }
    }
}

// === impl Value ===

impl Value {
    /// What it is, as a sentence names it.
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

/// The place of a syntax error, where there is no tree yet.
pub(super) fn place_in(file: &str, text: &str, at: usize) -> Place {
    let (line, column) = line_and_column(&line_starts(text), at);
    Place::File { file: file.to_owned(), line, column, path: String::new() }
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

/// Line and column from 1; columns count bytes, as compilers do for ASCII.
fn line_and_column(line_starts: &[usize], at: usize) -> (usize, usize) {
    let line = line_starts.partition_point(|start| *start <= at);
    (line, at - line_starts.get(line.saturating_sub(1)).copied().unwrap_or(0) + 1)
}
