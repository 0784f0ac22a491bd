//! Which session speaks for which edge, and what was handed to it. Everything here is short and never waits.

use std::collections::BTreeMap;

use base::{Epoch, Name, RegionName, Stamp};
use bytes::Bytes;
use tokio::sync::mpsc;
use wire::control::{Health, MissingTokenizer};

/// Processes of one edge that may have a session at once: the newest, and one or more that do not know it yet.
const PROCESSES: usize = 4;

/// A message on its way to an edge.
#[derive(Clone, Debug)]
pub(super) enum Outgoing {
    /// More may follow.
    Message(Bytes),
    /// The session ends behind it.
    Last(Bytes),
}

/// What an edge has been handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) catalog: Stamp,
    pub(super) epoch: Epoch,
    pub(super) nodes: Stamp,
}

impl Given {
    pub(super) fn newest(&self) -> Stamp {
        self.catalog.max(self.nodes)
    }
}

/// An edge attached to this node, and what it last told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attached {
    /// Its name.
    pub(crate) edge: Name,
    /// Its region.
    pub(crate) region: RegionName,
    /// The configuration in force there.
    pub(crate) applied: Option<(Stamp, Epoch)>,
    /// What it sees of itself.
    pub(crate) health: Health,
    /// The tokenizers that it lacks.
    pub(crate) missing: Vec<MissingTokenizer>,
}

#[derive(Debug)]
struct Session {
    serial: u64,
    have: Option<(Stamp, Epoch)>,
    queue: mpsc::Sender<Outgoing>,
    /// `None` until its registration committed.
    given: Option<Given>,
    told: Attached,
}

/// A whole configuration: its message, stamp and epoch.
pub(super) type Whole = (Bytes, Stamp, Epoch);

#[derive(Debug, Default)]
pub(super) struct Table {
    serial: u64,
    /// By edge and process: an older process hears that it must stop, and only the newest is live.
    sessions: BTreeMap<(Name, u64), Session>,
}

/// Who attaches.
#[derive(Debug)]
pub(super) struct Newcomer {
    pub(super) edge: Name,
    pub(super) region: RegionName,
    pub(super) boot: u64,
    pub(super) have: Option<(Stamp, Epoch)>,
}

impl Table {
    /// Takes a session in, in the place of the process's earlier one; the serial tells it from later ones.
    pub(super) fn attach(&mut self, who: Newcomer, queue: mpsc::Sender<Outgoing>) -> u64 {
        self.serial += 1;
        let told = Attached {
            edge: who.edge.clone(),
            region: who.region,
            applied: who.have,
            health: Health::default(),
            missing: Vec::new(),
        };
        let of_edge = || self.of(&who.edge).map(|(boot, session)| (session.serial, boot));
        if of_edge().count() >= PROCESSES
            && let Some((_serial, boot)) = of_edge().min()
        {
            self.sessions.remove(&(who.edge.clone(), boot));
        }
        let session = Session { serial: self.serial, have: who.have, queue, given: None, told };
        // Dropping the earlier session's queue ends it.
        drop(self.sessions.insert((who.edge, who.boot), session));
        self.serial
    }

    /// The sessions of an edge, by process.
    fn of(&self, edge: &Name) -> impl Iterator<Item = (u64, &Session)> {
        let all = (edge.clone(), 0)..=(edge.clone(), u64::MAX);
        self.sessions.range(all).map(|((_edge, boot), session)| (*boot, session))
    }

    pub(super) fn detach(&mut self, edge: &Name, boot: u64, serial: u64) {
        let process = (edge.clone(), boot);
        if self.sessions.get(&process).is_some_and(|session| session.serial == serial) {
            self.sessions.remove(&process);
        }
    }

    /// What the edge has whose session waits for its registration; `None` when no such session is here.
    #[expect(clippy::option_option, reason = "an edge may have nothing, and a session may not be here")]
    pub(super) fn waiting(&self, edge: &Name, boot: u64) -> Option<Option<(Stamp, Epoch)>> {
        self.sessions.get(&(edge.clone(), boot)).map(|session| session.have)
    }

    pub(super) fn begin(
        &mut self,
        edge: &Name,
        boot: u64,
        given: Given,
        messages: impl Iterator<Item = Bytes>,
    ) {
        let process = (edge.clone(), boot);
        let Some(session) = self.sessions.get_mut(&process) else { return };
        session.given = Some(given);
        for message in messages {
            self.hand(&process, message);
        }
    }

