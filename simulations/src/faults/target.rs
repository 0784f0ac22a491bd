//! Whom a fault strikes: a machine by name, or by what it is when the fault strikes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::scenario::Scenario;

/// Whom a fault strikes. Written as in the comments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Target {
    /// The machine of that name.
    Machine(String),
    /// `leader`: central's leader.
    Leader,
    /// `follower`: a central node that does not lead.
    Follower,
    /// `followers`: all central nodes but the leader.
    Followers,
    /// `any:central`
    AnyCentral,
    /// `any:edge`
    AnyEdge,
    /// `any:model`: a model server.
    AnyModel,
    /// `all:central`
    AllCentrals,
    /// `all:edge`
    AllEdges,
    /// `all:model`
    AllModels,
    /// `edges:eu`: all edges of the region.
    Edges(String),
    /// `region:eu`: every machine of the region, its callers included.
    Region(String),
    /// `leader-region`: every machine of the leader's region.
    LeaderRegion,
    /// `everybody`: all others, callers included.
    Everybody,
}

/// Words without a name in them.
const WORDS: [(&str, Target); 11] = [
    ("leader", Target::Leader),
    ("follower", Target::Follower),
    ("followers", Target::Followers),
    ("any:central", Target::AnyCentral),
    ("any:edge", Target::AnyEdge),
    ("any:model", Target::AnyModel),
    ("all:central", Target::AllCentrals),
    ("all:edge", Target::AllEdges),
    ("all:model", Target::AllModels),
    ("leader-region", Target::LeaderRegion),
    ("everybody", Target::Everybody),
];

impl Target {
    /// Whether the scenario has what it names.
    ///
    /// # Errors
    /// What it does not have.
    pub(crate) fn check(&self, scenario: &Scenario) -> Result<(), String> {
        match self {
            Self::Machine(name) => {
                let topology = &scenario.topology;
                let nodes =
                    topology.centrals().into_iter().chain(topology.edge_spots()).map(|spot| spot.name);
                let servers = topology.server.iter().map(|server| server.name.clone());
                let known: Vec<String> = nodes.chain(servers).collect();
                if known.contains(name) {
                    return Ok(());
                }
                let words: Vec<&str> = WORDS.iter().map(|(word, _)| *word).collect();
                Err(format!(
                    "no machine is called {name:?}; there are {}; or write region:NAME, {}",
                    known.join(", "),
                    words.join(", ")
                ))
            }
            Self::Region(region) | Self::Edges(region) if !scenario.regions().contains(region) => {
                Err(format!("no region is called {region:?}; there are {}", scenario.regions().join(", ")))
            }
            _ => Ok(()),
        }
    }
}

impl Target {
    /// Whether it is one central node.
    pub(crate) fn is_central(&self, scenario: &Scenario) -> bool {
        match self {
            Self::Leader | Self::Follower | Self::AnyCentral => true,
            Self::Machine(name) => scenario.topology.centrals().iter().any(|spot| spot.name == *name),
            _ => false,
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, target)) = WORDS.iter().find(|(word, _)| *word == text) {
            return Ok(target.clone());
        }
        match text.split_once(':') {
            Some(("region", region)) => Ok(Self::Region(region.to_owned())),
            Some(("edges", region)) => Ok(Self::Edges(region.to_owned())),
            Some(_) => {
                Err(format!("{text:?} is no target; write a machine's name, leader, any:edge, region:eu"))
            }
            None => Ok(Self::Machine(text.to_owned())),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine(name) => f.write_str(name),
            Self::Region(region) => write!(f, "region:{region}"),
            Self::Edges(region) => write!(f, "edges:{region}"),
            other => {
                let word = WORDS.iter().find(|(_, target)| target == other).map(|(word, _)| *word);
                f.write_str(word.unwrap_or_default())
            }
        }
    }
}

impl TryFrom<String> for Target {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back_as_it_was_written() {
        for text in WORDS.iter().map(|(word, _)| *word).chain(["edge-eu-2", "region:us", "edges:us"]) {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        assert!("all:cats".parse::<Target>().is_err());
    }
}
