//! Everything that one seed draws of a scenario, as data: what a replay and the shrinker work with.
//!
//! Each purpose has a random stream of its own, so that dropping one fault leaves all other draws as they were.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use simulation_hooks::Random;

use crate::faults::Fault;
use crate::scenario::{LinkSpec, Scenario, Times};

/// One way inside a region, where the file says nothing.
const INSIDE: Duration = Duration::from_millis(1);
/// One way between regions, where the file says nothing.
const BETWEEN: Times = Times::ms(15, 35);

/// What a seed drew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The scenario's name.
    pub scenario: String,
    /// Decides what the network, the machines and the actors draw.
    pub seed: u64,
    /// Links between regions, and inside each.
    pub links: Vec<Wire>,
    /// The longest round trip between central nodes, which their elections follow from, in milliseconds.
    pub round_trip: u64,
    /// How long a sync of a node's disk takes at least and at most, in microseconds.
    pub sync_us: (u64, u64),
    /// How long the parts of the run take, in milliseconds.
    pub settle: u64,
    /// Faults strike this long.
    pub chaos: u64,
    /// The healed mesh serves this long.
    pub serve: u64,
    /// The callers.
    pub callers: Vec<CallerPlan>,
    /// The faults, by time.
    pub faults: Vec<Dated>,
    /// Machines that a smaller run may leave out.
    #[serde(default)]
    pub optional: Vec<String>,
    /// Machines of the scenario that are left out.
    #[serde(default)]
    pub without: Vec<String>,
}

/// What the machine is called that takes the place of the central node called `name`.
#[must_use]
pub fn successor(name: &str) -> String {
    format!("{name}-2")
}

/// A link between two regions, in each direction, or inside one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    /// One region.
    pub one: String,
    /// The other.
    pub other: String,
    /// One way, in microseconds.
    pub delay_us: u64,
    /// Added at most.
    pub jitter_ms: u64,
    /// Packets lost, of a million.
    pub loss: u32,
}

/// A caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallerPlan {
    /// Its name, which its draws follow from.
    pub name: String,
    /// Its region.
    pub region: String,
    /// Whether the strict budget pays.
    pub strict: bool,
    /// How many calls it makes at once, every so often; 0: one after the other.
    #[serde(default)]
    pub at_once: u64,
    /// The tenant whose crowd it is of.
    #[serde(default)]
    pub crowd: Option<String>,
}

/// A fault and when it strikes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dated {
    /// Its number.
    pub id: usize,
    /// When it strikes, in milliseconds since the chaos phase began.
    pub at: u64,
    /// When it heals.
    pub until: Until,
    /// Chooses among the machines that its target may mean.
    pub pick: u64,
    /// What it is.
    #[serde(flatten)]
    pub fault: Fault,
}

/// When a fault heals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// So many milliseconds after the chaos phase began.
    At(u64),
    /// When the chaos phase ends.
    Healed,
    /// Never: the rest must go on without.
    Never,
}

impl Schedule {
    /// Whether a member of central is replaced, so that machines must stand ready.
    #[must_use]
    pub fn replaces(&self) -> bool {
        self.faults.iter().any(|dated| matches!(dated.fault, Fault::Replace { .. }))
    }

    /// The scenario without what the schedule leaves out.
    #[must_use]
    pub fn fit(&self, scenario: &Scenario) -> Scenario {
        let mut scenario = scenario.clone();
        scenario.topology.server.retain(|server| !self.without.contains(&server.name));
        scenario.topology.without.clone_from(&self.without);
        scenario
    }

    /// What `seed` draws of `scenario`.
    #[must_use]
    pub fn draw(scenario: &Scenario, seed: u64) -> Self {
        let stream = |purpose: &str| Random::for_purpose(seed, &format!("schedule: {purpose}"));
        let links = links(scenario, &mut stream("links"));
        let mut random = stream("phases");
        let [settle, chaos, serve] = [scenario.phases.settle, scenario.phases.chaos, scenario.phases.serve]
            .map(|time| time.draw(&mut random));
        let round_trip = match scenario.topology.round_trip {
            Some(times) => millis(times.draw(&mut random)),
            None => measured(scenario, &links),
        };
        let sync = scenario.topology.sync;
        let mut faults = Vec::new();
        for (id, spec) in scenario.fault.iter().enumerate() {
            // A fault that cannot be drawn was refused when the file was read.
            faults.extend(spec.get_ref().draw(id, &mut stream(&format!("fault {id}")), chaos));
        }
        if let Some(swarm) = &scenario.swarm {
            faults.extend(swarm.draw(faults.len(), &mut stream("swarm"), chaos));
        }
        faults.sort_by_key(|dated| (dated.at, dated.id));
        Self {
            scenario: scenario.name.clone(),
            seed,
            links,
            round_trip,
            sync_us: (micros(sync.least), micros(sync.most)),
            settle: millis(settle),
            chaos: millis(chaos),
            serve: millis(serve),
            callers: [callers(scenario, &mut stream("callers")), crowds(scenario, &mut stream("crowds"))]
                .concat(),
            faults,
            optional: optional(scenario),
            without: Vec::new(),
        }
    }
}

/// All edges but the first, and all model servers but the first of each model.
fn optional(scenario: &Scenario) -> Vec<String> {
    let edges = scenario.topology.edge_spots().into_iter().skip(1).map(|spot| spot.name);
    let mut served = std::collections::BTreeSet::new();
    let servers = scenario.topology.server.iter().filter(|server| {
        let is_first = server.serves.iter().any(|model| !served.contains(model));
        served.extend(&server.serves);
        !is_first
    });
    edges.chain(servers.map(|server| server.name.clone())).collect()
}

