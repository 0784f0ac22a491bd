//! Whether a failed attempt is followed by another, and when (RES-3).
//!
//! Nothing is tried again once a byte of the answer reached the caller. What never reached an upstream (no connection,
//! a broken link) goes elsewhere at once, to as many targets as the plan has within [`MOST_ATTEMPTS`]. An upstream that
//! answered 429 or 5xx, or took too long, is followed by at most [`ANSWERED_RETRIES`] others: at once where the plan
//! has another target, since waiting protects only the one that refused; at the same target only for 429 and 503 and
//! after a back-off. Any other 4xx is the caller's and final. Every retry is paid from a [`Budget`] that calls fill,
//! so that retries stay a small share of the load when much fails at once.

use std::time::Duration;

use base::{Code, Elsewhere, Mono};

/// Attempts of one call, the first included.
pub const MOST_ATTEMPTS: u16 = 6;

/// Retries after upstreams that may have started work (RES-3: at most 2).
pub const ANSWERED_RETRIES: u16 = 2;

/// First back-off before the same target is asked again (RES-3: 300 ms); doubled each time.
const FIRST_BACKOFF: Duration = Duration::from_millis(300);

/// The longest back-off and the longest `Retry-After` worth waiting for with a caller on the line.
const LONGEST_BACKOFF: Duration = Duration::from_secs(2);

/// How long a call may wait for a place at a model's servers when all of them are full. A caller on the line rather waits
/// than comes again; beyond this it should know.
pub const IN_LINE: Duration = Duration::from_secs(20);

/// What is known of an attempt that failed before its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What happened.
    pub code: Code,
    /// Whether the upstream may have started work.
    pub reached_upstream: bool,
    /// When the upstream asked to come back.
    pub retry_after: Option<Duration>,
}

/// What follows a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another target, at once; the same one again, when there is no other and that may help.
    Elsewhere {
        /// How to ask the same target again; `None`: it would not help.
        else_again: Option<Again>,
    },
    /// The caller gets the failure.
    Stop,
}

/// How a target is asked once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// After a back-off.
    After(Duration),
    /// At once, and the call waits there for a place, for [`IN_LINE`] at most: nothing else serves the model.
    InLine,
}

impl Failed {
    /// Whether the target had no place for the call, and nothing was asked of an upstream.
    const fn is_full(&self) -> bool {
        matches!(self.code, Code::ModelOverloaded) && !self.reached_upstream
    }
}

/// The retries of one call so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    attempts: u16,
    answered: u16,
    /// Whether the call already waited for a place.
    waited: bool,
}

impl Tries {
    /// Takes note of a failed attempt and says what follows. `drawn` spreads waits.
    pub fn after(&mut self, failed: &Failed, drawn: u64) -> Next {
        self.attempts += 1;
        self.answered += u16::from(failed.reached_upstream);
        let elsewhere = match failed.code.elsewhere() {
            Elsewhere::Yes => true,
            Elsewhere::No => false,
        };
        if !elsewhere || self.attempts >= MOST_ATTEMPTS || self.answered > ANSWERED_RETRIES {
            return Next::Stop;
        }
        if failed.is_full() && !self.waited {
            return Next::Elsewhere { else_again: Some(Again::InLine) };
        }
        Next::Elsewhere { else_again: self.backoff(failed, drawn).map(Again::After) }
    }

    /// The call waits for a place now; it does so once.
    pub const fn wait_in_line(&mut self) {
        self.waited = true;
    }

    fn backoff(self, failed: &Failed, drawn: u64) -> Option<Duration> {
        let waiting_helps = matches!(
            failed.code,
            Code::UpstreamRateLimited
                | Code::ModelOverloaded
                | Code::UpstreamUnreachable
                | Code::MeshUnreachable
        );
        if !waiting_helps || failed.is_full() || self.attempts > ANSWERED_RETRIES {
            return None;
        }
        let doubled = FIRST_BACKOFF.saturating_mul(1 << (self.attempts - 1).min(8));
        // Between one half and the whole of it, so that calls that failed together do not come back together.
        let share = u32::try_from(drawn % 512).unwrap_or_default() + 512;
        let wait = failed.retry_after.unwrap_or_default().max(doubled * share / 1024);
        (wait <= LONGEST_BACKOFF).then_some(wait)
    }
}

/// Thousandths of a retry that each call adds: retries are at most a fifth of calls in the long run.
const PER_CALL: u64 = 200;

