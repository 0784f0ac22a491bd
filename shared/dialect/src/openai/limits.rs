//! How OpenAI tells callers what a rate lets pass: `x-ratelimit-…`, for requests and for tokens.

use std::time::Duration;

/// A rate as its caller is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// What passes when nothing is used.
    pub limit: u64,
    /// What passes now.
    pub left: u64,
    /// How long until nothing is used any more.
    pub reset: Duration,
}

/// Names and values of the headers.
#[must_use]
pub fn rate_headers(requests: Option<Allowance>, tokens: Option<Allowance>) -> Vec<(&'static str, String)> {
    const OF_REQUESTS: [&str; 3] =
        ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"];
    const OF_TOKENS: [&str; 3] =
        ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"];
    let told = |names: [&'static str; 3], rate: Option<Allowance>| {
        let values = rate.map(|rate| [rate.limit.to_string(), rate.left.to_string(), time(rate.reset)]);
        values.into_iter().flat_map(move |values| names.into_iter().zip(values))
    };
    told(OF_REQUESTS, requests).chain(told(OF_TOKENS, tokens)).collect()
}

/// A time as OpenAI writes it: `0s`, `12ms`, `1s`, `6m0s`, `1h0m0s`. Rounded up: earlier would be too early.
fn time(time: Duration) -> String {
    let ms = time.as_nanos().div_ceil(1_000_000);
    let s = ms.div_ceil(1_000);
    match (ms, s) {
        (1..=999, _) => format!("{ms}ms"),
        (_, 0..=59) => format!("{s}s"),
        (_, 60..=3_599) => format!("{}m{}s", s / 60, s % 60),
        (_, _) => format!("{}h{}m{}s", s / 3_600, s / 60 % 60, s % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_openai_does_and_never_too_short() {
        let written = |ms| time(Duration::from_millis(ms));
        let written = [0, 12, 1_000, 1_001, 59_001, 360_000, 86_400_000].map(written);
        assert_eq!(written, ["0s", "12ms", "1s", "2s", "1m0s", "6m0s", "24h0m0s"]);
        assert_eq!(time(Duration::from_nanos(1)), "1ms");
    }

    #[test]
    fn what_is_not_limited_is_not_told() {
        assert_eq!(rate_headers(None, None), []);
        let rate = Allowance { limit: 60, left: 59, reset: Duration::from_secs(1) };
        let told = rate_headers(Some(rate), None);
        let told: Vec<_> = told.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let expected = [
            "x-ratelimit-limit-requests: 60",
            "x-ratelimit-remaining-requests: 59",
            "x-ratelimit-reset-requests: 1s",
        ];
        assert_eq!(told, expected);
    }
}
