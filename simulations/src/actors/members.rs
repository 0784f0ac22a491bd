//! Who is a member of central, as operators know it, and how they change that: another leads, or another takes the place
//! of one whose machine is lost for good.

use std::sync::Arc;
use std::time::Duration;

use base::NodeId;
use central::admin::api::AddMember;
use seam::{Lock, Stop};
use simulation_hooks::Random;

use super::Operations;
use crate::deployment::{MESH, Spot};
use crate::faults::Field;
use crate::history::Operated;
use crate::http::ExchangeError;
use crate::schedule::successor;

/// Before a member is added again that could not be.
const AGAIN: Duration = Duration::from_millis(500);

/// Central nodes whom operators ask. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Centrals {
    first: Arc<Vec<Spot>>,
    names: Arc<Lock<Vec<String>>>,
}

impl Centrals {
    /// Those that the mesh began with, numbered from 1; their successors are numbered on.
    #[must_use]
    pub fn new(first: Vec<Spot>) -> Self {
        let names = first.iter().map(|spot| spot.name.clone()).collect();
        Self { first: Arc::new(first), names: Arc::new(Lock::new(names)) }
    }

    /// All of them.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.names.lock().clone()
    }

    /// Any of them.
    pub fn any(&self, random: &mut Random) -> String {
        let count = self.names.lock().len() as u64;
        self.at(usize::try_from(random.below(count)).unwrap_or(0))
    }

    /// One after the other.
    #[must_use]
    pub fn at(&self, turn: usize) -> String {
        let names = self.names.lock();
        names.get(turn % names.len().max(1)).cloned().unwrap_or_default()
    }

    /// One after the other, without the one called `lost`.
    #[must_use]
    pub fn others(&self, lost: &str, turn: usize) -> String {
        let names = self.names.lock();
        let others: Vec<&String> = names.iter().filter(|name| *name != lost).collect();
        others.get(turn % others.len().max(1)).map_or_else(String::new, |name| (*name).clone())
    }

    /// The number of the node called `name`, and its region.
    fn number(&self, name: &str) -> Option<(NodeId, &Spot)> {
        let count = self.first.len();
        let named = self.first.iter().enumerate().find_map(|(at, spot)| {
            let later = if spot.name == name { 0 } else { count };
            let is_it = spot.name == name || successor(&spot.name) == name;
            is_it.then_some((at + 1 + later, spot))
        });
        named.map(|(number, spot)| (NodeId(number as u64), spot))
    }

    fn replace(&self, old: &str, new: &str) {
        for name in self.names.lock().iter_mut().filter(|name| *name == old) {
            new.clone_into(name);
        }
    }
}

impl Operations {
    /// Lets the node called `name` lead: asks each central node until one says that it does.
    pub fn start_transfer(&self, name: String) {
        let this = self.clone();
        self.spawn("operator transfers", async move {
            let Some((to, _)) = this.centrals.number(&name) else { return };
            let mut last = None;
            for node in this.centrals.names() {
                match this.operator.transfer(&node, to).await {
                    Ok(_members) => return this.operated("transfer", &name, None),
                    Err(error) => last = Some(error),
                }
            }
            this.operated("transfer", &name, last.as_ref());
        });
    }

    /// Lets the mesh use the next level of messages: asks until every central node knows it.
    pub fn start_raising(&self, name: String, stop: Stop) {
        let this = self.clone();
        self.spawn("operator raises the level", async move {
            let mut last = None;
            for turn in 0.. {
                match this.operator.raise_level(&this.centrals.at(turn), wire::LEVEL + 1).await {
                    Ok(_changed) => return this.operated("raise_level", &name, None),
                    Err(error) => last = Some(error),
                }
                if stop.is_wanted() {
                    break;
                }
                this.operator.host().sleep(AGAIN).await;
            }
            this.operated("raise_level", &name, last.as_ref());
        });
    }

    /// Puts the machine that stands ready in the place of the node called `old`: asks until it has its vote.
    pub fn start_replacing(&self, field: &Field, old: String, stop: Stop) {
        let (this, field) = (self.clone(), field.clone());
        self.spawn("operator replaces", async move {
            let new = successor(&old);
            field.appear(&new);
            let mut last = None;
            for turn in 0.. {
                match this.replace(&old, &new, turn).await {
                    Ok(()) => {
                        this.centrals.replace(&old, &new);
                        return this.operated("replace", &new, None);
                    }
                    Err(error) => last = Some(error),
                }
                if stop.is_wanted() {
                    break;
                }
                this.operator.host().sleep(AGAIN).await;
            }
            this.operated("replace", &new, last.as_ref());
        });
    }

    async fn replace(&self, old: &str, new: &str, turn: usize) -> Result<(), ExchangeError> {
        let (numbers, host) =
            (self.centrals.number(old).zip(self.centrals.number(new)), self.operator.host());
        let ((replaces, _), (id, spot)) = numbers.ok_or(ExchangeError::Gone)?;
        let found = host.lookup(new, MESH).await.map_err(ExchangeError::broken("looking the node up"))?;
        let mesh = found.first().copied().ok_or(ExchangeError::Gone)?;
        let name = new.parse().map_err(ExchangeError::broken("naming the node"))?;
        let region = spot.region.parse().map_err(ExchangeError::broken("naming the region"))?;
        let new = AddMember { id, name, region, mesh, replaces: Some(replaces) };
        self.operator.replace(&self.centrals.others(old, turn), &new).await.map(drop)
    }

    fn operated(&self, what: &'static str, machine: &str, error: Option<&ExchangeError>) {
        let (at, machine) = (self.recorder.now(), machine.to_owned());
        let failed = error.map(super::operator::told);
        self.recorder.write(|history| history.operated.push(Operated { at, what, machine, failed }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successors_are_numbered_on_and_asked_in_place_of_those_they_follow() {
        let spot = |name: &str| Spot { name: name.to_owned(), region: "eu".to_owned() };
        let centrals = Centrals::new(vec![spot("a"), spot("b"), spot("c")]);
        let number = |name: &str| centrals.number(name).map(|(id, _)| id.0);
        assert_eq!(["b", "b-2", "c-2", "d"].map(number), [Some(2), Some(5), Some(6), None]);
        assert_eq!([0, 1, 2].map(|turn| centrals.others("b", turn)), ["a", "c", "a"]);
        centrals.replace("b", "b-2");
        assert_eq!(centrals.names(), ["a", "b-2", "c"]);
    }
}
