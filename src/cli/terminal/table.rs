//! Text tables, with columns as wide as their widest cell.

use comfy_table::{Attribute, Color, ContentArrangement, presets};

use super::output::{Emphasis, Style};
use crate::support::printable;

/// A table with a heading.
#[derive(Debug)]
pub struct TextTable(comfy_table::Table);

/// The text of one cell, and its colour.
#[derive(Debug)]
pub struct Cell(comfy_table::Cell);

// === impl TextTable ===

impl TextTable {
    /// A table without rows.
    pub fn new(heading: &[&'static str]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(heading.iter().map(|name| Cell::from(*name).emphasis(Emphasis::Faint).0));
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        Self(table)
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.0.add_row(cells.into_iter().map(|cell| cell.0));
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The table as text; each line ends with a newline.
    pub fn render(mut self, style: Style) -> String {
        match style {
            Style::Plain => self.0.force_no_tty(),
            Style::Colours => self.0.enforce_styling(),
        };
        let lines: Vec<String> = self.0.lines().map(|line| line.trim_end().to_owned()).collect();
        lines.join("\n") + "\n"
    }
}

// === impl Cell ===

impl Cell {
    /// The cell in a colour.
    #[must_use]
    pub fn emphasis(self, emphasis: Emphasis) -> Self {
        Self(match emphasis {
            Emphasis::Good => self.0.fg(Color::DarkGreen),
            Emphasis::Waiting => self.0.fg(Color::DarkYellow),
            Emphasis::Bad => self.0.fg(Color::DarkRed),
            Emphasis::Strong => self.0.add_attribute(Attribute::Bold),
            Emphasis::Faint => self.0.add_attribute(Attribute::Dim),
        })
    }
}

impl<T: ToString> From<T> for Cell {
    /// The printable text of the value, which may come from outside.
    fn from(value: T) -> Self {
        Self(comfy_table::Cell::new(printable(&value.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TextTable {
        let mut table = TextTable::new(&["NAME", "STATE", "WHY"]);
        table.row(["git", "ready", ""].map(Cell::from));
        table.row([Cell::from("größer"), Cell::from("failed").emphasis(Emphasis::Bad), Cell::from("\x1b[2Jgone")]);
        table.row(["図書館", "ready", ""].map(Cell::from));
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        insta::assert_snapshot!(table().render(Style::Plain), @r#"
        NAME    STATE   WHY
        git     ready
        größer  failed  ?[2Jgone
        図書館  ready
        "#);
    }

    #[test]
    fn styles_change_no_width() {
        let mut table = TextTable::new(&["NAME", "STATE"]);
        table.row([Cell::from("git").emphasis(Emphasis::Strong), Cell::from("\x1b[2Jready")]);
        // attributes only: colours would depend on `NO_COLOR`, also in tests
        assert_eq!(
            table.render(Style::Colours),
            "\x1b[2mNAME  \x1b[0m\x1b[2mSTATE      \x1b[0m\n\x1b[1mgit   \x1b[0m?[2Jready\n"
        );
    }
}
