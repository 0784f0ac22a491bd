//! Where a call goes, one attempt after another, until one answers: a replica of this region, a peer region's edge, or
//! central's relay.
//!
//! Nothing of an answer has reached the caller while this runs: an attempt that fails here is followed by the next
//! path or target at once (`edge_core::retry` says when not). Once it returns an answer, nothing is tried again.
//! Dropping it cancels the attempt in progress, at every hop.

mod begin;

use std::sync::Arc;
use std::time::Duration;

use base::{Code, Name};
use bytes::Bytes;
use edge_core::bound::Bound;
use edge_core::plan::{Attempt, Culprit, Link, Links, Path};
use edge_core::retry::{Again, Budget, Failed as Tried, IN_LINE, Next, Tries};
use egress::{Egress, Exchange, Failed};
use seam::{Host, Lock};
use wire::call::{CallHead, Failure, Tail};
use wire::ledger::Outcome;

use crate::convert::{self, Call, Outbound, Trying, Unsent};
use crate::passes::Limited;
use crate::rejection::{self, Rejection};
use crate::routing::{Route, View};
use crate::settle::Account;
pub(crate) use begin::{Begun, Rest};

/// What attempts are made with.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    host: Host,
    egress: Egress,
    links: mesh::Links,
    view: View,
    retries: Lock<Budget>,
}

impl Dispatcher {
    pub(crate) fn new(host: &Host, egress: Egress, links: mesh::Links, view: View) -> Self {
        let retries = Lock::new(Budget::new(host.now()));
        Self { host: host.clone(), egress, links, view, retries }
    }

    /// The links as last seen.
    pub(crate) fn links(&self) -> Arc<Links> {
        self.view.load()
    }

    /// Round trips of the links that stand.
    pub(crate) fn rtts(&self) -> Vec<(Name, Duration)> {
        self.links.rtts()
    }

    /// This region's model servers that are out after failures.
    pub(crate) fn instances_out(&self) -> u64 {
        self.egress.instances().iter().filter(|instance| !instance.serving).count() as u64
    }

    /// Whether this node's own upstreams serve a model.
    #[cfg(test)]
    pub(crate) fn serves_locally(&self, model: &base::ModelName) -> bool {
        self.egress.serves(wire::call::ServeAt::Replicas, model)
    }

    /// Whether a link to an edge of a region stands.
    #[cfg(test)]
    pub(crate) fn reaches(&self, region: &str) -> bool {
        let links = self.view.load();
        links.edges().iter().any(|link| link.region.as_str() == region && link.rtt.is_some())
    }

    /// Tries until something answers. What each attempt came to goes into the call's account.
    ///
    /// # Errors
    /// [`Rejection`]: the last failure, or that there was nothing to try.
    pub(crate) async fn dispatch(
        &self,
        call: &Call,
        route: &mut Route,
        account: &mut Account,
    ) -> Result<Begun, Rejection> {
        self.retries.lock().call();
        let mut tries = Tries::default();
        let mut next = route.next(&self.view.load()).map(|attempt| (attempt, Duration::ZERO));
        let (mut last, mut over, mut unfit) = (None, None, None);
        // The first target that had no place: the one to wait at.
        let mut full = None;
        while let Some((attempt, place)) = next {
            let bound = *route.bound(&attempt.candidate).ok_or_else(nothing_left)?;
            if let Err(limited) = account.enter(route, &attempt.candidate) {
                over = Some(limited);
                route.leave_out_models(&[attempt.candidate.index]);
                next = route.next(&self.view.load()).map(|attempt| (attempt, Duration::ZERO));
                continue;
            }
            let Outbound { head, body, losses, telling } =
                match self.outbound(account, call, (&attempt, &bound), place) {
                    Ok(outbound) => outbound,
                    Err(Unsent::TooLate) => return Err(too_late()),
                    Err(Unsent::Unfit(field)) => {
                        unfit.get_or_insert(field);
                        route.leave_out_speakers(attempt.candidate.model.dialect);
                        next = route.next(&self.view.load()).map(|attempt| (attempt, Duration::ZERO));
                        continue;
                    }
                };
            account.attempt(&attempt, bound, losses);
            let begun = match self.send(&attempt.path, (head, body), account).await {
                Ok(mut reply) => {
                    account.note(std::mem::take(&mut reply.notes));
                    account.keyed(reply.provider_key.take());
                    begin::begin(reply, call.stream(), telling.as_ref(), self.egress.answers()).await
                }
                Err(failed) => Err(failed),
            };
            let failed = match begun {
                Ok(begun) => {
                    if base::mutant!(AskedBehindAnswer)
                        && let Ok(again) = self.outbound(account, call, (&attempt, &bound), place)
                    {
                        self.ask_again(again);
                    }
                    return Ok(begun);
                }
                Err(failed) => failed,
            };
            account.failed(&failed);
            let mut failed = *failed;
            // Its body is in the target's API, and no error of the caller's.
            failed.failure.body.take_if(|_| telling.is_some());
            route.failed(&attempt, culprit(failed.failure.code));
            let again = self.again(&mut tries, &failed);
            last = Some(failed.failure);
            next = match again {
                None => None,
                Some(again) => {
                    if again == Some(Again::InLine) {
                        full.get_or_insert_with(|| attempt.clone());
                    }
                    match route.next(&self.view.load()) {
                        Some(other) => Some((other, Duration::ZERO)),
                        None => self.once_more(attempt, again, full.take(), &mut tries).await,
                    }
                }
            };
        }
        let over = over.map(|limited: Box<Limited>| rejection::over(&limited, self.host.now()));
        let unfit = unfit.map(Rejection::from);
        Err(last.map(Rejection::from).or(unfit).or(over).unwrap_or_else(nothing_left))
    }

