//! Whether a leader hears its majority in time. Round trips that outgrow the heartbeat leave it leading and yet useless: its
//! heartbeats reach the followers, who wait for their end, while the answers come too late to confirm a read. As long as
//! it writes, openraft's own probe (`quorum_loss_probe_interval`) sees nothing wrong, and some reads are confirmed by
//! writes. Two signs tell it: round trips as measured, and questions that nobody answers in time.
//!
//! Pure: the shell is in [`super::leader`].

use std::time::Duration;

use base::Mono;

/// Between two times that one member gives up: where all are far from each other, nobody leads better than it does.
const PAUSE: Duration = Duration::from_secs(60);

/// So many looks in a row must find the majority too far: one burst of traffic says nothing of the way.
const LOOKS: u32 = 3;

/// How a leader hears its majority.
#[derive(Debug, Default)]
pub(super) struct Contact {
    /// The oldest since one was answered in time, and the term it was asked in.
    waits: Option<(u64, Mono)>,
    /// Looks in a row that found the majority too far.
    far: u32,
    /// It gives up no earlier than this.
    not_before: Mono,
}

/// The round trip in which a majority can answer a member with these round trips to the other voters; `None`: to no
/// majority is it known.
pub(super) fn to_majority(mut others: Vec<Option<Duration>>) -> Option<Duration> {
    let needed = others.len().div_ceil(2);
    others.sort_unstable_by_key(|round_trip| round_trip.unwrap_or(Duration::MAX));
    match needed.checked_sub(1) {
        Some(last) => others.get(last).copied().flatten(),
        None => Some(Duration::ZERO),
    }
}

impl Contact {
    /// A majority is asked, in `term`. Gives whether to give up: no question of this term was answered in time for
    /// `patience`.
    pub(super) fn asked(&mut self, term: u64, now: Mono, patience: Duration) -> bool {
        let since = self.waits.filter(|(old, _since)| *old == term).map_or(now, |(_term, since)| since);
        let gives_up = now.since(since) > patience && self.may_give_up(now);
        self.waits = (!gives_up).then_some((term, since));
        gives_up
    }

    /// This leader looked how far its majority is. Gives whether to give up: it was too far several times in a row.
    pub(super) fn looked(&mut self, too_far: bool, now: Mono) -> bool {
        self.far = if too_far { self.far.saturating_add(1) } else { 0 };
        self.far >= LOOKS && self.may_give_up(now)
    }

    fn may_give_up(&mut self, now: Mono) -> bool {
        let may = now >= self.not_before;
        if may {
            self.not_before = now + PAUSE;
            self.far = 0;
        }
        may
    }

    /// A majority answered in time.
    pub(super) fn answered(&mut self) {
        self.waits = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u32) -> Mono {
        Mono::ZERO + MS * ms
    }

    #[test]
    fn it_gives_up_after_its_patience_and_not_again_for_a_while() {
        let mut contact = Contact::default();
        let times = [0, 50, 100, 101, 102, 300, 60_100, 60_101];
        let gives_up = times.map(|ms| contact.asked(1, at(ms), MS * 100));
        assert_eq!(gives_up, [false, false, false, true, false, false, false, true]);
    }

    #[test]
    fn a_majority_that_is_too_far_three_times_in_a_row_is_told_once() {
        let mut contact = Contact::default();
        let looks = [true, true, false, true, true, true, true, true, true];
        let gives_up = looks.map(|far| contact.looked(far, at(1_000)));
        assert_eq!(gives_up, [false, false, false, false, false, true, false, false, false]);
    }

    #[test]
    fn a_majority_answers_with_the_last_of_its_nearest() {
        let ms = |ms: &[u32]| ms.iter().map(|ms| (*ms > 0).then_some(MS * *ms)).collect();
        let cases: [(&[u32], Option<u32>); 6] = [
            (&[], Some(0)),
            (&[30], Some(30)),
            (&[0], None),
            (&[90, 30], Some(30)),
            (&[0, 0], None),
            (&[0, 70, 200, 30], Some(70)),
        ];
        for (others, expected) in cases {
            assert_eq!(to_majority(ms(others)), expected.map(|ms| MS * ms), "{others:?}");
        }
    }

    #[test]
    fn an_answer_or_another_term_begins_anew_and_time_without_questions_counts_for_nothing() {
        let mut contact = Contact::default();
        assert!(!contact.asked(1, at(0), MS * 100));
        contact.answered();
        assert!(!contact.asked(1, at(500), MS * 100));
        assert!(!contact.asked(2, at(900), MS * 100), "another term");
        assert!(contact.asked(2, at(1_001), MS * 100));
    }
}
