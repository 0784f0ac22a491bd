//! Whose fault an upstream's answer is: what the caller is told, what it says about the instance, whether another may
//! do better.

use std::time::Duration;

use base::{Code, Elsewhere};

use crate::Health;

/// What a failed attempt means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What the caller is told.
    pub code: Code,
    /// What it says about the instance.
    pub health: Health,
    /// Whether another instance may do better.
    pub elsewhere: Elsewhere,
}

/// A failure that no status tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No connection: refused, unreachable, unknown name, TLS refused, or none in time.
    Connect,
    /// The connection closed before any answer.
    Closed,
    /// No first byte in time.
    FirstByte,
    /// Silence between two pieces in time.
    Idle,
    /// Broken off after the first byte.
    Cut,
    /// Not HTTP, not this API's shape, a redirect, or more than the bounds allow.
    Malformed,
    /// A success without an answer.
    Empty,
    /// The call's own deadline passed.
    Deadline,
}

/// The meaning of an HTTP status, and of what the error body says beyond it. `None`: a success. A success whose body
/// holds an error is judged by `meaning`, or as 500. `wait` is the upstream's `Retry-After`.
#[must_use]
pub fn of_status(status: u16, meaning: Option<Code>, wait: Option<Duration>) -> Option<Verdict> {
    if (200..300).contains(&status) && meaning.is_none() {
        return None;
    }
    let verdict = |code: Code, health| Verdict { code, health, elsewhere: code.elsewhere() };
    let stays = |code| verdict(code, Health::Unknown);
    let fails = |code| verdict(code, Health::Failed);
    let refused = |code| verdict(code, Health::Refused);
    Some(match (meaning, status) {
        (Some(code @ (Code::ContextTooLong | Code::ContentFiltered)), _) => stays(code),
        (Some(code @ Code::ModelGpuOom), _) => verdict(code, Health::Broken),
        (_, 429) => verdict(Code::UpstreamRateLimited, Health::Limited(wait)),
        // An account without credit, whatever the status: others behind the same key fare no better.
        (Some(code @ (Code::UpstreamAuth | Code::UpstreamRateLimited)), _) => refused(code),
        // A key that another model may be had with, and a model that another key may have.
        (Some(Code::ModelNotFound), _) => verdict(Code::UpstreamError, Health::Missing),
        (Some(Code::Forbidden), _) | (_, 403) => verdict(Code::UpstreamAuth, Health::Forbidden),
        (Some(Code::ModelOverloaded), _) | (_, 503 | 529) => {
            verdict(Code::ModelOverloaded, wait.map_or(Health::Failed, Health::Paced))
        }
        (_, 401 | 402 | 407) => refused(Code::UpstreamAuth),
        // The path, the method and the model's name are ours, so that these do not blame the caller.
        (_, 404 | 405 | 410 | 411 | 414 | 431 | 499) => stays(Code::UpstreamError),
        (_, 408 | 504 | 524) => fails(Code::UpstreamTimeout),
        (_, 413) => stays(Code::BodyTooLarge),
        (_, 415) => stays(Code::UnsupportedMediaType),
        (_, 400..500) => stays(Code::InvalidRequest),
        (_, 100..200 | 300..400) => fails(Code::UpstreamInvalid),
        (_, _) => fails(Code::UpstreamError),
    })
}

/// The meaning of a failure without a status.
#[must_use]
pub const fn of_fault(fault: Fault) -> Verdict {
    let (code, health) = match fault {
        Fault::Connect | Fault::Closed => (Code::UpstreamUnreachable, Health::Failed),
        Fault::FirstByte | Fault::Idle => (Code::UpstreamTimeout, Health::Failed),
        Fault::Cut => (Code::UpstreamCut, Health::Failed),
        Fault::Malformed | Fault::Empty => (Code::UpstreamInvalid, Health::Failed),
        Fault::Deadline => (Code::DeadlineExceeded, Health::Unknown),
    };
    Verdict { code, health, elsewhere: code.elsewhere() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, meaning: Option<Code>) -> (Code, Health, Elsewhere) {
        let verdict = of_status(status, meaning, None).unwrap();
        (verdict.code, verdict.health, verdict.elsewhere)
    }

    /// Case B098: a caller's mistake says nothing about the instance, an account's failure does.
    #[test]
    fn blame_falls_on_the_party_at_fault() {
        for (status, code) in
            [(400, Code::InvalidRequest), (413, Code::BodyTooLarge), (422, Code::InvalidRequest)]
        {
            assert_eq!(judged(status, None), (code, Health::Unknown, Elsewhere::No), "{status}");
        }
        let limited = Health::Limited(None);
        assert_eq!(judged(429, None), (Code::UpstreamRateLimited, limited, Elsewhere::Yes));
        assert_eq!(judged(401, None), (Code::UpstreamAuth, Health::Refused, Elsewhere::Yes));
        let credit = Some(Code::UpstreamRateLimited);
        assert_eq!(judged(400, credit), (Code::UpstreamRateLimited, Health::Refused, Elsewhere::Yes));
        assert_eq!(judged(404, None), (Code::UpstreamError, Health::Unknown, Elsewhere::Yes));
    }

    #[test]
    fn a_model_refused_to_a_key_says_nothing_of_its_other_models() {
        let forbidden = (Code::UpstreamAuth, Health::Forbidden, Elsewhere::Yes);
        assert_eq!((judged(403, None), judged(403, Some(Code::Forbidden))), (forbidden, forbidden));
        let missing = (Code::UpstreamError, Health::Missing, Elsewhere::Yes);
        let none = Some(Code::ModelNotFound);
        assert_eq!((judged(404, none), judged(403, none)), (missing, missing));
        assert_eq!(judged(403, Some(Code::UpstreamAuth)).1, Health::Refused);
    }

    /// Cases B088 and B089.
    #[test]
    fn overload_moves_on_and_a_full_context_does_not() {
        for status in [503, 529] {
            assert_eq!(judged(status, None), (Code::ModelOverloaded, Health::Failed, Elsewhere::Yes));
        }
        for status in [500, 502, 520, 522, 599] {
            assert_eq!(judged(status, None), (Code::UpstreamError, Health::Failed, Elsewhere::Yes));
        }
        let context = Some(Code::ContextTooLong);
        assert_eq!(judged(500, context), (Code::ContextTooLong, Health::Unknown, Elsewhere::No));
        assert_eq!(judged(200, Some(Code::ModelGpuOom)), (Code::ModelGpuOom, Health::Broken, Elsewhere::Yes));
        assert_eq!(of_status(204, None, None), None);
    }

    #[test]
    fn a_redirect_is_a_failure_and_never_followed() {
        assert_eq!(judged(307, None), (Code::UpstreamInvalid, Health::Failed, Elsewhere::Yes));
    }

    #[test]
    fn a_wait_the_upstream_asked_for_paces_it() {
        let wait = Duration::from_secs(3);
        assert_eq!(of_status(429, None, Some(wait)).unwrap().health, Health::Limited(Some(wait)));
        assert_eq!(of_status(503, None, Some(wait)).unwrap().health, Health::Paced(wait));
    }
}
