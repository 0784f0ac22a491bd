//! Logs of a node: what changed, what deviates, what is broken. Written to standard error.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;
use tracing_subscriber::util::TryInitError;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For a person.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The logs could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is malformed, such as `info,quinn=loud`.
    #[error("the log filter {filter:?} is not of the form `info,portolan=debug`")]
    Filter {
        /// The filter given.
        filter: String,
        /// What is wrong with it.
        source: tracing_subscriber::filter::ParseError,
    },
    /// Logs were set up before.
    #[error("logs are already set up")]
    Again(#[from] TryInitError),
}

/// Sends this process's logs to standard error, those that `filter` lets through.
///
/// # Errors
/// [`LogError`] when the filter is malformed or logs were set up before.
pub fn init(format: Format, filter: &str) -> Result<(), LogError> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|source| LogError::Filter { filter: filter.to_owned(), source })?;
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        Format::Text => registry.with(fmt::layer().with_writer(std::io::stderr)).try_init()?,
        Format::Json => registry.with(fmt::layer().json().with_writer(std::io::stderr)).try_init()?,
    }
    Ok(())
}
