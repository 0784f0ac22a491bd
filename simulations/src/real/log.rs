//! Lines of a node's log in JSON, as the evidence keeps lines.

use std::fmt::Write as _;

use serde_json::Value;
use tracing::Level;

use super::clocks::Unstepped;
use crate::engine::Line;

/// A day, in milliseconds.
const DAY: u64 = 24 * 3600 * 1000;

/// A line of the node called `machine`, dated by `times`; `None` for what is no line of a log.
pub(super) fn line(machine: &str, times: &mut Unstepped<'_>, text: &str) -> Option<Line> {
    let read: Value = serde_json::from_str(text).ok()?;
    let of_day = time_of_day(read.get("timestamp")?.as_str()?)?;
    // A run is shorter than half a day, and no clock is set off by more.
    let since = (of_day + DAY + DAY / 2 - times.began().as_millis() % DAY) % DAY;
    let since = i64::try_from(since).ok()? - i64::try_from(DAY / 2).ok()?;
    let fields = read.get("fields")?.as_object()?;
    let mut said = fields.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    for (name, value) in fields.iter().filter(|(name, _)| *name != "message") {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        // Writing to a string cannot fail.
        let _infallible = write!(said, " {name}={value}");
    }
    Some(Line {
        at: times.at(since),
        machine: machine.to_owned(),
        level: read.get("level")?.as_str()?.parse::<Level>().ok()?,
        text: said,
    })
}

/// Milliseconds of the day in a time such as `2026-11-30T08:00:01.234567Z`.
fn time_of_day(text: &str) -> Option<u64> {
    let (_, time) = text.split_once('T')?;
    let mut parts = time.trim_end_matches('Z').split(':');
    let (hours, minutes) = (parts.next()?.parse::<u64>().ok()?, parts.next()?.parse::<u64>().ok()?);
    let (seconds, fraction) = parts.next()?.split_once('.')?;
    let fraction: u64 = fraction.get(..3)?.parse().ok()?;
    Some(((hours * 60 + minutes) * 60 + seconds.parse::<u64>().ok()?) * 1000 + fraction)
}

#[cfg(test)]
mod tests {
    use base::WallMs;

    use super::*;

    #[test]
    fn a_line_reads_as_the_simulator_keeps_it_across_midnight_too() {
        let text = r#"{"timestamp":"2026-11-30T00:00:01.250999Z","level":"INFO","fields":{"message":"configuration in force","epoch":"3"},"target":"edge"}"#;
        let mut times = Unstepped::new(WallMs::from_millis(20 * DAY - 1_000), &[]);
        let line = line("edge-eu", &mut times, text).unwrap();
        assert_eq!(line.text, "configuration in force epoch=3");
        assert_eq!(line.at.as_nanos(), 2_250_000_000);
    }
}
