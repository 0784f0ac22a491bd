//! Where the windows of budgets begin and end: UTC calendar arithmetic over wall milliseconds, without time zones or
//! leap seconds. A total has one window, 0, that never ends.

use base::{WallMs, WindowId};

use crate::catalog::Window;

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

impl Window {
    /// The window that contains `at`.
    #[must_use]
    pub const fn at(self, at: WallMs) -> WindowId {
        let ms = at.as_millis();
        match self {
            Self::Hour => WindowId(ms - ms % HOUR),
            Self::Day => WindowId(ms - ms % DAY),
            Self::Month => {
                let (year, month) = civil_month(ms / DAY);
                WindowId(first_day(year, month).saturating_mul(DAY))
            }
            Self::Total => WindowId(0),
        }
    }

    /// The first instant behind `window`; `None` when it never ends.
    #[must_use]
    pub const fn end(self, window: WindowId) -> Option<WallMs> {
        let start = window.0;
        match self {
            Self::Hour => Some(WallMs::from_millis(start.saturating_add(HOUR))),
            Self::Day => Some(WallMs::from_millis(start.saturating_add(DAY))),
            Self::Month => {
                let (year, month) = civil_month(start / DAY);
                let (year, month) = if month == 12 { (year.saturating_add(1), 1) } else { (year, month + 1) };
                Some(WallMs::from_millis(first_day(year, month).saturating_mul(DAY)))
            }
            Self::Total => None,
        }
    }
}

/// Days of the 400 years after which the Gregorian calendar repeats.
const ERA_DAYS: u64 = 146_097;
/// Days from 1 March of year 0 to 1 January 1970.
const SHIFT: u64 = 719_468;

/// Year and month of a day counted from 1970-01-01. Years begin in March, so that the leap day is their last.
const fn civil_month(day: u64) -> (u64, u64) {
    let day = day.saturating_add(SHIFT);
    let (era, of_era) = (day / ERA_DAYS, day % ERA_DAYS);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let year = year_of_era + era * 400;
    if from_march < 10 { (year, from_march + 3) } else { (year + 1, from_march - 9) }
}

/// Days from 1970-01-01 to the first of a month, not before 1970.
const fn first_day(year: u64, month: u64) -> u64 {
    let (year, from_march) = if month > 2 { (year, month - 3) } else { (year.saturating_sub(1), month + 9) };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * from_march + 2) / 5;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era.saturating_mul(ERA_DAYS).saturating_add(of_era).saturating_sub(SHIFT)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn month_at(ms: u64) -> (u64, u64) {
        let start = Window::Month.at(WallMs::from_millis(ms));
        (start.0, Window::Month.end(start).unwrap().as_millis())
    }

    #[test]
    fn months_have_their_lengths_leap_years_included() {
        assert_eq!(month_at(0), (0, 31 * DAY));
        let leap_day = 951_782_400_000; // 2000-02-29
        assert_eq!(month_at(leap_day), (949_363_200_000, 951_868_800_000));
        let last_of_2026 = 1_798_761_599_999; // 2026-12-31T23:59:59.999
        assert_eq!(month_at(last_of_2026), (1_796_083_200_000, 1_798_761_600_000));
        assert_eq!(month_at(4_107_542_399_999).1, 4_107_542_400_000); // 2100 is no leap year: 28 February ends it
    }

    proptest! {
        #[test]
        fn each_instant_lies_in_its_window_and_windows_touch(ms in 0u64..8_000_000_000_000) {
            for window in [Window::Hour, Window::Day, Window::Month] {
                let start = window.at(WallMs::from_millis(ms));
                let end = window.end(start).unwrap();
                prop_assert!(start.0 <= ms && ms < end.as_millis());
                prop_assert_eq!(window.at(end).0, end.as_millis());
            }
        }
    }
}
