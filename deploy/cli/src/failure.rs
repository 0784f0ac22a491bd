//! How a command fails: what is wrong, what mends it, and the exit code for scripts.

use std::fmt::{self, Display};
use std::process::ExitCode;

/// Exit codes. Stable: scripts rest on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Something failed on this machine.
    Failed = 1,
    /// The command line is wrong; what the argument parser finds ends so, too.
    Usage = 2,
    /// Files or configuration are invalid; nothing was changed.
    Invalid = 3,
    /// No central node could be reached.
    Unreachable = 4,
    /// The mesh refused.
    Refused = 5,
    /// A check found something wrong, such as a ledger that does not balance.
    Unsound = 6,
}

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    what: String,
    mend: Option<String>,
    /// Whether it was said already.
    told: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Display) -> Self {
        Self { exit, what: what.to_string(), mend: None, told: false }
    }

    /// Something failed on this machine.
    pub(crate) fn failed(what: impl Display) -> Self {
        Self::new(Exit::Failed, what)
    }

    /// With what to do about it.
    pub(crate) fn mend(mut self, mend: impl Display) -> Self {
        self.mend = Some(mend.to_string());
        self
    }

    pub(crate) fn is(&self, exit: Exit) -> bool {
        self.exit == exit
    }

    /// What is wrong, without the mend.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// It was said already; only the exit code is left.
    pub(crate) fn told(mut self) -> Self {
        self.told = true;
        self
    }

    pub(crate) fn is_told(&self) -> bool {
        self.told
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit as u8)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what)?;
        match &self.mend {
            Some(mend) => write!(f, "\nto mend it: {mend}"),
            None => Ok(()),
        }
    }
}

/// What a command gives.
pub(crate) type Outcome = Result<(), Failure>;
