//! Calls that wait for a place while every instance of a model is full: first come, first served, never more than a
//! bound, and gone from the line when their caller is.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::Mono;
use tokio::sync::Notify;
use wire::call::CallHead;

use crate::instance::Instance;
use crate::pool::{Place, Shared};

/// The line before one model's instances.
#[derive(Debug, Default)]
pub(crate) struct Line {
    waiting: AtomicUsize,
    freed: Notify,
}

/// A place in the line. Dropping it leaves the line.
struct InLine<'a>(&'a Line);

impl Line {
    /// Whether nobody waits, so that a new call may take a free place at once.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }

    /// A place may be free.
    pub(crate) fn freed(&self) {
        if !self.is_empty() {
            self.freed.notify_one();
        }
    }

    fn join(&self, most: usize) -> Option<InLine<'_>> {
        let joined = self.waiting.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |waiting| {
            (waiting < most).then_some(waiting + 1)
        });
        joined.is_ok().then_some(InLine(self))
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    /// A place for `call` as soon as it is its turn, within `until`; refused at once when the line is full.
    pub(crate) async fn wait_for_place(
        &self,
        call: &CallHead,
        tried: &[Arc<Instance>],
        until: Mono,
    ) -> Place {
        let Some(line) = self.line(&call.model) else { return Place::None };
        let Some(_in_line) = line.join(self.options.most_waiting) else {
            return Place::Full { until: None };
        };
        let turn = async {
            loop {
                // Listens before it looks, so that no place freed in between is missed.
                let mut freed = pin!(line.freed.notified());
                freed.as_mut().enable();
                match self.place_in_turn(call, tried, self.host.now()) {
                    Place::Full { until } => {
                        let again = until.unwrap_or(Mono::FAR).since(self.host.now());
                        let _freed_or_again = self.host.timeout(again, freed).await;
                    }
                    decided => return decided,
                }
            }
        };
        self.host.timeout(until.since(self.host.now()), turn).await.unwrap_or(Place::Full { until: None })
    }
}
