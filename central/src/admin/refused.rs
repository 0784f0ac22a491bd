//! The one place that says no to operators.

use axum::Json;
use axum::response::{IntoResponse, Response};
use central_core::Refusal;
use central_core::ledger::Undecided;
use http::StatusCode;
use settings::Fault;
use usage_store::StoreError;

use super::api::Problem;
use crate::consensus::{MemberError, ProposeError, ReadError};
use crate::seal::SealError;
use crate::usage::UsageError;

/// An answer that is not a success.
#[derive(Debug)]
pub(super) struct Refused {
    status: StatusCode,
    problem: Problem,
}

impl Refused {
    fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        let problem = Problem { code: code.to_owned(), message: message.into(), faults: Vec::new() };
        Self { status, problem }
    }

    /// The request itself is wrong.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// The request cannot be read, for the reason that HTTP gives.
    pub(super) fn unfit(status: StatusCode, why: impl Into<String>) -> Self {
        Self::new(status, "bad_request", why)
    }

    /// Something named does not exist.
    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// What is asked does not fit what is.
    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// Files cannot be applied.
    pub(super) fn invalid(message: impl Into<String>, faults: Vec<Fault>) -> Self {
        let mut refused = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message);
        refused.problem.faults = faults;
        refused
    }

    /// Another node, or the same one later, may do it.
    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    /// What was asked may have taken effect, or may yet.
    pub(super) fn unknown(why: &str) -> Self {
        let message = format!("{why}; look before trying again");
        Self::new(StatusCode::GATEWAY_TIMEOUT, "unknown", message)
    }

    /// A fault of ours.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    /// In words, for the audit line.
    pub(super) fn message(&self) -> String {
        let faults = self.problem.faults.iter().map(|fault| format!(" {fault};"));
        let all: String = faults.collect();
        format!("{}{}", self.problem.message, all.trim_end_matches(';'))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.status, Json(self.problem)).into_response()
    }
}

impl From<ReadError> for Refused {
    fn from(error: ReadError) -> Self {
        Self::unavailable(error.to_string())
    }
}

impl From<UsageError> for Refused {
    fn from(error: UsageError) -> Self {
        match error {
            UsageError::Store(StoreError::TooMuch { .. }) => Self::bad_request(error.to_string()),
            UsageError::Failing(_) | UsageError::Incomplete(_) => Self::unavailable(format!(
                "{error}; ask another central node, or take what is here with partial=true"
            )),
            UsageError::Read(_) | UsageError::Store(_) | UsageError::Stopping => {
                Self::unavailable(error.to_string())
            }
        }
    }
}

impl From<ProposeError> for Refused {
    fn from(error: ProposeError) -> Self {
        match error {
            ProposeError::Unknown(_) => Self::unknown(&error.to_string()),
            ProposeError::TooLarge(_) => Self::invalid(error.to_string(), Vec::new()),
            ProposeError::NoLeader
            | ProposeError::NotLeader
            | ProposeError::Full
            | ProposeError::Overloaded
            | ProposeError::Stopped(_) => Self::unavailable(error.to_string()),
        }
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Conflict { .. } => Self::conflict(refusal.to_string()),
            Refusal::Invalid(_) => Self::invalid(refusal.to_string(), Vec::new()),
            Refusal::NoSuchEpoch { .. } => Self::not_found(refusal.to_string()),
            Refusal::Level { .. } => Self::invalid(refusal.to_string(), Vec::new()),
            Refusal::Undecided(
                Undecided::NoEdge(_) | Undecided::NoLife(..) | Undecided::NoBudget(_) | Undecided::NoWindow,
            ) => Self::not_found(refusal.to_string()),
            Refusal::Undecided(
                Undecided::Rolling
                | Undecided::EachUsers
                | Undecided::NotEachUsers
                | Undecided::Full
                | Undecided::TooMuch(_),
            ) => Self::conflict(refusal.to_string()),
            Refusal::Nested | Refusal::Shipped { .. } => Self::internal(refusal.to_string()),
        }
    }
}

impl From<MemberError> for Refused {
    fn from(error: MemberError) -> Self {
        match error {
            MemberError::Unknown(_) => Self::not_found(error.to_string()),
            MemberError::Taken(_) | MemberError::Last(_) => Self::conflict(error.to_string()),
            MemberError::Lagging { .. } | MemberError::NoLeader | MemberError::Busy => {
                Self::unavailable(error.to_string())
            }
            MemberError::Moved | MemberError::Failed(_) => Self::new(
                StatusCode::GATEWAY_TIMEOUT,
                "unknown",
                format!("{error}; look at the members first"),
            ),
        }
    }
}

impl From<SealError> for Refused {
    fn from(error: SealError) -> Self {
        Self::internal(error.to_string())
    }
}

pub(super) async fn no_such_path(uri: http::Uri) -> Refused {
    std::future::ready(Refused::not_found(format!("no such path: {}", uri.path()))).await
}

pub(super) async fn no_such_method(method: http::Method) -> Refused {
    let message = format!("{method} is not for this path");
    std::future::ready(Refused::new(StatusCode::METHOD_NOT_ALLOWED, "bad_request", message)).await
}