    /// The planted fault: a timer for a second attempt that the first one's answer did not stop.
    fn ask_again(&self, outbound: Outbound) {
        let (host, egress) = (self.host.clone(), self.egress.clone());
        drop(self.host.spawn("asked-again", async move {
            host.sleep(Duration::from_millis(200)).await;
            drop(egress.serve(outbound.head, outbound.body, None).await);
        }));
    }

    fn outbound(
        &self,
        account: &Account,
        call: &Call,
        target: (&Attempt, &Bound),
        place: Duration,
    ) -> Result<Outbound, Unsent> {
        let open = account.view().ok_or(Unsent::TooLate)?;
        let number = open.attempts + 1;
        let elapsed = self.host.now().since(open.arrival.started);
        let attempt = Trying { number, trace: open.span_of(number), elapsed, place };
        convert::outbound(&open.arrival, &open.caller, call, target, attempt)
    }

    /// One attempt.
    async fn send(&self, path: &Path, (head, body): (CallHead, Bytes), account: &mut Account) -> Exchange {
        match path {
            Path::Local => self.egress.serve(head, body, account.left()).await,
            Path::Peer(link) | Path::Central(link) => self.forward(link, (head, body), account).await,
        }
    }

    async fn forward(&self, link: &Link, (head, body): (CallHead, Bytes), account: &mut Account) -> Exchange {
        let connection = match self.links.live(&link.node) {
            Some(connection) => connection,
            None => {
                let patience = Duration::from_millis(head.timeouts.connect_ms.into());
                let address = link.address();
                match self.host.timeout(patience, self.links.connect(&address)).await {
                    Ok(Ok(connection)) => connection,
                    Ok(Err(error)) => {
                        tracing::debug!(node = %link.node, %error, "a link does not stand");
                        return Err(unreachable());
                    }
                    Err(_late) => return Err(unreachable()),
                }
            }
        };
        account.linked(self.host.now());
        self.egress.forward(&connection, head, body, account.left()).await
    }

    /// Whether another attempt may follow: `None` if not, else how the same target may be tried again.
    fn again(&self, tries: &mut Tries, failed: &Failed) -> Option<Option<Again>> {
        let tried = Tried {
            code: failed.failure.code,
            reached_upstream: failed.tail.reached_upstream,
            retry_after: failed.failure.retry_after_ms.map(|ms| Duration::from_millis(ms.into())),
        };
        let now = self.host.now();
        match tries.after(&tried, now.as_nanos()) {
            Next::Stop => None,
            // A call that found no place has cost nobody anything.
            Next::Elsewhere { else_again: Some(Again::InLine) } => Some(Some(Again::InLine)),
            Next::Elsewhere { else_again } => self.retries.lock().take(now).then_some(else_again),
        }
    }

    /// There is no other target: the first that had no place for the call, where it now waits for one, or else the same
    /// again after the wait that may help.
    async fn once_more(
        &self,
        attempt: Attempt,
        again: Option<Again>,
        full: Option<Attempt>,
        tries: &mut Tries,
    ) -> Option<(Attempt, Duration)> {
        if let Some(full) = full {
            tries.wait_in_line();
            return Some((full, IN_LINE));
        }
        match again? {
            Again::After(wait) => self.host.sleep(wait).await,
            Again::InLine => {}
        }
        Some((attempt, Duration::ZERO))
    }
}

/// Whether a failure speaks against the node that was asked or against what serves the model there.
const fn culprit(code: Code) -> Culprit {
    match code {
        Code::MeshUnreachable | Code::Draining | Code::Overloaded | Code::ConfigStale => Culprit::Node,
        _of_the_upstream => Culprit::Upstream,
    }
}

fn nothing_left() -> Rejection {
    Rejection::new(
        Code::NoTarget,
        "No server of this model can be reached at the moment. Send the call again in a moment.",
    )
}

fn too_late() -> Rejection {
    Rejection::new(Code::DeadlineExceeded, "The call's time was over before a model answered.")
}

fn unreachable() -> Box<Failed> {
    let code = Code::MeshUnreachable;
    Box::new(Failed {
        failure: Failure {
            code,
            message: "The region that serves the model cannot be reached at the moment.".to_owned(),
            upstream_status: None,
            body: None,
            retry_after_ms: None,
        },
        tail: Tail {
            outcome: Outcome::Failed,
            code: Some(code),
            usage: None,
            reached_upstream: false,
            hops: Vec::new(),
        },
        notes: Vec::new(),
    })
}
