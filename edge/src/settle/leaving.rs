//! The account of a call whose caller left: closed at once, or, when another node has the call and says in a moment how far
//! it came there, as soon as it has. Until then it keeps what it holds.

use std::mem;
use std::sync::Arc;

use base::Code;
use egress::Left;
use wire::ledger::Outcome;

use super::{Account, Open, ended};

impl Open {
    /// The caller left.
    pub(super) fn leave(mut self: Box<Self>) {
        let now = self.edge.host.now();
        let untold = ended(Outcome::CallerGone, Code::CallerGone, self.trying.is_some());
        match mem::replace(&mut self.left, Left::Untold) {
            Left::Told(tail) => self.close(tail, now),
            Left::Untold => self.close(untold, now),
            Left::Asked(asked) => {
                let edge = Arc::clone(&self.edge);
                let Some(place) = edge.left.enter() else { return self.close(untold, now) };
                // Dropped with its task, it is closed as one of which nobody said anything.
                let mut account = Account(Some(self));
                drop(edge.host.spawn("left", async move {
                    let tail = asked.heard().await.unwrap_or(untold);
                    if let Some(open) = account.0.take() {
                        open.close(tail, now);
                    }
                    drop(place);
                }));
            }
        }
    }
}
