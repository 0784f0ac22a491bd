//! Measured round trips between cloud regions: a table of pairs, such as Skyplane's (`src,…,dst,…,avg_rtt_ms` with a
//! head line), that replaces the links between the regions for which the scenario names a cloud's.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Chance, LinkSpec, Scenario, Times};

/// Round trips by pair of cloud regions, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips(BTreeMap<(String, String), u64>);

impl RoundTrips {
    /// Reads a table.
    ///
    /// # Errors
    /// What it lacks, with the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate();
        let head: Vec<&str> = lines.next().map(|(_, line)| line.split(',').collect()).unwrap_or_default();
        let column = |name: &str| {
            head.iter()
                .position(|column| *column == name)
                .ok_or_else(|| format!("line 1: no column {name:?}"))
        };
        let (from, to, rtt) = (column("src")?, column("dst")?, column("avg_rtt_ms")?);
        let mut pairs = BTreeMap::new();
        for (at, line) in lines {
            let fields: Vec<&str> = line.split(',').collect();
            let read = || {
                let ms: f64 = fields.get(rtt)?.parse().ok()?;
                let time = Duration::try_from_secs_f64(ms / 1_000.0).ok()?;
                let micros = u64::try_from(time.as_micros()).ok()?;
                Some((((*fields.get(from)?).to_owned(), (*fields.get(to)?).to_owned()), micros))
            };
            let (pair, micros) =
                read().ok_or_else(|| format!("line {}: no pair and its round trip", at + 1))?;
            // Of two tiers of one pair the first counts, which is the better one in the table.
            pairs.entry(pair).or_insert(micros);
        }
        Ok(Self(pairs))
    }

    /// Half of the measured round trip replaces the delay of each link whose two regions have one.
    ///
    /// # Errors
    /// Says which region or pair has none.
    pub fn lay(&self, scenario: &mut Scenario) -> Result<(), String> {
        let regions = scenario.regions();
        let cloud = scenario.topology.cloud.clone();
        for (at, one) in regions.iter().enumerate() {
            for other in regions.iter().skip(at + 1) {
                let named = |region: &String| {
                    cloud.get(region).cloned().ok_or_else(|| {
                        format!("topology.cloud names no cloud region for {region:?}, which a table needs")
                    })
                };
                let (from, to) = (named(one)?, named(other)?);
                let micros = self
                    .0
                    .get(&(from.clone(), to.clone()))
                    .or_else(|| self.0.get(&(to.clone(), from.clone())));
                let micros = micros.ok_or_else(|| format!("the table has no pair {from}, {to}"))?;
                let delay = Times::exactly(Duration::from_micros(micros / 2));
                let name = format!("{one}-{other}");
                let old = scenario.links.get(&name).or_else(|| scenario.links.get("between")).copied();
                let old = old.unwrap_or(LinkSpec { delay, jitter_ms: 1, loss: Chance(0) });
                scenario.links.remove(&format!("{other}-{one}"));
                scenario.links.insert(name, LinkSpec { delay, ..old });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "src,src_tier,dst,dst_tier,min_rtt_ms,avg_rtt_ms\na:1,P,a:2,P,88,90.5\na:2,P,a:1,P,88,90\n";
    const TEXT: &str = "name = \"x\"\nabout = \"x\"\n[topology]\ncentral = [\"eu\", \"us\"]\nedges = {eu = 1}\n\
        cloud = {eu = \"a:1\", us = \"a:2\"}\n[links]\nbetween = {delay = \"9ms\", jitter_ms = 7}\n";

    #[test]
    fn half_of_a_measured_round_trip_becomes_the_delay() {
        let mut scenario = Scenario::parse("x", TEXT).unwrap();
        RoundTrips::parse(TABLE).unwrap().lay(&mut scenario).unwrap();
        let link = scenario.links["eu-us"];
        assert_eq!((link.delay, link.jitter_ms), (Times::exactly(Duration::from_micros(45_250)), 7));
    }

    #[test]
    fn what_the_table_lacks_is_said() {
        let mut scenario = Scenario::parse("x", TEXT).unwrap();
        let wrong = RoundTrips::parse(&TABLE.replace("a:2", "a:3")).unwrap().lay(&mut scenario).unwrap_err();
        assert_eq!(wrong, "the table has no pair a:1, a:2");
        assert!(RoundTrips::parse("src,dst\n").unwrap_err().contains("avg_rtt_ms"));
        assert!(RoundTrips::parse("src,dst,avg_rtt_ms\na,b,x\n").unwrap_err().starts_with("line 2"));
    }
}
