//! What a provider says in an answer's headers to be left of a key's limits.
//!
//! OpenAI and those who speak as it does send `x-ratelimit-limit-requests`, `-remaining-requests`, `-reset-requests` and
//! the same of `-tokens`, with resets such as `1s`, `6m0s` or `28ms`, in which the limit is whole again
//! (<https://platform.openai.com/docs/guides/rate-limits>, read 2026-11-30); Azure sends resets in bare seconds, and −1 where
//! it knows nothing (<https://learn.microsoft.com/answers/questions/5625878>). Anthropic sends
//! `anthropic-ratelimit-requests-limit`, `-remaining`, `-reset` and the same of `tokens`, `input-tokens` and
//! `output-tokens`, with resets as RFC 3339 instants (<https://docs.anthropic.com/en/api/rate-limits>). The limits are of one
//! model, or of a class of models. What cannot be read, lies in the past or beyond [`MAX_RESET`] is taken as not said.

use std::time::Duration;

use base::WallMs;
use jiff::Timestamp;

/// Longest reset that is believed. Limits are of a minute or a few; what is spent for a day is told by a 429 all the same.
const MAX_RESET: Duration = Duration::from_secs(600);

/// Names of a limit's headers: the limit, what is left of it, and when it is whole again.
type Headers = [&'static str; 3];

/// By the field of [`Quota`]; the first that says what is left counts.
const REQUESTS: [Headers; 2] = [
    ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"],
    [
        "anthropic-ratelimit-requests-limit",
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
    ],
];
const TOKENS: [Headers; 2] = [
    ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"],
    [
        "anthropic-ratelimit-tokens-limit",
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-tokens-reset",
    ],
];
const INPUT: [Headers; 1] = [[
    "anthropic-ratelimit-input-tokens-limit",
    "anthropic-ratelimit-input-tokens-remaining",
    "anthropic-ratelimit-input-tokens-reset",
]];
const OUTPUT: [Headers; 1] = [[
    "anthropic-ratelimit-output-tokens-limit",
    "anthropic-ratelimit-output-tokens-remaining",
    "anthropic-ratelimit-output-tokens-reset",
]];

/// What is left of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// All of it, where that was said.
    pub limit: Option<u64>,
    /// What is left.
    pub remaining: u64,
    /// When it is whole again.
    pub reset: Duration,
}

/// What one answer says to be left of the limits of its key and model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Calls.
    pub requests: Option<Left>,
    /// Tokens, input and output together.
    pub tokens: Option<Left>,
    /// Input tokens.
    pub input: Option<Left>,
    /// Output tokens.
    pub output: Option<Left>,
}

impl Quota {
    /// Reads headers at the wall time `now`.
    #[must_use]
    pub fn read<'a>(header: impl Fn(&'static str) -> Option<&'a str>, now: WallMs) -> Self {
        let first = |names: &[Headers]| names.iter().find_map(|of| left(*of, &header, now));
        Self {
            requests: first(&REQUESTS),
            tokens: first(&TOKENS),
            input: first(&INPUT),
            output: first(&OUTPUT),
        }
    }
}

fn left<'a>(
    [limit, remaining, reset]: Headers,
    header: &impl Fn(&'static str) -> Option<&'a str>,
    now: WallMs,
) -> Option<Left> {
    let number = |name| header(name)?.trim().parse::<u64>().ok();
    let reset = header(reset)?.trim();
    let reset = duration(reset).or_else(|| instant(reset, now))?;
    let said = |reset: &Duration| !reset.is_zero() && *reset <= MAX_RESET;
    let remaining = number(remaining)?;
    // More than all is left of nothing.
    let limit = number(limit).filter(|limit| *limit >= remaining);
    Some(Left { limit, remaining, reset: Some(reset).filter(said)? })
}

