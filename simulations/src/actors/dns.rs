//! The stand-in for name servers and load balancers: it asks each edge's port once a second whether anybody is there,
//! and names edges to callers, the nearest that answers first.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use seam::{Host, Lock, Stop};

use crate::deployment::{CALLS, Spot};

/// Between two probes of an edge.
const EVERY: Duration = Duration::from_secs(1);
/// An edge that takes longer to accept is not there.
const PATIENCE: Duration = Duration::from_secs(1);

/// What callers ask for an edge. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Dns {
    edges: Arc<Vec<Spot>>,
    /// One way in microseconds, between two regions.
    distances: Arc<Vec<(String, String, u64)>>,
    away: Arc<Lock<BTreeSet<String>>>,
}

impl Dns {
    /// Names all of `edges`.
    #[must_use]
    pub fn new(edges: Vec<Spot>, distances: Vec<(String, String, u64)>) -> Self {
        Self { edges: Arc::new(edges), distances: Arc::new(distances), away: Arc::default() }
    }

    /// Probes all edges from `host` until `stop`.
    pub fn start(&self, host: &Host, stop: &Stop) {
        for edge in self.edges.iter() {
            let (dns, host, name, stop) = (self.clone(), host.clone(), edge.name.clone(), stop.clone());
            let probing = {
                let host = host.clone();
                async move {
                    while !stop.is_wanted() {
                        let answered = host.timeout(PATIENCE, host.connect(&name, CALLS)).await;
                        if matches!(answered, Ok(Ok(_stream))) {
                            dns.away.lock().remove(&name);
                        } else {
                            dns.away.lock().insert(name.clone());
                        }
                        host.sleep(EVERY).await;
                    }
                }
            };
            drop(host.spawn("dns probe", probing));
        }
    }

    /// The edges for a caller in `region`: those that answer first, the nearest first; `turn` spreads callers over
    /// edges that are as near.
    #[must_use]
    pub fn edges(&self, region: &str, turn: u64) -> Vec<String> {
        let away = self.away.lock().clone();
        let count = (self.edges.len() as u64).max(1);
        let mut ranked: Vec<(bool, u64, u64, &str)> = (0..)
            .zip(self.edges.iter())
            .map(|(at, edge)| {
                let spread = (at + turn) % count;
                (away.contains(&edge.name), self.distance(region, &edge.region), spread, edge.name.as_str())
            })
            .collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(.., name)| name.to_owned()).collect()
    }

    fn distance(&self, one: &str, other: &str) -> u64 {
        let joins = |ends: &(String, String, u64)| {
            (ends.0 == one && ends.1 == other) || (ends.0 == other && ends.1 == one)
        };
        if one == other {
            0
        } else {
            self.distances.iter().find(|ends| joins(ends)).map_or(u64::MAX, |ends| ends.2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_edge_that_answers_comes_first() {
        let spot = |name: &str, region: &str| Spot { name: name.to_owned(), region: region.to_owned() };
        let edges = vec![spot("a", "eu"), spot("b", "us"), spot("c", "ap")];
        let distance = |one: &str, other: &str, us| (one.to_owned(), other.to_owned(), us);
        let dns = Dns::new(
            edges,
            vec![distance("eu", "us", 40), distance("ap", "eu", 90), distance("us", "ap", 80)],
        );
        assert_eq!(dns.edges("eu", 0), ["a", "b", "c"]);
        dns.away.lock().insert("a".to_owned());
        assert_eq!(dns.edges("eu", 0), ["b", "c", "a"]);
        assert_eq!(dns.edges("ap", 5), ["c", "b", "a"]);
    }
}
