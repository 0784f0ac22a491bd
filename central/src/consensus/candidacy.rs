//! When a member stands for election: as soon as no leader was heard for its lease, each member in its turn, so that
//! votes do not split.
//!
//! openraft's own timer waits a second timeout after the lease and lets chance order the members. Here the order is
//! that of their numbers, a turn apart. What a member may do is still openraft's to decide: it and its voters refuse
//! while a leader's lease lasts, so that standing too early disturbs nobody. Pure: the shell is [`super::elect`].

use std::time::Duration;

use base::Mono;

use super::Timing;

/// Turns wait no longer than this many times the first pause between tries.
const LONGEST_PAUSE: u32 = 4;

/// What this member waits for before it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// A leader that has fallen silent.
    Leader,
    /// The end of a try, its own or one that it supports.
    Try,
}

/// A member's readiness to stand.
#[derive(Debug)]
pub(super) struct Candidacy {
    timing: Timing,
    /// When a leader was last heard; at first when the member started.
    heard: Mono,
    waits: Waits,
    /// It stands at this time, or later when others come first.
    due: Mono,
    /// Others come first.
    ranked: bool,
    /// The term before its last try, and how long it waited for the outcome.
    tried: Option<(u64, Duration)>,
}

impl Candidacy {
    pub(super) fn new(timing: Timing, now: Mono) -> Self {
        let mut new = Self { timing, heard: now, waits: Waits::Leader, due: now, ranked: true, tried: None };
        new.leader_heard(now);
        new
    }

    /// When to stand, for a member with `before` others in front of it; the only voter waits for nobody.
    pub(super) fn due(&self, before: u32, alone: bool) -> Mono {
        match self.waits {
            Waits::Leader if alone => Mono::ZERO,
            Waits::Leader | Waits::Try if self.ranked => self.due + self.timing.turn() * before,
            Waits::Leader | Waits::Try => self.due,
        }
    }

    /// Whether a leader ought to have been heard since.
    pub(super) fn is_leader_silent(&self, now: Mono) -> bool {
        now.since(self.heard) > self.timing.silence()
    }

    /// A leader's message arrived.
    pub(super) fn leader_heard(&mut self, now: Mono) {
        self.heard = now;
        self.waits = Waits::Leader;
        self.due = now + self.timing.lease() + self.timing.margin();
        self.ranked = true;
        self.tried = None;
    }

    /// Another was promised a vote, or given it: it gets the time to use it.
    pub(super) fn supported(&mut self, now: Mono) {
        self.waits = Waits::Try;
        self.due = self.due.max(now + self.timing.turn());
        self.ranked = true;
    }

    /// Another was refused because it lacks entries that this member has, and would be again. Gives whether this member
    /// stands at once in its place.
    pub(super) fn knows_more(&mut self, now: Mono) -> bool {
        let stands = self.waits == Waits::Leader && now.since(self.heard) > self.timing.lease();
        if stands {
            self.due = now;
            self.ranked = false;
        }
        stands
    }

    /// It stands, while the group is in `term`. A try that made a term and no leader gets twice the time the next time:
    /// votes may be slow to reach the disks.
    pub(super) fn stands(&mut self, now: Mono, term: u64) {
        let first = self.timing.election_min;
        let pause = match self.tried {
            Some((before, waited)) if before < term => (waited * 2).min(first * LONGEST_PAUSE),
            Some(_) | None => first,
        };
        self.tried = Some((term, pause));
        self.waits = Waits::Try;
        self.due = now + pause;
        self.ranked = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Mono {
        Mono::ZERO + MS * u32::try_from(ms).unwrap()
    }

    fn timing() -> Timing {
        Timing::for_round_trip(70 * MS)
    }

    #[test]
    fn a_member_stands_once_the_lease_of_the_last_message_is_over_and_others_had_their_turn() {
        let timing = timing();
        let mut member = Candidacy::new(timing, at(0));
        member.leader_heard(at(100));
        let first = at(100) + timing.lease() + timing.margin();
        assert_eq!(member.due(0, false), first);
        assert_eq!(member.due(2, false), first + timing.turn() * 2);
    }

    #[test]
    fn a_vote_given_holds_a_member_back_and_never_forward() {
        let timing = timing();
        let mut member = Candidacy::new(timing, at(0));
        let due = member.due(0, false);
        member.supported(at(0));
        assert_eq!(member.due(0, false), due);
        member.supported(due);
        assert_eq!(member.due(0, false), due + timing.turn());
    }

    #[test]
    fn who_knows_more_stands_in_the_place_of_the_one_it_refused_but_not_against_a_leader() {
        let timing = timing();
        let mut member = Candidacy::new(timing, at(0));
        assert!(!member.knows_more(at(0) + timing.lease()));
        let late = at(1) + timing.lease();
        assert!(member.knows_more(late));
        assert_eq!(member.due(3, false), late);
        member.stands(late, 1);
        assert!(!member.knows_more(late), "its try goes on");
    }

    #[test]
    fn tries_that_cost_terms_are_made_more_rarely_and_those_that_cost_none_are_not() {
        let timing = timing();
        let mut member = Candidacy::new(timing, at(0));
        let mut pauses = |terms: [u64; 5]| {
            member.leader_heard(at(0));
            terms.map(|term| {
                member.stands(at(0), term);
                member.due(0, false).since(at(0)).as_millis() / timing.election_min.as_millis()
            })
        };
        assert_eq!(pauses([1, 2, 3, 4, 5]), [1, 2, 4, 4, 4]);
        assert_eq!(pauses([1, 1, 1, 1, 1]), [1; 5]);
    }

    #[test]
    fn the_only_voter_stands_at_once_and_again_when_that_took_too_long() {
        let mut member = Candidacy::new(timing(), at(5));
        assert_eq!(member.due(0, true), Mono::ZERO);
        member.stands(at(5), 1);
        assert_eq!(member.due(0, true), at(5) + timing().election_min);
    }

    #[test]
    fn a_leader_is_silent_before_its_lease_is_over() {
        let timing = timing();
        let member = Candidacy::new(timing, at(0));
        assert!(!member.is_leader_silent(at(0) + timing.heartbeat));
        assert!(member.is_leader_silent(at(0) + timing.lease()));
    }
}
