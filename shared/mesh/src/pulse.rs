//! Whether this node stood still for longer than a silent link lives.
//!
//! A process that is stopped, or whose machine has no time for it, keeps what arrives meanwhile in its socket. Its peers
//! give it up after [`IDLE_LIMIT`] and ask elsewhere, but no timer of a connection here says so: the packets that
//! waited are read first and pass for signs of life. Decided from the times at which the node looked at its own clock.

use std::sync::Arc;
use std::time::Duration;

use base::Mono;
use seam::{Bound, Host, Lock};

use crate::transport::IDLE_LIMIT;

/// Between two looks. A standstill is told from those that a link outlives to within this.
const BEAT: Duration = Duration::from_millis(250);

/// The node's looks at its clock. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Pulse {
    host: Host,
    looks: Arc<Lock<Looks>>,
}

#[derive(Debug)]
struct Looks {
    last: Mono,
    /// When the node last went on after it had stood still.
    woke: Option<Mono>,
}

impl Pulse {
    /// A pulse, which beats until the guard is dropped.
    pub(crate) fn start(host: &Host) -> (Self, Bound<()>) {
        let looks = Arc::new(Lock::new(Looks { last: host.now(), woke: None }));
        let pulse = Self { host: host.clone(), looks };
        let beating = pulse.clone();
        let beat = async move {
            loop {
                beating.host.sleep(BEAT).await;
                let _woke = beating.woke();
            }
        };
        let beat = host.spawn("mesh-pulse", beat).bound();
        (pulse, beat)
    }

    /// When the node last went on after it had stood still. Whoever asks first after that notices.
    pub(crate) fn woke(&self) -> Option<Mono> {
        let now = self.host.now();
        self.looks.lock().look(now)
    }
}

impl Looks {
    fn look(&mut self, now: Mono) -> Option<Mono> {
        if now.since(self.last) >= IDLE_LIMIT {
            self.woke = Some(now);
        }
        self.last = self.last.max(now);
        self.woke
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_did_not_look_for_as_long_as_a_silent_link_lives_stood_still() {
        let at = |ms: u64| Mono::from_nanos(ms * 1_000_000);
        let mut looks = Looks { last: at(0), woke: None };
        assert_eq!((looks.look(at(250)), looks.look(at(3_249))), (None, None));
        assert_eq!(looks.look(at(6_249)), Some(at(6_249)));
        assert_eq!(looks.look(at(6_500)), Some(at(6_249)), "it goes on");
    }
}
