//! Faults as scenario files write them, and how a seed makes dated faults of them.

use std::time::Duration;

use serde::Deserialize;
use simulation_hooks::Random;

use super::{Chance, Counts, Scenario, Times};
use crate::faults::{Degrade, DiskFault, Fault, Mode, Target};
use crate::schedule::{Dated, Until, millis};

/// One `[[fault]]` of a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    /// When it strikes, since the chaos phase began.
    at: Times,
    /// How long it lasts; absent: until the chaos phase ends.
    #[serde(rename = "for")]
    lasts: Option<Times>,
    /// Whether it stays when the others heal.
    #[serde(default)]
    for_ever: bool,
    /// What it does.
    #[serde(rename = "do")]
    kind: Kind,
    /// Whom it strikes.
    target: Option<Target>,
    /// The other side of a link or a partition; absent: everybody else.
    other: Option<Target>,
    /// A region, for faults that strike one.
    region: Option<String>,
    /// What a cut link does with packets.
    #[serde(default)]
    mode: Mode,
    /// Whether what was not synced is partly lost, rather than all of it.
    #[serde(default)]
    torn: bool,
    /// How far a clock steps.
    by: Option<Times>,
    /// By how much clocks are fast, in millionths.
    drift: Option<Counts>,
    /// Whether the clock steps backwards, and is slow rather than fast.
    #[serde(default)]
    backwards: bool,
    /// Whether an upgraded node gets this release's build again.
    #[serde(default)]
    back: bool,
    /// How many times slower a machine is.
    times: Option<Counts>,
    /// What a disk does.
    disk: Option<DiskFault>,
    /// Degraded links: added delay.
    delay: Option<Times>,
    /// Degraded links: added jitter.
    jitter: Option<Times>,
    /// Degraded links: packets lost.
    #[serde(default)]
    loss: Chance,
    /// Degraded links: datagrams that arrive twice.
    #[serde(default)]
    duplicate: Chance,
    /// Degraded links: datagrams that are overtaken.
    #[serde(default)]
    reorder: Chance,
    /// Degraded links: bytes per second.
    rate: Option<Counts>,
    /// Flapping links: how long they are up, and down.
    period: Option<Times>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Crash,
    PowerOff,
    Pause,
    Partition,
    Degrade,
    CutRegion,
    LoseRegion,
    ClockStep,
    Disk,
    Flap,
    Slow,
    ClockSkew,
    Drain,
    Upgrade,
    RaiseLevel,
    Transfer,
    Replace,
}

/// Faults drawn beside those of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Swarm {
    /// What may happen; each seed turns about half of it on.
    pub classes: Vec<Class>,
    /// How often something happens.
    pub per_minute: Counts,
    /// How long each lasts.
    #[serde(default = "usual_length")]
    pub lasts: Times,
    /// At least this long after a fault began nothing new begins.
    #[serde(default = "usual_calm")]
    pub min_calm: Times,
}

const fn usual_length() -> Times {
    Times::ms(500, 8_000)
}

const fn usual_calm() -> Times {
    Times::ms(1_000, 1_000)
}

/// A class of drawn faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A node's process is killed.
    Crash,
    /// A node's machine loses its power.
    Power,
    /// A node's process stands still.
    Pause,
    /// A node is cut from the others.
    Partition,
    /// A node's links are slow, lossy, doubling and reordering.
    Degrade,
    /// A node's links come and go.
    Flap,
    /// A node's wall clock jumps.
    Clock,
    /// A node's disk is slow, or an edge's full.
    Disk,
    /// A node's machine is slow.
    Slow,
    /// A node's clocks run at another speed.
    Skew,
    /// An operator moves leadership, drains a node, or replaces a member whose disk is lost, once in a run at most.
    Operations,
}

impl FaultSpec {
    /// Whether it can be drawn, and names what the scenario has.
    pub(super) fn check(&self, scenario: &Scenario) -> Result<(), String> {
        let fault = self.fault(&mut Random::new(0))?;
        for target in fault.targets() {
            target.check(scenario)?;
        }
        if let Fault::Transfer { target } | Fault::Replace { target } = &fault
            && !target.is_central(scenario)
        {
            return Err(format!(
                "{target} is no single node of central; write leader, follower or any:central"
            ));
        }
        Ok(())
    }

