//! How long to wait: after failures of our own counting, and as an upstream asks.

use std::time::Duration;

use base::WallMs;

/// Waits that double. Half of each is fixed and half is drawn, so that many waiters do not return at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The longest first wait.
    pub first: Duration,
    /// The longest wait of all.
    pub cap: Duration,
}

impl Backoff {
    /// The wait of this `round`, from 0; `draw` is any random number.
    #[must_use]
    pub fn wait(self, round: u32, draw: u64) -> Duration {
        let full = self.first.saturating_mul(1 << round.min(20)).min(self.cap);
        let nanos = u64::try_from(full.as_nanos()).unwrap_or(u64::MAX);
        let half = nanos / 2;
        let drawn = (u128::from(draw) * u128::from(nanos - half)) >> 64;
        Duration::from_nanos(half.saturating_add(u64::try_from(drawn).unwrap_or(0)))
    }
}

/// Reads a `Retry-After` header: seconds, or a date (RFC 9110 §10.2.3) against `now`.
#[must_use]
pub fn retry_after(value: &str, now: WallMs) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(value).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(WallMs::default().plus(at).since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_within_their_bounds() {
        let backoff = Backoff { first: Duration::from_millis(300), cap: Duration::from_secs(2) };
        assert_eq!(backoff.wait(0, 0), Duration::from_millis(150));
        assert!(backoff.wait(0, u64::MAX) < Duration::from_millis(300));
        assert_eq!(backoff.wait(2, 0), Duration::from_millis(600));
        assert_eq!(backoff.wait(u32::MAX, 0), Duration::from_secs(1));
    }

    /// Case B086.
    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = WallMs::from_millis(784_111_777_000);
        assert_eq!(retry_after(" 30", now), Some(Duration::from_secs(30)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:50:07 GMT", now), Some(Duration::from_secs(30)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:00:00 GMT", now), Some(Duration::ZERO));
        assert_eq!(retry_after("soon", now), None);
        assert_eq!(retry_after("-1", now), None);
    }
}
