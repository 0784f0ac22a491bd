//! What time it is, as the members say together: the middle of their wall clocks, so that one clock that is wrong, a
//! leader's too, opens no window of any budget early.
//!
//! Taken anew now and then, and carried on by this node's monotonic clock between: a step of its own wall clock changes
//! nothing. Of two answers the earlier counts. Without a majority's answers what was known goes on.

use std::time::Duration;

use base::{Mono, WallMs};
use futures_util::future::join_all;

use super::Consensus;
use super::protocol::{LeaderAnswer, LeaderQuestion};

/// Between two looks at the others' clocks.
const EVERY: Duration = Duration::from_secs(5);
/// A member that takes longer says nothing this time.
const WITHIN: Duration = Duration::from_secs(1);

/// What the members' clocks showed together, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walls(Option<(WallMs, Mono)>);

impl Walls {
    /// What they show at `now`; `own` until they were asked.
    pub(super) fn at(self, now: Mono, own: WallMs) -> WallMs {
        self.0.map_or(own, |(shown, then)| shown.plus(now.since(then)))
    }
}

impl Consensus {
    /// Asks the others what time it is, now and then, until this member stops.
    pub(super) async fn keep_walls(self) {
        loop {
            self.look_at_walls().await;
            tokio::select! {
                biased;
                _why = self.stopped() => return,
                () = self.host().sleep(EVERY) => {}
            }
        }
    }

    async fn look_at_walls(&self) {
        let others = self.others();
        let voters = others.len() + 1;
        let asked = others.into_iter().map(|(id, node)| async move {
            let began = self.host().now();
            match self.ask(id, &node, LeaderQuestion::Wall, WITHIN).await {
                // It was read in the middle, as far as anybody knows.
                Ok(LeaderAnswer::Wall(wall)) => Some((wall, began + self.host().now().since(began) / 2)),
                Ok(_other) => None,
                Err(_silent) => None,
            }
        });
        let answers = join_all(asked).await;
        let now = self.host().now();
        let heard = answers.into_iter().flatten().map(|(wall, at)| wall.plus(now.since(at)));
        let walls: Vec<WallMs> = heard.chain([self.host().wall()]).collect();
        if let Some(wall) = middle(walls, voters) {
            *self.shared.walls.lock() = Walls(Some((wall, now)));
        }
    }
}

/// The middle of so many clocks of `of`; the earlier of two; nothing of a minority.
fn middle(mut walls: Vec<WallMs>, of: usize) -> Option<WallMs> {
    walls.sort_unstable();
    (walls.len() * 2 > of).then(|| walls.get((walls.len() - 1) / 2).copied())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_majority_counts_and_the_earlier_of_two() {
        let at = |ms: &[u64]| ms.iter().copied().map(WallMs::from_millis).collect::<Vec<_>>();
        assert_eq!(middle(at(&[900, 10, 20]), 3), Some(WallMs::from_millis(20)));
        assert_eq!(middle(at(&[900, 10]), 3), Some(WallMs::from_millis(10)));
        assert_eq!(middle(at(&[900]), 3), None);
        assert_eq!(middle(at(&[7]), 1), Some(WallMs::from_millis(7)));
    }

    #[test]
    fn it_goes_on_with_the_monotonic_clock() {
        let then = Mono::ZERO + Duration::from_secs(1);
        let walls = Walls(Some((WallMs::from_millis(5_000), then)));
        let stepped = WallMs::from_millis(99_000_000);
        assert_eq!(walls.at(then + Duration::from_secs(2), stepped), WallMs::from_millis(7_000));
        assert_eq!(Walls::default().at(then, stepped), stepped);
    }
}
