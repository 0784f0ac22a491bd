//! Whether a leader hears its majority in time. Round trips that outgrow the heartbeat leave it leading and yet useless: its
//! heartbeats reach the followers, who wait for their end, while the answers come too late to confirm a read. As long as
//! it writes, openraft's own probe (`quorum_loss_probe_interval`) sees nothing wrong.
//!
//! Pure: the shell is in [`super::leader`].

use std::time::Duration;

use base::Mono;

/// Between two times that one member gives up: where all are far from each other, nobody leads better than it does.
const PAUSE: Duration = Duration::from_secs(60);

/// A leader's questions to its majority.
#[derive(Debug, Default)]
pub(super) struct Contact {
    /// The oldest since one was answered in time, and the term it was asked in.
    waits: Option<(u64, Mono)>,
    /// It gives up no earlier than this.
    not_before: Mono,
}

impl Contact {
    /// A majority is asked, in `term`. Gives whether to give up: no question of this term was answered in time for
    /// `patience`.
    pub(super) fn asked(&mut self, term: u64, now: Mono, patience: Duration) -> bool {
        let since = self.waits.filter(|(old, _since)| *old == term).map_or(now, |(_term, since)| since);
        let gives_up = now.since(since) > patience && now >= self.not_before;
        self.waits = (!gives_up).then_some((term, since));
        if gives_up {
            self.not_before = now + PAUSE;
        }
        gives_up
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
    fn an_answer_or_another_term_begins_anew_and_time_without_questions_counts_for_nothing() {
        let mut contact = Contact::default();
        assert!(!contact.asked(1, at(0), MS * 100));
        contact.answered();
        assert!(!contact.asked(1, at(500), MS * 100));
        assert!(!contact.asked(2, at(900), MS * 100), "another term");
        assert!(contact.asked(2, at(1_001), MS * 100));
    }
}