fn links(scenario: &Scenario, random: &mut Random) -> Vec<Wire> {
    let regions = scenario.regions();
    let usual = |delay| LinkSpec { delay, jitter_ms: 1, loss: crate::scenario::Chance(0) };
    let mut links = Vec::new();
    for (at, one) in regions.iter().enumerate() {
        for other in regions.iter().skip(at) {
            let spec = if one == other {
                scenario.links.get("inside").copied().unwrap_or_else(|| usual(Times::exactly(INSIDE)))
            } else {
                let named = [format!("{one}-{other}"), format!("{other}-{one}"), "between".to_owned()];
                let named = named.iter().find_map(|name| scenario.links.get(name));
                named.copied().unwrap_or_else(|| usual(BETWEEN))
            };
            links.push(Wire {
                one: one.clone(),
                other: other.clone(),
                delay_us: micros(spec.delay.draw(random)),
                jitter_ms: spec.jitter_ms,
                loss: spec.loss.0,
            });
        }
    }
    links
}

/// The longest round trip between regions with central nodes.
fn measured(scenario: &Scenario, links: &[Wire]) -> u64 {
    let central = |region: &String| scenario.topology.central.contains(region);
    let between = links.iter().filter(|wire| central(&wire.one) && central(&wire.other));
    between.map(|wire| (2 * wire.delay_us).div_ceil(1_000) + 2 * wire.jitter_ms).max().unwrap_or(1).max(1)
}

fn callers(scenario: &Scenario, random: &mut Random) -> Vec<CallerPlan> {
    let mut callers = Vec::new();
    for region in scenario.topology.edges.keys() {
        for number in 1..=scenario.load.callers.draw(random) {
            let strict = scenario.load.strict.draw(random);
            callers.push(CallerPlan {
                name: format!("caller-{region}-{number}"),
                region: region.clone(),
                strict,
                at_once: 0,
                crowd: None,
            });
        }
        let at_once = scenario.load.burst;
        if at_once.most > 0 {
            callers.push(CallerPlan {
                name: format!("burst-{region}"),
                region: region.clone(),
                strict: scenario.load.strict.draw(random),
                at_once: at_once.draw(random),
                crowd: None,
            });
        }
    }
    callers
}

/// The callers of each crowd in each region.
fn crowds(scenario: &Scenario, random: &mut Random) -> Vec<CallerPlan> {
    let mut callers = Vec::new();
    for crowd in &scenario.crowd {
        for region in scenario.topology.edges.keys() {
            for number in 1..=crowd.callers.draw(random) {
                callers.push(CallerPlan {
                    name: format!("{}-{region}-{number}", crowd.tenant),
                    region: region.clone(),
                    strict: false,
                    at_once: crowd.burst.draw(random).max(1),
                    crowd: Some(crowd.tenant.clone()),
                });
            }
        }
    }
    callers
}

/// Whole milliseconds.
#[must_use]
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        name = "x"
        about = "x"
        [topology]
        central = ["eu", "us", "ap"]
        edges = {eu = 2, us = 1}
        [links]
        "eu-us" = {delay = "38ms..45ms", loss = 0.001}
        [[fault]]
        at = "1s..2s"
        for = "3s..5s"
        do = "degrade"
        target = "leader"
        delay = "10ms..100ms"
        [[fault]]
        at = "1s..2s"
        do = "lose_region"
        region = "eu"
        [swarm]
        classes = ["crash", "power", "pause", "partition", "degrade", "flap", "clock", "disk", "slow", "skew", "operations"]
        per_minute = 60
    "#;

    #[test]
    fn a_schedule_survives_json() {
        let scenario = Scenario::parse("x.toml", TEXT).unwrap();
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let schedule = Schedule::draw(&scenario, seed);
            let json = serde_json::to_string(&schedule).unwrap();
            assert_eq!(serde_json::from_str::<Schedule>(&json).unwrap(), schedule, "{json}");
            kinds.extend(schedule.faults.iter().map(|dated| dated.fault.kind()));
        }
        assert_eq!(kinds.len(), 14, "{kinds:?}");
    }

    #[test]
    fn a_seed_draws_the_same_again_and_another_one_something_else() {
        let scenario = Scenario::parse("x.toml", TEXT).unwrap();
        assert_eq!(Schedule::draw(&scenario, 7), Schedule::draw(&scenario, 7));
        assert_ne!(Schedule::draw(&scenario, 7).links, Schedule::draw(&scenario, 8).links);
        let wire = |seed| {
            Schedule::draw(&scenario, seed)
                .links
                .into_iter()
                .find(|wire| wire.one == "eu" && wire.other == "us")
        };
        assert!((38_000..=45_000).contains(&wire(1).unwrap().delay_us));
    }

    #[test]
    fn dropping_a_fault_from_the_file_leaves_the_other_draws() {
        let scenario = Scenario::parse("x.toml", TEXT).unwrap();
        let mut fewer = scenario.clone();
        fewer.fault.truncate(1);
        let (all, fewer) = (Schedule::draw(&scenario, 3), Schedule::draw(&fewer, 3));
        assert_eq!((&all.links, &all.callers), (&fewer.links, &fewer.callers));
        let first = |schedule: &Schedule| schedule.faults.iter().find(|dated| dated.id == 0).cloned();
        assert_eq!(first(&all), first(&fewer));
    }
}
