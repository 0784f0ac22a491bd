//! The one place that writes to standard output: results go there, everything else to standard error.
//!
//! A reader that went away (`portolan get | head`) is no error.

use std::fmt::{Display, Write as _};
use std::io::{self, Write as _};

/// Writes a result, and ends the line.
pub(crate) fn line(text: impl Display) {
    raw(&format!("{text}\n"));
}

/// Writes a result as it is.
pub(crate) fn raw(text: &str) {
    let mut out = io::stdout().lock();
    // Nobody is left to tell.
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Writes a remark, and ends the line.
pub(crate) fn remark(text: impl Display) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// Rows of a table, columns aligned; the first row is the heading.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table as comma-separated values (RFC 4180 but for line ends).
    pub(crate) fn csv(&self) -> String {
        let cell = |cell: &String| match cell.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell.clone(),
        };
        let line = |row: &Vec<String>| format!("{}\n", row.iter().map(cell).collect::<Vec<_>>().join(","));
        self.rows.iter().map(line).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() <= 1
    }

    /// The table, each line indented by `indent` spaces.
    pub(crate) fn text(&self, indent: usize) -> String {
        let mut widths = Vec::new();
        for (at, cell) in self.rows.iter().flat_map(|row| row.iter().enumerate()) {
            if at == widths.len() {
                widths.push(0);
            }
            if let Some(width) = widths.get_mut(at) {
                *width = cell.chars().count().max(*width);
            }
        }
        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (cell, width) in row.iter().zip(&widths) {
                // Writing to a string cannot fail.
                let _infallible = write!(line, "{cell:width$}  ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["region", "rtt"]);
        assert!(table.is_empty());
        table.row(vec!["eu".to_owned(), "12 ms".to_owned()]);
        table.row(vec!["ap-southeast".to_owned(), "7 ms".to_owned()]);
        assert_eq!(table.text(1), " region        rtt\n eu            12 ms\n ap-southeast  7 ms\n");
    }
}
