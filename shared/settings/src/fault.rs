//! A fault of a file and its place.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A fault and its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fault {
    /// The file; empty when the fault is of something that no file mentions.
    pub file: String,
    /// Line, from 1; 0 without a file.
    pub line: u32,
    /// Column, from 1; 0 without a file.
    pub column: u32,
    /// The field, from the top of the file; empty when it is the file as a whole.
    pub field: String,
    /// What is wrong and how to mend it.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.what)
    }
}

/// Faults as people read them, one a line.
#[must_use]
pub fn list(faults: &[Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
