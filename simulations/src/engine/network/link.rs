//! What happens to a packet on a directed link: when it arrives, or whether it is lost, doubled or held.

use std::collections::VecDeque;
use std::time::Duration;

use base::Mono;
use simulation_hooks::Random;

use super::super::clock::nanos;

/// The largest datagram of an Ethernet path: 1,500 bytes less the headers of IPv4 and UDP.
const ETHERNET_MTU: usize = 1472;

/// A directed link. Chances count in a million.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The time a packet takes.
    pub delay: Duration,
    /// At most this much is added, drawn for each packet. Packets stay in order.
    pub jitter: Duration,
    /// The chance that a packet is lost.
    pub loss: u32,
    /// The chance that a datagram arrives twice.
    pub duplicate: u32,
    /// Datagrams that are overtaken.
    pub reorder: Option<Reorder>,
    /// Bytes per second, unlimited when none.
    pub rate: Option<u64>,
    /// How long a packet may wait for its turn on a link of limited rate before it is dropped.
    pub queue: Duration,
    /// The largest datagram that passes, in bytes.
    pub mtu: usize,
    /// Whether packets pass at all.
    pub cut: Option<Cut>,
}

/// How some datagrams are overtaken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reorder {
    /// The chance that a datagram is.
    pub chance: u32,
    /// At most this much later it arrives.
    pub late: Duration,
}

/// What a cut link does with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Loses them.
    Drop,
    /// Keeps them, and sends them on when the link is whole again.
    Hold,
}

impl Default for Link {
    /// One millisecond, without a fault.
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(1),
            jitter: Duration::ZERO,
            loss: 0,
            duplicate: 0,
            reorder: None,
            rate: None,
            queue: Duration::from_millis(200),
            mtu: ETHERNET_MTU,
            cut: None,
        }
    }
}

/// What happens to one packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Lost,
    Held,
    Arrives(Mono),
    ArrivesTwice(Mono, Mono),
}

/// A link and what is on it; `H` is what it holds back.
#[derive(Debug)]
pub(crate) struct Path<H> {
    pub(crate) link: Link,
    /// Until when the sender's interface is busy with packets before this one.
    busy_until: Mono,
    /// No packet that keeps its place arrives before this.
    last_arrival: Mono,
    held: VecDeque<H>,
}

impl<H> Path<H> {
    pub(crate) const fn new(link: Link) -> Self {
        Self { link, busy_until: Mono::ZERO, last_arrival: Mono::ZERO, held: VecDeque::new() }
    }

    /// What happens to a packet of `len` bytes sent `now`.
    pub(crate) fn fate(&mut self, now: Mono, len: usize, is_datagram: bool, random: &mut Random) -> Fate {
        match self.link.cut {
            Some(Cut::Drop) => return Fate::Lost,
            Some(Cut::Hold) => return Fate::Held,
            None => {}
        }
        if (is_datagram && len > self.link.mtu) || random.chance(self.link.loss) {
            return Fate::Lost;
        }
        let Some(sent) = self.leaves(now, len) else { return Fate::Lost };
        let jitter = draw(self.link.jitter, random);
        let due = sent + self.link.delay + jitter;
        if !is_datagram {
            return Fate::Arrives(self.in_order(due));
        }
        if let Some(reorder) = self.link.reorder
            && random.chance(reorder.chance)
        {
            return Fate::Arrives(due.max(self.last_arrival) + draw(reorder.late, random));
        }
        let due = self.in_order(due);
        if random.chance(self.link.duplicate) {
            let again = due + draw(self.link.delay, random);
            return Fate::ArrivesTwice(due, again);
        }
        Fate::Arrives(due)
    }

    pub(super) fn hold(&mut self, event: H) {
        self.held.push_back(event);
    }

    /// What was held, once packets pass (to arrive) or are dropped (to be lost) instead.
    pub(super) fn take_freed(&mut self) -> VecDeque<H> {
        match self.link.cut {
            Some(Cut::Hold) => VecDeque::new(),
            Some(Cut::Drop) | None => std::mem::take(&mut self.held),
        }
    }

    pub(super) fn arrival_of_freed(&mut self, now: Mono) -> Mono {
        self.in_order(now + self.link.delay)
    }

    /// When the packet has left the sender's interface; `None` when the queue before it is too long.
    fn leaves(&mut self, now: Mono, len: usize) -> Option<Mono> {
        let Some(rate) = self.link.rate else { return Some(now) };
        let start = self.busy_until.max(now);
        if start.since(now) > self.link.queue {
            return None;
        }
        let took = (len as u64).saturating_mul(1_000_000_000).checked_div(rate).unwrap_or(u64::MAX);
        self.busy_until = start + Duration::from_nanos(took);
        Some(self.busy_until)
    }

    fn in_order(&mut self, due: Mono) -> Mono {
        self.last_arrival = self.last_arrival.max(due);
        self.last_arrival
    }
}

fn draw(up_to: Duration, random: &mut Random) -> Duration {
    if up_to.is_zero() { up_to } else { Duration::from_nanos(random.below(nanos(up_to))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn path(change: impl FnOnce(&mut Link)) -> Path<()> {
        let mut link = Link { delay: 10 * MS, ..Link::default() };
        change(&mut link);
        Path::new(link)
    }

    fn at(ms: u32) -> Mono {
        Mono::ZERO + ms * MS
    }

    #[test]
    fn jitter_keeps_order_and_reordering_breaks_it() {
        let mut random = Random::new(1);
        let mut jittery = path(|link| link.jitter = 50 * MS);
        let mut shuffled = path(|link| link.reorder = Some(Reorder { chance: 500_000, late: 50 * MS }));
        let mut arrivals = |path: &mut Path<()>| -> Vec<Mono> {
            (0..100)
                .map(|ms| match path.fate(at(ms), 100, true, &mut random) {
                    Fate::Arrives(due) => due,
                    fate => panic!("{fate:?}"),
                })
                .collect()
        };
        assert!(arrivals(&mut jittery).is_sorted());
        assert!(!arrivals(&mut shuffled).is_sorted());
    }

    #[test]
    fn a_limited_rate_spaces_packets_and_drops_past_the_queue() {
        let mut random = Random::new(1);
        let mut slow = path(|link| {
            link.rate = Some(100_000);
            link.queue = 20 * MS;
        });
        let fates: Vec<_> = (0..5).map(|_| slow.fate(at(0), 1000, true, &mut random)).collect();
        let expected =
            [Fate::Arrives(at(20)), Fate::Arrives(at(30)), Fate::Arrives(at(40)), Fate::Lost, Fate::Lost];
        assert_eq!(fates, expected);
    }

    #[test]
    fn a_cut_loses_or_holds_and_what_is_too_large_never_passes() {
        let mut random = Random::new(1);
        let mut dropping = path(|link| link.cut = Some(Cut::Drop));
        assert_eq!(dropping.fate(at(0), 100, true, &mut random), Fate::Lost);
        let mut holding = path(|link| link.cut = Some(Cut::Hold));
        assert_eq!(holding.fate(at(0), 100, true, &mut random), Fate::Held);
        let mut narrow = path(|link| link.mtu = 1200);
        assert_eq!(narrow.fate(at(0), 1201, true, &mut random), Fate::Lost);
        assert_eq!(narrow.fate(at(0), 1200, true, &mut random), Fate::Arrives(at(10)));
    }
}
