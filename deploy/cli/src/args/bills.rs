//! Options of `portolan bills`.

use std::path::PathBuf;

use base::Name;
use clap::{Args, Subcommand};

use super::{Format, Report};
use crate::bills::Tolerance;

#[derive(Debug, Subcommand)]
pub(crate) enum Bills {
    /// Compare a provider's bill with what was counted, line by line; exit with 6 when some line does not agree
    Check(BillsCheck),
}

#[derive(Debug, Args)]
pub(crate) struct BillsCheck {
    /// The bill, as comma-separated values with a heading: day or hour, model, key, requests, `input_tokens`,
    /// `uncached_input_tokens`, `cached_tokens`, `output_tokens`, cost in dollars
    pub(crate) file: PathBuf,
    /// Whose bill
    #[arg(long)]
    pub(crate) provider: Name,
    /// From this day or hour on, in UTC; from the bill's first unless said
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Up to this day or hour, which does not count; to the end of the bill's last unless said
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// By how much a figure may differ from what was counted
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    pub(crate) tolerance: Tolerance,
    /// The bill's name of a column; repeat for more
    #[arg(long, value_name = "OURS=THEIRS")]
    pub(crate) column: Vec<String>,
    /// A column of the bill to pass over; repeat for more
    #[arg(long, value_name = "THEIRS")]
    pub(crate) ignore: Vec<String>,
    /// A model that the bill calls otherwise than the catalog; repeat for more
    #[arg(long, value_name = "THEIRS=OURS")]
    pub(crate) model: Vec<String>,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) report: Report,
}

impl BillsCheck {
    /// As asked for by `--format` or `--json`.
    pub(crate) const fn format(&self) -> Format {
        if self.report.json { Format::Json } else { self.format }
    }
}