    /// The fault as `random` has it; `chaos` long is the phase in which it strikes.
    ///
    /// # Errors
    /// What it lacks.
    pub fn draw(&self, id: usize, random: &mut Random, chaos: Duration) -> Result<Dated, String> {
        let at = self.at.draw(random);
        let until = match (&self.lasts, self.for_ever) {
            (_, true) => Until::Never,
            (None, false) => Until::Healed,
            (Some(lasts), false) => Until::At(millis((at + lasts.draw(random)).min(chaos))),
        };
        let pick = random.draw();
        let (at, fault) = (millis(at), self.fault(random)?);
        Ok(Dated { id, at, until: fault.lasts(at, until), pick, fault })
    }

    fn fault(&self, random: &mut Random) -> Result<Fault, String> {
        let target = || self.target.clone().ok_or("needs `target`: a machine, leader, any:edge, region:eu…");
        let region = || {
            self.region.clone().ok_or("needs `region`, the region that is struck, such as region = \"eu\"")
        };
        let other = self.other.clone().unwrap_or(Target::Everybody);
        Ok(match self.kind {
            Kind::Crash => Fault::Crash { target: target()? },
            Kind::PowerOff => Fault::PowerOff { target: target()?, torn: self.torn },
            Kind::Pause => Fault::Pause { target: target()? },
            Kind::Partition => Fault::Partition { target: target()?, other, mode: self.mode },
            Kind::Degrade => Fault::Degrade { target: target()?, other, how: self.degrade(random) },
            Kind::CutRegion => Fault::CutRegion { region: region()?, mode: self.mode },
            Kind::LoseRegion => Fault::LoseRegion { region: region()?, torn: self.torn },
            Kind::ClockStep => {
                let by = self.by.ok_or("needs `by`, how far the clock steps, such as by = \"5s..60s\"")?;
                let by = i64::try_from(millis(by.draw(random))).unwrap_or(i64::MAX);
                Fault::ClockStep { target: target()?, by_ms: if self.backwards { -by } else { by } }
            }
            Kind::Disk => {
                let how = self.disk.ok_or("needs `disk`: slow, full, fails or lies")?;
                Fault::Disk { target: target()?, how }
            }
            Kind::Flap => {
                let period = self.period.unwrap_or(Times::ms(300, 1_500)).draw(random);
                Fault::Flap { target: target()?, other, period_ms: millis(period).max(1) }
            }
            Kind::Slow => {
                let times =
                    self.times.ok_or("needs `times`, how many times slower, such as times = \"10..50\"")?;
                Fault::Slow { target: target()?, times: times.draw(random) }
            }
            Kind::ClockSkew => {
                let drift = self.drift.ok_or("needs `drift`, in millionths, such as drift = \"50..500\"")?;
                let signed = |number: u64| {
                    let number = i64::try_from(number).unwrap_or(i64::MAX);
                    if self.backwards { -number } else { number }
                };
                let by = self.by.map_or(0, |by| millis(by.draw(random)));
                let (by_ms, drift_ppm) = (signed(by), signed(drift.draw(random)));
                Fault::ClockSkew { target: target()?, by_ms, drift_ppm }
            }
            Kind::Drain => Fault::Drain { target: target()? },
            Kind::Upgrade => Fault::Upgrade { target: target()?, ahead: u16::from(!self.back) },
            Kind::RaiseLevel => Fault::RaiseLevel { target: Target::Leader },
            Kind::Transfer => Fault::Transfer { target: target()? },
            Kind::Replace => Fault::Replace { target: target()? },
        })
    }

    fn degrade(&self, random: &mut Random) -> Degrade {
        let ms =
            |times: Option<Times>, random: &mut Random| times.map_or(0, |times| millis(times.draw(random)));
        Degrade {
            delay_ms: ms(self.delay, random),
            jitter_ms: ms(self.jitter, random),
            loss: self.loss.0,
            duplicate: self.duplicate.0,
            reorder: self.reorder.0,
            rate: self.rate.map(|rate| rate.draw(random)),
        }
    }
}

