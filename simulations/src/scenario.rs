//! A scenario file: what stands where, what callers and operators do, what goes wrong when, and what is expected.
//!
//! The same file runs in the simulator and against real processes. Whatever is a range is drawn anew for each seed
//! (see [`crate::schedule`]). Unknown fields are refused, with the place in the file.

mod crowd;
mod fault;
mod levels;
mod load;
mod range;
mod rtt;
mod topology;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;
use toml::Spanned;

pub use crowd::{Crowd, Limits};
pub use fault::{Class, FaultSpec, Swarm};
pub(crate) use levels::dollars;
pub use levels::{AccountKey, Level, Of, SCENARIO, Step, Unit};
pub use load::{HangUps, Load};
pub use range::{Chance, Counts, Times};
pub use rtt::RoundTrips;
pub use topology::{Behaviour, BudgetWindow, LinkSpec, ServerSpec, Topology};

/// One scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name, which is the file's.
    pub name: String,
    /// What it shows, for people.
    pub about: String,
    /// Whether it needs the feature `next-level`, a build that plays two.
    #[serde(default)]
    pub next_level: bool,
    /// What stands where.
    pub topology: Topology,
    /// Links by pair of regions ("eu-us"), `inside` a region, and `between` all other pairs.
    #[serde(default)]
    pub links: BTreeMap<String, LinkSpec>,
    /// What callers and operators do.
    #[serde(default)]
    pub load: Load,
    /// Tenants that wait for one another, with callers of their own.
    #[serde(default)]
    pub crowd: Vec<Crowd>,
    /// What goes wrong.
    #[serde(default)]
    pub fault: Vec<Spanned<FaultSpec>>,
    /// Faults drawn beside them.
    pub swarm: Option<Swarm>,
    /// How long each part of a run takes.
    #[serde(default)]
    pub phases: Phases,
    /// What must hold beyond the invariants.
    #[serde(default)]
    pub expect: Expect,
}

/// How long the parts of a run take.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Phases {
    /// From the first answer at every edge until time counts for faults.
    pub settle: Times,
    /// In which faults strike.
    pub chaos: Times,
    /// In which the healed mesh serves on before it is judged.
    pub serve: Times,
}

impl Default for Phases {
    fn default() -> Self {
        Self {
            settle: Times::ms(2_000, 3_000),
            chaos: Times::ms(15_000, 15_000),
            serve: Times::ms(3_000, 3_000),
        }
    }
}

/// What must hold beyond the invariants.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Regions whose callers must notice nothing: of their calls [`Expect::success`] end well.
    pub sustained: Vec<String>,
    /// Of their calls only those for these models count; absent: all.
    pub models: Vec<String>,
    /// The share of their calls that must end well.
    pub success: Chance,
    /// Of their calls 99 in a hundred have a first byte within this, over all runs.
    pub first_byte_within: Option<Times>,
    /// Callers of other regions are served again this long after the first fault.
    pub recover_within: Option<Times>,
    /// After a loss of central's leader half of the next changes are acknowledged within the least of this, and 99 in a
    /// hundred within the most, over all runs.
    pub written_within: Option<Times>,
    /// The healed mesh is whole again within this.
    pub converge_within: Times,
}

impl Default for Expect {
    fn default() -> Self {
        Self {
            sustained: Vec::new(),
            models: Vec::new(),
            success: Chance(999_900),
            first_byte_within: None,
            recover_within: None,
            written_within: None,
            converge_within: Times::exactly(Duration::from_secs(20)),
        }
    }
}

/// A file is no scenario.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// It cannot be read.
    #[error("{file} cannot be read")]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{file}:{line}: {what}")]
    Wrong {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong and the mend.
        what: String,
    },
}