/// Retries per second that are there whatever the load.
const PER_SECOND: u64 = 10;

/// Thousandths that can be saved up: one dead target of many must not fail the calls that were under way.
const MOST: u64 = 1_000_000;

/// A node's allowance of retries, in thousandths of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    saved: u64,
    filled: Mono,
}

impl Budget {
    /// A full allowance.
    #[must_use]
    pub const fn new(now: Mono) -> Self {
        Self { saved: MOST, filled: now }
    }

    /// A call was made.
    pub fn call(&mut self) {
        self.saved = (self.saved + PER_CALL).min(MOST);
    }

    /// Whether a retry may be made now; takes it from the allowance.
    pub fn take(&mut self, now: Mono) -> bool {
        let elapsed = u64::try_from(now.since(self.filled).as_millis()).unwrap_or(u64::MAX);
        self.saved = self.saved.saturating_add(elapsed.saturating_mul(PER_SECOND)).min(MOST);
        self.filled = now.max(self.filled);
        match self.saved.checked_sub(1_000) {
            Some(left) => {
                self.saved = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_never_reached_an_upstream_walks_the_whole_plan_at_once() {
        let mut tries = Tries::default();
        let broken = failed(Code::MeshUnreachable, false);
        for _ in 1..MOST_ATTEMPTS {
            assert!(matches!(tries.after(&broken, 0), Next::Elsewhere { .. }));
        }
        assert_eq!(tries.after(&broken, 0), Next::Stop);
    }

    #[test]
    fn an_upstream_that_answered_is_followed_by_two_others_at_most() {
        let mut tries = Tries::default();
        let busy = failed(Code::UpstreamError, true);
        assert_eq!(tries.after(&busy, 0), Next::Elsewhere { else_again: None });
        assert_eq!(tries.after(&busy, 0), Next::Elsewhere { else_again: None });
        assert_eq!(tries.after(&busy, 0), Next::Stop);
    }

    #[test]
    fn a_fault_of_the_caller_is_final() {
        for code in [Code::InvalidRequest, Code::ContextTooLong, Code::ContentFiltered, Code::UpstreamCut] {
            assert_eq!(Tries::default().after(&failed(code, true), 0), Next::Stop);
        }
    }

    #[test]
    fn the_same_target_is_asked_again_after_growing_waits_that_heed_retry_after() {
        let mut tries = Tries::default();
        let limited = failed(Code::UpstreamRateLimited, true);
        let wait = |ms| Next::Elsewhere { else_again: Some(Again::After(Duration::from_millis(ms))) };
        assert_eq!(tries.after(&limited, 0), wait(150));
        assert_eq!(tries.after(&limited, 0), wait(300));
        let told = Failed { retry_after: Some(Duration::from_secs(1)), ..limited };
        assert_eq!(Tries::default().after(&told, 0), wait(1_000));
        let long = Failed { retry_after: Some(Duration::from_secs(30)), ..limited };
        assert_eq!(Tries::default().after(&long, 0), Next::Elsewhere { else_again: None });
    }

    #[test]
    fn a_call_without_a_place_waits_in_line_once() {
        let mut tries = Tries::default();
        let full =
            Failed { retry_after: Some(Duration::from_secs(1)), ..failed(Code::ModelOverloaded, false) };
        assert_eq!(tries.after(&full, 0), Next::Elsewhere { else_again: Some(Again::InLine) });
        tries.wait_in_line();
        assert_eq!(tries.after(&full, 0), Next::Elsewhere { else_again: None });
    }

    proptest! {
        #[test]
        fn retries_never_exceed_the_saved_the_calls_and_the_time(
            calls in 0u64..2_000, seconds in 0u64..100, wanted in 0u64..5_000,
        ) {
            let mut budget = Budget::new(Mono::ZERO);
            while budget.take(Mono::ZERO) {}
            (0..calls).for_each(|_| budget.call());
            let now = Mono::ZERO + Duration::from_secs(seconds);
            let taken = (0..wanted).filter(|_| budget.take(now)).count() as u64;
            let allowed = (calls * PER_CALL + seconds * 1_000 * PER_SECOND).min(MOST) / 1_000;
            prop_assert_eq!(taken, wanted.min(allowed));
        }
    }

    fn failed(code: Code, reached_upstream: bool) -> Failed {
        Failed { code, reached_upstream, retry_after: None }
    }
}