impl Swarm {
    /// The faults that `random` has for a chaos phase of `chaos`, numbered from `first`.
    #[must_use]
    pub fn draw(&self, first: usize, random: &mut Random, chaos: Duration) -> Vec<Dated> {
        let mut on: Vec<Class> = self.classes.iter().copied().filter(|_| random.below(2) == 0).collect();
        if on.is_empty() {
            on.clone_from(&self.classes);
        }
        let wanted = self.per_minute.draw(random).saturating_mul(millis(chaos)).div_ceil(60_000);
        let mut starts: Vec<u64> = (0..wanted).map(|_| random.below(millis(chaos).max(1))).collect();
        starts.sort_unstable();
        let calm = millis(self.min_calm.draw(random));
        let mut last: Option<u64> = None;
        starts.retain(|start| {
            let keep = last.is_none_or(|last| *start >= last.saturating_add(calm));
            if keep {
                last = Some(*start);
            }
            keep
        });
        let mut drawn = Vec::new();
        for (id, at) in (first..).zip(starts) {
            let class = usize::try_from(random.below(on.len() as u64)).ok().and_then(|pick| on.get(pick));
            let Some(class) = class else { continue };
            let until = at.saturating_add(millis(self.lasts.draw(random))).min(millis(chaos));
            let mut fault = class.draw(random);
            let is_replace = |dated: &Dated| matches!(dated.fault, Fault::Replace { .. });
            // Central must not lose a majority of its disks.
            if let Fault::Replace { target } = &fault
                && drawn.iter().any(is_replace)
            {
                fault = Fault::Transfer { target: target.clone() };
            }
            let until = fault.lasts(at, Until::At(until));
            drawn.push(Dated { id, at, until, pick: random.draw(), fault });
        }
        drawn
    }
}

impl Class {
    fn draw(self, random: &mut Random) -> Fault {
        let one_of = |names: &[Target], random: &mut Random| {
            let pick = usize::try_from(random.below(names.len() as u64)).unwrap_or(0);
            names.get(pick).cloned().unwrap_or(Target::Leader)
        };
        let nodes = [Target::Leader, Target::Follower, Target::AnyCentral, Target::AnyEdge, Target::AnyEdge];
        let all = [&nodes[..], &[Target::AnyModel]].concat();
        let mode = match random.below(4) {
            0 => Mode::Hold,
            1 => Mode::In,
            2 => Mode::Out,
            _ => Mode::Drop,
        };
        match self {
            Self::Crash => Fault::Crash { target: one_of(&all, random) },
            Self::Power => Fault::PowerOff { target: one_of(&all, random), torn: random.below(2) == 0 },
            Self::Pause => Fault::Pause { target: one_of(&all, random) },
            Self::Partition => {
                let others = [Target::Everybody, Target::AllCentrals, Target::AllEdges];
                Fault::Partition { target: one_of(&all, random), other: one_of(&others, random), mode }
            }
            Self::Degrade => {
                let how = Degrade {
                    delay_ms: random.below(200),
                    jitter_ms: random.below(50),
                    loss: u32::try_from(random.below(100_000)).unwrap_or(0),
                    duplicate: u32::try_from(random.below(50_000)).unwrap_or(0),
                    reorder: u32::try_from(random.below(50_000)).unwrap_or(0),
                    rate: (random.below(4) == 0).then(|| 20_000 + random.below(200_000)),
                };
                Fault::Degrade { target: one_of(&nodes, random), other: Target::Everybody, how }
            }
            Self::Flap => {
                let period_ms = 200 + random.below(2_000);
                Fault::Flap { target: one_of(&nodes, random), other: Target::Everybody, period_ms }
            }
            Self::Clock => {
                let far = i64::try_from(random.below(120_000)).unwrap_or(0);
                Fault::ClockStep { target: one_of(&nodes, random), by_ms: far - 60_000 }
            }
            Self::Disk => match random.below(3) {
                0 => Fault::Disk { target: Target::AnyEdge, how: DiskFault::Full },
                _ => Fault::Disk { target: one_of(&nodes, random), how: DiskFault::Slow },
            },
            Self::Slow => Fault::Slow { target: one_of(&nodes, random), times: 10 + random.below(90) },
            Self::Skew => {
                let [far, drift] =
                    [20_000, 20_000].map(|most| i64::try_from(random.below(most)).unwrap_or(0));
                let (by_ms, drift_ppm) = (far - 10_000, drift - 10_000);
                Fault::ClockSkew { target: one_of(&nodes, random), by_ms, drift_ppm }
            }
            Self::Operations => match random.below(4) {
                0 => Fault::Transfer { target: Target::AnyCentral },
                1 => Fault::Replace { target: Target::AnyCentral },
                _ => Fault::Drain { target: one_of(&nodes, random) },
            },
        }
    }
}
