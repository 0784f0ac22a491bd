//! How Anthropic tells callers what a rate lets pass: `anthropic-ratelimit-…`, for requests and for tokens.

use base::WallMs;

use crate::openai::Allowance;

/// Names and values of the headers; `now` is what the times of day are counted from.
#[must_use]
pub fn rate_headers(
    requests: Option<Allowance>,
    tokens: Option<Allowance>,
    now: WallMs,
) -> Vec<(&'static str, String)> {
    const OF_REQUESTS: [&str; 3] = [
        "anthropic-ratelimit-requests-limit",
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
    ];
    const OF_TOKENS: [&str; 3] = [
        "anthropic-ratelimit-tokens-limit",
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-tokens-reset",
    ];
    let told = |names: [&'static str; 3], rate: Option<Allowance>| {
        let values = rate.map(|rate| {
            let wait = u64::try_from(rate.reset.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
            let at = now.as_millis().saturating_add(wait).div_ceil(1_000);
            [rate.limit.to_string(), rate.left.to_string(), time(at)]
        });
        values.into_iter().flat_map(move |values| names.into_iter().zip(values))
    };
    told(OF_REQUESTS, requests).chain(told(OF_TOKENS, tokens)).collect()
}

/// Seconds since 1970 as RFC 3339 writes them.
fn time(seconds: u64) -> String {
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days to civil date: years begin in March, eras of 400 years have 146,097 days.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let (year, month) =
        if from_march < 10 { (year_of_era, from_march + 3) } else { (year_of_era + 1, from_march - 9) };
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z", year + era * 400)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_rate_is_told_with_the_time_of_day_at_which_it_is_whole() {
        let rate = Allowance { limit: 60, left: 59, reset: Duration::from_millis(1_001) };
        let told = rate_headers(None, Some(rate), WallMs::from_millis(951_782_399_000));
        let told: Vec<_> = told.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let expected = [
            "anthropic-ratelimit-tokens-limit: 60",
            "anthropic-ratelimit-tokens-remaining: 59",
            "anthropic-ratelimit-tokens-reset: 2000-02-29T00:00:01Z",
        ];
        assert_eq!(told, expected);
        assert_eq!(rate_headers(None, None, WallMs::default()), []);
    }
}
