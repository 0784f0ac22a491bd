//! Decimal amounts of money, read digit by digit: exact, or refused.

use base::NanoUsd;

/// Decimals of a dollar that a nano-dollar has.
const DECIMALS: usize = 9;

/// Reads dollars such as `0.15` or `12`.
///
/// # Errors
/// What is wrong and the mend, in words.
pub fn dollars(text: &str) -> Result<NanoUsd, String> {
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if whole.is_empty() || fraction.is_empty() || !digits(whole) || !digits(fraction) {
        return Err(format!("{text:?} is not an amount of dollars; write digits such as 12 or 0.15"));
    }
    let kept = fraction.trim_end_matches('0');
    if kept.len() > DECIMALS {
        return Err(format!("has {} decimals; a dollar has {DECIMALS} at most here", kept.len()));
    }
    let too_large = |_overflow| format!("{text} exceeds the largest amount, $18446744073.70");
    let whole: u128 = whole.parse().map_err(too_large)?;
    let nano: u128 = format!("{kept:0<DECIMALS$}").parse().map_err(too_large)?;
    let total = whole.saturating_mul(1_000_000_000).saturating_add(nano);
    u64::try_from(total)
        .map(NanoUsd)
        .map_err(|_large| format!("{text} exceeds the largest amount, $18446744073.70"))
}

/// Writes dollars as [`dollars`] reads them.
#[must_use]
pub fn text(amount: NanoUsd) -> String {
    let (whole, nano) = (amount.0 / 1_000_000_000, amount.0 % 1_000_000_000);
    let digits = format!("{nano:09}");
    match digits.trim_end_matches('0') {
        "" => whole.to_string(),
        fraction => format!("{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn money_is_exact_or_refused() {
        assert_eq!(dollars("0.15"), Ok(NanoUsd(150_000_000)));
        assert_eq!(dollars("12"), Ok(NanoUsd(12_000_000_000)));
        assert_eq!(dollars("0.000000001"), Ok(NanoUsd(1)));
        for bad in [
            "",
            "-1",
            "1e3",
            ".5",
            "1.",
            "1,5",
            "0.0000000001",
            "99999999999",
            "1_000",
            "$1",
            "9".repeat(60).as_str(),
        ] {
            assert!(dollars(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(nano: u64) {
            prop_assert_eq!(dollars(&text(NanoUsd(nano))), Ok(NanoUsd(nano)));
        }
    }
}