impl Scenario {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`ScenarioError`] says where it is wrong.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let file = path.display().to_string();
        let text =
            crate::files::read(path).map_err(|source| ScenarioError::Read { file: file.clone(), source })?;
        let scenario = Self::parse(&file, &text)?;
        if path.file_stem().and_then(|stem| stem.to_str()) == Some(&scenario.name) {
            return Ok(scenario);
        }
        let what = format!("the scenario is called {:?}; name the file so, or the scenario", scenario.name);
        Err(ScenarioError::Wrong { file, line: 1, what })
    }

    /// Reads a scenario's text; `file` names it in errors.
    ///
    /// # Errors
    /// [`ScenarioError::Wrong`].
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let line = |offset: usize| {
            text.get(..offset).unwrap_or(text).bytes().filter(|byte| *byte == b'\n').count() + 1
        };
        let wrong = |line, what| ScenarioError::Wrong { file: file.to_owned(), line, what };
        let scenario: Self = toml::from_str(text).map_err(|error| {
            wrong(line(error.span().map_or(0, |span| span.start)), error.message().to_owned())
        })?;
        for spec in &scenario.fault {
            let checked = spec.get_ref().check(&scenario);
            checked.map_err(|what| wrong(line(spec.span().start), what))?;
        }
        scenario.check().map_err(|what| wrong(1, what))?;
        Ok(scenario)
    }

    /// All regions in which something stands.
    #[must_use]
    pub fn regions(&self) -> Vec<String> {
        let topology = &self.topology;
        let mut regions: Vec<String> = topology.central.clone();
        regions.extend(topology.edges.keys().cloned());
        regions.extend(topology.server.iter().map(|server| server.region.clone()));
        regions.sort();
        regions.dedup();
        regions
    }

    /// The crowd called `tenant`.
    #[must_use]
    pub fn crowd(&self, tenant: &str) -> Option<&Crowd> {
        self.crowd.iter().find(|crowd| crowd.tenant == tenant)
    }

    fn check_crowds(&self) -> Result<(), String> {
        for (at, crowd) in self.crowd.iter().enumerate() {
            let tenant = &crowd.tenant;
            let is_taken = |other: &Crowd| other.tenant == *tenant;
            if ["strict", "free"].contains(&tenant.as_str()) || self.crowd.iter().take(at).any(is_taken) {
                return Err(format!("crowd: there is a tenant {tenant:?} already; give it another name"));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        self.topology.check()?;
        self.check_crowds()?;
        let regions = self.regions();
        for name in self.links.keys().filter(|name| !matches!(name.as_str(), "inside" | "between")) {
            let known = name.split_once('-').is_some_and(|(one, other)| {
                [one, other].iter().all(|region| regions.iter().any(|known| known == region))
            });
            if !known {
                return Err(format!("links.{name} joins no two regions; known are {}", regions.join(", ")));
            }
        }
        for region in &self.expect.sustained {
            if !self.topology.edges.contains_key(region) {
                return Err(format!("expect.sustained: {region:?} has no edges, so no callers"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "name = \"small\"\nabout = \"x\"\n[topology]\ncentral = [\"eu\"]\nedges = {eu = 1}\n";

    #[test]
    fn an_unknown_field_is_refused_at_its_line() {
        let wrong = Scenario::parse("small.toml", &format!("{SMALL}nodes = 3\n")).unwrap_err().to_string();
        assert!(wrong.starts_with("small.toml:6: unknown field `nodes`, expected"), "{wrong}");
    }

    #[test]
    fn a_fault_without_what_it_needs_is_refused_at_its_line() {
        let text = format!("{SMALL}\n[[fault]]\nat = \"1s\"\ndo = \"lose_region\"\n");
        let wrong = Scenario::parse("small.toml", &text).unwrap_err().to_string();
        assert!(wrong.starts_with("small.toml:7: ") && wrong.contains("region"), "{wrong}");
        let text = format!("{SMALL}\n[[fault]]\nat = \"1s\"\ndo = \"crash\"\ntarget = \"edge-us\"\n");
        let wrong = Scenario::parse("small.toml", &text).unwrap_err().to_string();
        assert!(wrong.contains("edge-us"), "{wrong}");
    }

    #[test]
    fn every_shipped_scenario_is_one() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let files = crate::files::list(&directory, "toml").unwrap();
        let read: Vec<_> = files.iter().map(|file| Scenario::load(file).unwrap().name).collect();
        assert!(read.len() >= 6, "{read:?}");
    }
}
