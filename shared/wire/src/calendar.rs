//! Where the windows of budgets begin and end: calendar arithmetic over wall milliseconds, without leap seconds. Days
//! and months begin at midnight of a [`Zone`], minutes and hours of UTC. A total, and what rolls, has one window, 0, that
//! never ends.
//!
//! A zone brings its offsets with it: what a day is must not depend on which node's tables say so.

use base::{WallMs, WindowId};
use serde::{Deserialize, Serialize};

use crate::catalog::Window;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The time of day at some place.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Zone {
    /// Its name in the time zone database; empty: UTC.
    pub name: String,
    /// Seconds by which its clocks are ahead of UTC, and from when on, in order; before the first, the first. None: UTC.
    pub offsets: Vec<(WallMs, i32)>,
}

impl Zone {
    /// The first instant at which clocks show `local` or later, in milliseconds since 1970 of both.
    fn first_at(&self, local: u64) -> u64 {
        let mut spans = self.offsets.iter().enumerate().map(|(at, (from, offset))| {
            let from = if at == 0 { 0 } else { from.as_millis() };
            let to = self.offsets.get(at + 1).map_or(u64::MAX, |(next, _)| next.as_millis());
            (local.saturating_add_signed(-millis(*offset)).max(from), to)
        });
        spans.find(|(instant, to)| instant < to).map_or(local, |(instant, _to)| instant)
    }

    /// What clocks show at an instant.
    fn local(&self, at: u64) -> u64 {
        let next = self.offsets.partition_point(|(from, _)| from.as_millis() <= at);
        let offset = self.offsets.get(next.saturating_sub(1)).map_or(0, |(_from, offset)| *offset);
        at.saturating_add_signed(millis(offset))
    }
}

fn millis(offset: i32) -> i64 {
    i64::from(offset) * 1_000
}

impl Window {
    /// The window that contains `at`.
    #[must_use]
    pub fn at(self, at: WallMs, zone: &Zone) -> WindowId {
        let ms = at.as_millis();
        match self {
            Self::Minute => WindowId(ms - ms % MINUTE),
            Self::Hour => WindowId(ms - ms % HOUR),
            Self::Day | Self::Month => {
                // Where clocks go back over midnight, the day that began stays begun.
                let here = self.start(zone.local(ms));
                let begun = |start: &u64| zone.first_at(*start) <= ms;
                let latest = [self.next(here), here].into_iter().find(begun);
                WindowId(zone.first_at(latest.unwrap_or_else(|| self.start(here.saturating_sub(1)))))
            }
            Self::Total | Self::Rolling { .. } => WindowId(0),
        }
    }

    /// The first instant behind `window`; `None` when it never ends.
    #[must_use]
    pub fn end(self, window: WindowId, zone: &Zone) -> Option<WallMs> {
        let start = window.0;
        let end = match self {
            Self::Minute => start.saturating_add(MINUTE),
            Self::Hour => start.saturating_add(HOUR),
            Self::Day | Self::Month => {
                let mut next = self.next(self.start(zone.local(start)));
                // A start that clocks showed twice.
                if zone.first_at(next) <= start {
                    next = self.next(next);
                }
                zone.first_at(next)
            }
            Self::Total | Self::Rolling { .. } => return None,
        };
        Some(WallMs::from_millis(end))
    }

    /// The start of the day or month that contains a local time, in local time.
    const fn start(self, local: u64) -> u64 {
        match self {
            Self::Month => {
                let (year, month) = civil_month(local / DAY);
                first_day(year, month).saturating_mul(DAY)
            }
            Self::Minute | Self::Hour | Self::Day | Self::Total | Self::Rolling { .. } => local - local % DAY,
        }
    }

    /// The start of the day or month after the one that starts at `local`.
    const fn next(self, local: u64) -> u64 {
        match self {
            Self::Month => self.start(local.saturating_add(31 * DAY)),
            Self::Minute | Self::Hour | Self::Day | Self::Total | Self::Rolling { .. } => {
                local.saturating_add(DAY)
            }
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

    const SPRING: u64 = 1_774_746_000_000; // 2026-03-29T01:00Z
    const AUTUMN: u64 = 1_792_890_000_000; // 2026-10-25T01:00Z

    fn berlin() -> Zone {
        let offsets = [(0, 3_600), (SPRING, 7_200), (AUTUMN, 3_600)];
        let offsets = offsets.map(|(from, offset)| (WallMs::from_millis(from), offset)).into();
        Zone { name: "Europe/Berlin".to_owned(), offsets }
    }

    /// A place whose clocks go forward over midnight, and back over it.
    fn odd() -> Zone {
        let offsets = [(0, 0), (10 * DAY, 3_600), (20 * DAY - HOUR + MINUTE, 0)];
        let offsets = offsets.map(|(from, offset)| (WallMs::from_millis(from), offset)).into();
        Zone { name: "Odd".to_owned(), offsets }
    }

    fn span(window: Window, ms: u64, zone: &Zone) -> (u64, u64) {
        let start = window.at(WallMs::from_millis(ms), zone);
        (start.0, window.end(start, zone).unwrap().as_millis())
    }

    fn month_at(ms: u64) -> (u64, u64) {
        span(Window::Month, ms, &Zone::default())
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

    #[test]
    fn days_are_as_long_as_clocks_make_them() {
        let (start, end) = span(Window::Day, SPRING, &berlin());
        assert_eq!((start, end - start), (SPRING - 2 * HOUR, 23 * HOUR));
        let (start, end) = span(Window::Day, AUTUMN, &berlin());
        assert_eq!((start, end - start), (AUTUMN - 3 * HOUR, 25 * HOUR));
        let (start, end) = span(Window::Month, SPRING, &berlin());
        assert_eq!(end - start, 31 * DAY - HOUR);
        assert_eq!(span(Window::Minute, SPRING + 61_001, &berlin()), (SPRING + MINUTE, SPRING + 2 * MINUTE));
    }

    #[test]
    fn a_midnight_that_clocks_skip_or_show_twice_begins_one_day() {
        assert_eq!(span(Window::Day, 10 * DAY, &odd()), (10 * DAY, 11 * DAY - HOUR));
        let (start, end) = span(Window::Day, 20 * DAY - HOUR + 2 * MINUTE, &odd());
        assert_eq!((start, end), (20 * DAY - HOUR, 21 * DAY));
    }

    proptest! {
        #[test]
        fn each_instant_lies_in_its_window_and_windows_touch(
            ms in 40 * DAY..4_000_000_000_000, early in 0..60 * DAY, zone in 0usize..3,
        ) {
            let (zone, ms) = match zone {
                0 => (Zone::default(), ms),
                1 => (berlin(), ms),
                _ => (odd(), early),
            };
            for window in [Window::Minute, Window::Hour, Window::Day, Window::Month] {
                let start = window.at(WallMs::from_millis(ms), &zone);
                let end = window.end(start, &zone).unwrap();
                prop_assert!(start.0 <= ms && ms < end.as_millis(), "{window:?} {} {ms} {}", start.0, end.as_millis());
                prop_assert_eq!(window.at(end, &zone).0, end.as_millis());
                prop_assert_eq!(window.at(WallMs::from_millis(end.as_millis() - 1), &zone), start);
            }
        }
    }
}
