//! How far a call came whose caller left before an answer began, so that nobody pays for what no upstream can have seen.

use std::time::Duration;

use base::Code;
use mesh::Receiver;
use seam::Host;
use wire::call::{Hop, Tail};
use wire::frame::Kind;
use wire::ledger::Outcome;

/// How long the other node has to say how far a call came: a round trip, and a pause of its process. Its caller's hold
/// waits for so long.
const WITHIN: Duration = Duration::from_secs(3);

/// How far a call came, for whoever drops its future.
#[derive(Debug)]
pub enum Left {
    /// So far, at this node.
    Told(Tail),
    /// The other node says in a moment.
    Asked(Box<Asked>),
    /// Nobody says: an upstream may have begun to work.
    Untold,
}

/// A call that was given up while another node had it. That node says how far it came; dropped, it is not listened to.
#[derive(Debug)]
pub struct Asked {
    host: Host,
    receiver: Receiver,
}

impl Left {
    /// No upstream can have seen anything of the call.
    #[must_use]
    pub const fn untouched() -> Self {
        Self::Told(gone(false, Vec::new()))
    }
}

impl Asked {
    pub(crate) const fn new(host: Host, receiver: Receiver) -> Self {
        Self { host, receiver }
    }

    /// What the other node says; `None` when it does not within [`WITHIN`], as one of an older release.
    pub async fn heard(mut self) -> Option<Tail> {
        let heard = self.host.timeout(WITHIN, tail(&mut self.receiver)).await;
        let Tail { usage, reached_upstream, hops, .. } = heard.ok()??;
        // It may have ended before it heard that its caller left.
        Some(Tail { usage, ..gone(reached_upstream, hops) })
    }
}

/// The tail of a call whose caller left.
pub(crate) const fn gone(reached_upstream: bool, hops: Vec<Hop>) -> Tail {
    let (outcome, code) = (Outcome::CallerGone, Some(Code::CallerGone));
    Tail { outcome, code, usage: None, reached_upstream, hops }
}

/// The last frame of a call; what comes before it is no longer wanted.
async fn tail(receiver: &mut Receiver) -> Option<Tail> {
    loop {
        let frame = receiver.recv().await.ok()??;
        if frame.kind == Kind::TAIL {
            return frame.decode().ok();
        }
    }
}
