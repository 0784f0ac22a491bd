//! Providers' bills against what central counted, line by line.
//!
//! A bill is a file of comma-separated values with a heading. It is read whole or refused with every mistake ([`bill`]),
//! brought to the catalog's names ([`names`]), and compared with totals of the same days or hours ([`reconcile()`]). Nothing here
//! opens a file or asks a node.

mod bill;
mod names;
mod reconcile;
mod sheet;
#[cfg(test)]
mod tests;

pub(crate) use bill::{Bill, Columns, Figure, Grain, Subject};
pub(crate) use names::Names;
pub(crate) use reconcile::{Counted, Difference, Line, State, Tolerance, reconcile};