/// `6m0s`, `1.5s`, `28ms`, or bare seconds.
fn duration(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let (mut rest, mut sum) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(digits)?;
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(letters)?;
        let seconds = match unit {
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            "us" | "µs" => 0.000_001,
            "ns" => 0.000_000_001,
            _other => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        (rest, sum) = (next, sum.checked_add(part)?);
    }
    (!text.is_empty()).then_some(sum)
}

fn instant(text: &str, now: WallMs) -> Option<Duration> {
    let at: Timestamp = text.parse().ok()?;
    Some(WallMs::from_millis(u64::try_from(at.as_millisecond()).ok()?).since(now))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2026-01-01T00:00:00Z.
    const NOW: WallMs = WallMs::from_millis(1_767_225_600_000);

    fn read(headers: &[(&str, &str)]) -> Quota {
        Quota::read(|name| headers.iter().find(|(of, _)| *of == name).map(|(_, value)| *value), NOW)
    }

    fn tokens(remaining: &str, reset: &str) -> Option<(u64, Duration)> {
        let headers = [
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-tokens", remaining),
            ("x-ratelimit-reset-tokens", reset),
        ];
        read(&headers).tokens.map(|left| (left.remaining, left.reset))
    }

    #[test]
    fn each_provider_is_read_in_its_own_form() {
        let openai = read(&[
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-requests", "1s"),
        ]);
        let requests = Left { limit: Some(60), remaining: 59, reset: Duration::from_secs(1) };
        assert_eq!(openai, Quota { requests: Some(requests), ..Quota::default() });
        let anthropic = read(&[
            ("anthropic-ratelimit-tokens-remaining", "0"),
            ("anthropic-ratelimit-tokens-reset", "2026-01-01T00:00:30Z"),
            ("anthropic-ratelimit-output-tokens-limit", "8000"),
            ("anthropic-ratelimit-output-tokens-remaining", "500"),
            ("anthropic-ratelimit-output-tokens-reset", "2026-01-01T01:01:00+01:00"),
        ]);
        let left = |limit, remaining, s| Some(Left { limit, remaining, reset: Duration::from_secs(s) });
        let (tokens, output) = (left(None, 0, 30), left(Some(8_000), 500, 60));
        assert_eq!(anthropic, Quota { tokens, output, ..Quota::default() });
    }

    #[test]
    fn resets_are_spans_in_units_or_bare_seconds() {
        for (reset, ms) in [
            ("28ms", 28),
            ("6m0s", 360_000),
            ("1.5s", 1_500),
            ("2m59.56s", 179_560),
            ("9", 9_000),
            ("600s", 600_000),
        ] {
            assert_eq!(tokens("7", reset), Some((7, Duration::from_millis(ms))), "{reset}");
        }
    }

    #[test]
    fn what_is_absurd_is_taken_as_not_said() {
        for reset in ["", "s", "0s", "soon", "1d", "-3s", "1s2", "601s", "99999999999h", "1..2s", "m"] {
            assert_eq!(tokens("7", reset), None, "{reset}");
        }
        for reset in
            ["2025-12-31T23:59:59Z", "2026-01-01T00:00:00Z", "2026-01-01T00:10:01Z", "1960-01-01T00:00:00Z"]
        {
            assert_eq!(tokens("7", reset), None, "{reset}");
        }
        for remaining in ["-1", "", "many", "1e3", "99999999999999999999"] {
            assert_eq!(tokens(remaining, "1s"), None, "{remaining}");
        }
        assert_eq!(read(&[("x-ratelimit-remaining-requests", "0")]), Quota::default());
    }

    proptest! {
        /// Whatever a provider sends is read without a fault, and nothing of it keeps a key away for longer than is believed.
        #[test]
        fn anything_may_be_sent(remaining in "\\PC{0,12}", reset in "[0-9.hmsuµnT:Z+-]{0,16}") {
            let said = tokens(&remaining, &reset);
            prop_assert!(said.is_none_or(|(_, reset)| !reset.is_zero() && reset <= MAX_RESET));
        }
    }
}