    /// Hands a message to the edge's live session, if there is one here.
    pub(super) fn send(&mut self, edge: &Name, message: &Bytes) {
        let live = self.of(edge).filter(|(_boot, session)| session.given.is_some());
        let boots: Vec<u64> = live.map(|(boot, _session)| boot).collect();
        for boot in boots {
            self.hand(&(edge.clone(), boot), message.clone());
        }
    }

    pub(super) fn is_live(&self, edge: &Name) -> bool {
        self.of(edge).any(|(_boot, session)| session.given.is_some())
    }

    /// Hands a message to one session; one that cannot take it is given up.
    fn hand(&mut self, process: &(Name, u64), message: Bytes) {
        let Some(session) = self.sessions.get(process) else { return };
        if session.queue.try_send(Outgoing::Message(message)).is_err() {
            tracing::warn!(edge = %process.0, "an edge does not read its session; it must attach anew");
            self.sessions.remove(process);
        }
    }

    /// Ends the session of one process with a last message.
    pub(super) fn end(&mut self, edge: &Name, boot: u64, last: Bytes) {
        if let Some(session) = self.sessions.remove(&(edge.clone(), boot)) {
            // A full queue ends the session as well.
            drop(session.queue.try_send(Outgoing::Last(last)));
        }
    }

    pub(super) fn end_all(&mut self, last: &Bytes) {
        for (_process, session) in std::mem::take(&mut self.sessions) {
            drop(session.queue.try_send(Outgoing::Last(last.clone())));
        }
    }

    /// Ends sessions whose process is no longer the one registered, and those whose welcome may have been missed.
    pub(super) fn end_outdated(&mut self, boots: &BTreeMap<Name, u64>, superseded: &Bytes, again: &Bytes) {
        self.sessions.retain(|(edge, boot), session| {
            let last = match (boots.get(edge), session.given) {
                (Some(registered), Some(_live)) if registered != boot => superseded,
                (Some(_) | None, None) => again,
                (Some(_) | None, Some(_live)) => return true,
            };
            drop(session.queue.try_send(Outgoing::Last(last.clone())));
            false
        });
    }

    /// Hands a step of the configuration on; an edge for which it does not fit gets the whole.
    pub(super) fn published(
        &mut self,
        (stamp, from, epoch): (Stamp, Epoch, Epoch),
        delta: &Bytes,
        whole: &dyn Fn() -> Option<Whole>,
    ) {
        let mut made = None;
        self.each(|given| {
            if stamp <= given.catalog {
                return None;
            }
            if given.epoch == from {
                (given.catalog, given.epoch) = (stamp, epoch);
                return Some(delta.clone());
            }
            let (message, stamp, epoch) = made.get_or_insert_with(whole).clone()?;
            (given.catalog, given.epoch) = (stamp, epoch);
            Some(message)
        });
    }

    /// Hands the whole configuration to edges that have an older one.
    pub(super) fn whole(&mut self, whole: &dyn Fn() -> Option<Whole>) {
        let mut made = None;
        self.each(|given| {
            let (message, stamp, epoch) = made.get_or_insert_with(whole).clone()?;
            if stamp <= given.catalog {
                return None;
            }
            (given.catalog, given.epoch) = (stamp, epoch);
            Some(message)
        });
    }

    pub(super) fn nodes_changed(&mut self, stamp: Stamp, message: &Bytes) {
        self.each(|given| {
            if stamp <= given.nodes {
                return None;
            }
            given.nodes = stamp;
            Some(message.clone())
        });
    }

    /// Only an edge that was handed everything is up to date.
    pub(super) fn pulse(&mut self, newest: Stamp, message: &Bytes) {
        self.each(|given| (given.newest() >= newest).then(|| message.clone()));
    }

    /// Asks for each live session's next message.
    fn each(&mut self, mut message: impl FnMut(&mut Given) -> Option<Bytes>) {
        let mut messages = Vec::new();
        for (process, session) in &mut self.sessions {
            if let Some(next) = session.given.as_mut().and_then(&mut message) {
                messages.push((process.clone(), next));
            }
        }
        for (process, next) in messages {
            self.hand(&process, next);
        }
    }

    /// Notes what an edge told of itself.
    pub(super) fn told(&mut self, edge: &Name, boot: u64, note: impl FnOnce(&mut Attached)) {
        if let Some(session) = self.sessions.get_mut(&(edge.clone(), boot)) {
            note(&mut session.told);
        }
    }

