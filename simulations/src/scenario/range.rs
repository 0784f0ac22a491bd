//! Values of scenario files that each seed draws: times ("5s..8s"), counts ("3..10") and chances (0.02).

use std::time::Duration;

use serde::Deserialize;
use simulation_hooks::Random;

/// A time between two ends, in steps of a microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Times {
    /// The shortest.
    pub least: Duration,
    /// The longest.
    pub most: Duration,
}

/// A whole number between two ends, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Counts {
    /// The smallest.
    pub least: u64,
    /// The largest.
    pub most: u64,
}

/// A chance, written as a share of one, kept in a million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Chance(pub u32);

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u64),
    Text(String),
}

impl Times {
    /// Always `time`.
    #[must_use]
    pub const fn exactly(time: Duration) -> Self {
        Self { least: time, most: time }
    }

    /// Between two numbers of milliseconds.
    #[must_use]
    pub const fn ms(least: u64, most: u64) -> Self {
        Self { least: Duration::from_millis(least), most: Duration::from_millis(most) }
    }

    /// One of them.
    pub fn draw(&self, random: &mut Random) -> Duration {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (least, most) = (micros(self.least), micros(self.most));
        Duration::from_micros(least + random.below(most.saturating_sub(least).saturating_add(1)))
    }
}

impl Counts {
    /// Always `count`.
    #[must_use]
    pub const fn exactly(count: u64) -> Self {
        Self { least: count, most: count }
    }

    /// One of them.
    pub fn draw(&self, random: &mut Random) -> u64 {
        self.least + random.below(self.most.saturating_sub(self.least).saturating_add(1))
    }
}

impl Chance {
    /// Whether it comes true this time.
    pub fn draw(self, random: &mut Random) -> bool {
        random.chance(self.0)
    }
}

impl TryFrom<String> for Times {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (least, most) = ends(&text, time)?;
        Ok(Self { least, most })
    }
}

impl TryFrom<Written> for Counts {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Number(count) => Ok(Self::exactly(count)),
            Written::Text(text) => {
                let (least, most) = ends(&text, |part| {
                    part.parse().map_err(|_not_one| format!("{part:?} is no count; write 3 or \"3..10\""))
                })?;
                Ok(Self { least, most })
            }
        }
    }
}

impl TryFrom<f64> for Chance {
    type Error = String;

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and a million, as checked"
    )]
    fn try_from(share: f64) -> Result<Self, String> {
        if (0.0..=1.0).contains(&share) {
            Ok(Self((share * 1e6).round() as u32))
        } else {
            Err(format!("{share} is no chance; write a share between 0 and 1"))
        }
    }
}

fn ends<T: PartialOrd + Copy>(
    text: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<(T, T), String> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let (least, most) = (read(least.trim())?, read(most.trim())?);
    if least > most {
        return Err(format!("{text:?} begins above its end; swap the two"));
    }
    Ok((least, most))
}

fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time; write a whole number with us, ms, s or m, as in \"250ms\"");
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_not_one| wrong())?;
    match unit {
        "us" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number.saturating_mul(60))),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_between_the_ends_and_reach_both() {
        let mut random = Random::new(1);
        let times = Times::try_from("5ms..6ms".to_owned()).unwrap();
        let drawn: Vec<Duration> = (0..1_000).map(|_| times.draw(&mut random)).collect();
        assert!(drawn.iter().all(|time| (times.least..=times.most).contains(time)));
        let counts = Counts::try_from(Written::Text("3..5".to_owned())).unwrap();
        let drawn: std::collections::BTreeSet<u64> = (0..100).map(|_| counts.draw(&mut random)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [3, 4, 5]);
    }

    #[test]
    fn what_is_no_value_is_refused_with_the_mend() {
        for wrong in ["5", "s", "8s..5s", "5s..", "1h", "-1s"] {
            assert!(Times::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
        assert!(Chance::try_from(1.5).unwrap_err().contains("between 0 and 1"));
        assert_eq!(Chance::try_from(0.25), Ok(Chance(250_000)));
    }
}
