//! Comma-separated values (RFC 4180), each with its place.

/// A cell and where it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Why a sheet cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) what: &'static str,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Reads rows of cells; rows without any text are passed over.
pub(super) fn rows(text: &str) -> Result<Vec<Vec<Cell>>, Broken> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { rest: text.chars().peekable(), line: 1, column: 1 };
    let mut rows = Vec::new();
    while reader.rest.peek().is_some() {
        let row = reader.row()?;
        if row.iter().any(|cell| !cell.text.is_empty()) {
            rows.push(row);
        }
    }
    Ok(rows)
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    line: u32,
    column: u32,
}

impl Reader<'_> {
    fn row(&mut self) -> Result<Vec<Cell>, Broken> {
        let mut row = Vec::new();
        loop {
            row.push(self.cell()?);
            match self.take() {
                Some(',') => {}
                _end => return Ok(row),
            }
        }
    }

    /// One cell; what ends it is left.
    fn cell(&mut self) -> Result<Cell, Broken> {
        let (line, column) = (self.line, self.column);
        let text = if self.rest.peek() == Some(&'"') { self.quoted()? } else { self.bare() };
        Ok(Cell { text: text.trim().to_owned(), line, column })
    }

    fn bare(&mut self) -> String {
        let mut text = String::new();
        while let Some(next) = self.rest.peek().copied().filter(|next| !matches!(next, ',' | '\n')) {
            self.take();
            text.push(next);
        }
        text
    }

    fn quoted(&mut self) -> Result<String, Broken> {
        let broken = |at: (u32, u32), what| Broken { what, line: at.0, column: at.1 };
        let opened = (self.line, self.column);
        self.take();
        let mut text = String::new();
        loop {
            match self.take() {
                None => return Err(broken(opened, "this quotation mark is never closed")),
                Some('"') if self.rest.peek() == Some(&'"') => {
                    self.take();
                    text.push('"');
                }
                Some('"') => break,
                Some(other) => text.push(other),
            }
        }
        let behind = (self.line, self.column);
        if !self.bare().trim().is_empty() {
            return Err(broken(
                behind,
                "something follows a closing quotation mark; double those within a cell",
            ));
        }
        Ok(text)
    }

    fn take(&mut self) -> Option<char> {
        let taken = self.rest.next()?;
        if taken == '\n' {
            (self.line, self.column) = (self.line.saturating_add(1), 1);
        } else {
            self.column = self.column.saturating_add(1);
        }
        Some(taken)
    }
}