    pub(super) fn attached(&self) -> Vec<Attached> {
        let live = self.sessions.values().filter(|session| session.given.is_some());
        live.map(|session| session.told.clone()).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.sessions.values().filter(|session| session.given.is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use base::{Era, Revision};

    use super::*;

    fn stamp(revision: u64) -> Stamp {
        Stamp { era: Era(0), revision: Revision(revision) }
    }

    fn given(revision: u64, epoch: u64) -> Given {
        Given { catalog: stamp(revision), epoch: Epoch(epoch), nodes: stamp(0) }
    }

    fn attach(table: &mut Table, boot: u64) -> (u64, mpsc::Receiver<Outgoing>) {
        let (queue, outgoing) = mpsc::channel(4);
        let who = Newcomer { edge: name(), region: "eu".parse().unwrap(), boot, have: None };
        (table.attach(who, queue), outgoing)
    }

    fn name() -> Name {
        "e1".parse().unwrap()
    }

    fn next(outgoing: &mut mpsc::Receiver<Outgoing>) -> String {
        match outgoing.try_recv() {
            Ok(Outgoing::Message(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            Ok(Outgoing::Last(bytes)) => format!("last {}", String::from_utf8_lossy(&bytes)),
            Err(mpsc::error::TryRecvError::Empty) => "nothing".into(),
            Err(mpsc::error::TryRecvError::Disconnected) => "ended".into(),
        }
    }

    const DELTA: Bytes = Bytes::from_static(b"delta");

    #[test]
    fn an_edge_hears_each_step_once_and_the_whole_when_a_step_does_not_fit() {
        let mut table = Table::default();
        let (_serial, mut edge) = attach(&mut table, 1);
        table.send(&name(), &Bytes::from_static(b"early"));
        assert_eq!(next(&mut edge), "nothing");
        table.begin(&name(), 1, given(5, 2), std::iter::once(Bytes::from_static(b"welcome")));
        assert_eq!(next(&mut edge), "welcome");

        let whole = || Some((Bytes::from_static(b"whole"), stamp(9), Epoch(5)));
        table.published((stamp(5), Epoch(1), Epoch(2)), &DELTA, &whole);
        assert_eq!(next(&mut edge), "nothing");
        table.published((stamp(6), Epoch(2), Epoch(3)), &DELTA, &whole);
        assert_eq!(next(&mut edge), "delta");
        table.published((stamp(8), Epoch(4), Epoch(5)), &DELTA, &whole);
        assert_eq!(next(&mut edge), "whole");
        table.published((stamp(9), Epoch(4), Epoch(5)), &DELTA, &whole);
        assert_eq!(next(&mut edge), "nothing");
        table.pulse(stamp(9), &Bytes::from_static(b"current"));
        assert_eq!(next(&mut edge), "current");
        table.pulse(stamp(10), &Bytes::from_static(b"current"));
        assert_eq!(next(&mut edge), "nothing");
    }

    #[test]
    fn an_older_process_hears_that_it_must_stop_and_a_process_has_one_session() {
        let mut table = Table::default();
        let (_serial, mut old) = attach(&mut table, 1);
        table.begin(&name(), 1, given(1, 1), std::iter::empty());
        let (stale, mut first) = attach(&mut table, 2);
        table.end(&name(), 1, Bytes::from_static(b"superseded"));
        assert_eq!(next(&mut old), "last superseded");

        let (_serial, mut second) = attach(&mut table, 2);
        assert_eq!(next(&mut first), "ended");
        table.detach(&name(), 2, stale);
        table.begin(&name(), 2, given(1, 1), std::iter::empty());
        table.send(&name(), &DELTA);
        assert_eq!(next(&mut second), "delta");
        let _others: Vec<_> = (3..9).map(|boot| attach(&mut table, boot)).collect();
        assert_eq!(table.sessions.len(), PROCESSES);
    }

    #[test]
    fn an_edge_that_does_not_read_is_given_up() {
        let mut table = Table::default();
        let (_serial, mut edge) = attach(&mut table, 1);
        table.begin(&name(), 1, given(1, 1), std::iter::empty());
        for _ in 0..5 {
            table.send(&name(), &DELTA);
        }
        assert_eq!(table.count(), 0);
        for _ in 0..4 {
            assert_eq!(next(&mut edge), "delta");
        }
        assert_eq!(next(&mut edge), "ended");
    }
}
