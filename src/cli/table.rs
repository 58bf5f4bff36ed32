//! Tables for people: columns as wide as their widest cell. Knows nothing of what is in them.

use super::output::{Ink, Style};
use crate::support::printable;

/// A table with a heading.
#[derive(Debug, Clone, Default)]
pub struct Table {
    heading: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

/// One cell: its text, and how it is dressed.
#[derive(Debug, Clone)]
pub struct Cell(String, Option<Ink>);

// === impl Table ===

impl Table {
    /// A table without rows.
    pub fn new(heading: &[&'static str]) -> Self {
        Self { heading: heading.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, each line ended.
    pub fn render(&self, style: Style) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.0.chars().count()).chain(self.heading.get(column).map(|name| name.len())).max()
        };
        let widths: Vec<usize> = (0..self.heading.len()).map(|column| width(column).unwrap_or(0)).collect();
        let heading: Vec<Cell> = self.heading.iter().map(|name| Cell::from(*name).ink(Ink::Faint)).collect();
        std::iter::once(&heading).chain(&self.rows).map(|row| line(row, &widths, style)).collect()
    }
}

fn line(row: &[Cell], widths: &[usize], style: Style) -> String {
    let mut line = String::new();
    for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
        line.push_str(if index == 0 { "" } else { "  " });
        line.push_str(&cell.1.map_or_else(|| cell.0.clone(), |ink| style.dress(ink, &cell.0)));
        if index + 1 < row.len() {
            line.push_str(&" ".repeat(width - cell.0.chars().count()));
        }
    }
    line.truncate(line.trim_end().len());
    line.push('\n');
    line
}

// === impl Cell ===

impl Cell {
    /// The cell in a colour.
    #[must_use]
    pub fn ink(self, ink: Ink) -> Self {
        Self(self.0, Some(ink))
    }
}

impl<T: ToString> From<T> for Cell {
    /// The value's text, as it can be shown: cells hold what strangers say.
    fn from(value: T) -> Self {
        Self(printable(&value.to_string()), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["NAME", "STATE", "WHY"]);
        table.row(["git", "ready", ""].map(Cell::from));
        table.row([Cell::from("größer"), Cell::from("failed").ink(Ink::Bad), Cell::from("\x1b[2Jgone")]);
        insta::assert_snapshot!(table.render(Style::Plain), @r#"
        NAME    STATE   WHY
        git     ready
        größer  failed  ?[2Jgone
        "#);
        assert!(table.render(Style::Colours).contains("\x1b[31mfailed\x1b[0m  ?[2Jgone"));
    }
}
