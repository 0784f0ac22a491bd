//! The one function that local dispatch, a peer edge and central's relay all call.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use base::{Blame, Code, Elsewhere, Mono};
use bytes::Bytes;
use wire::call::{CallHead, Failure, Hop, Note, Tail};
use wire::ledger::Outcome;

use crate::call::{Answer, Attempt, Ended, Trial};
use crate::instance::Instance;
use crate::pool::{Place, Shared};
use crate::source::Limits;
use crate::spans::Trace;
use crate::{Egress, Exchange, Failed, Reply, ReplyBody};

/// What a call went through so far.
struct Tale<'a> {
    shared: &'a Shared,
    /// Where the call stands in its trace, if it is traced here.
    trace: Option<Trace>,
    tried: Vec<Arc<Instance>>,
    /// The attempt in progress.
    trying: Option<Trial>,
    hops: Vec<Hop>,
    /// What upstreams said to those.
    notes: Vec<Note>,
    /// The shortest wait that any upstream asked for.
    wait_ms: Option<u32>,
    reached: bool,
    last: Option<Box<Ended>>,
    /// Who hears of it when the caller leaves.
    left: Option<&'a mut Vec<Hop>>,
}

impl Egress {
    /// Has one of this node's upstreams answer `call`, whose `body` is in the upstream's dialect. Other instances are
    /// tried until an answer begins; dropping the exchange, or this future, cancels the upstream's work. The future
    /// dropped in the middle of an attempt puts what was tried by then into `left`.
    ///
    /// # Errors
    /// [`Failed`] when no answer began.
    pub async fn serve(&self, call: CallHead, body: Bytes, left: Option<&mut Vec<Hop>>) -> Exchange {
        let shared = &self.shared;
        let limits = Limits::new(&call.timeouts, shared.host.now());
        let attempt = Attempt { shared, call: &call, body: &body, limits };
        let mut tale = Tale::new(shared, &call, left);
        while tale.tried.len() < shared.options.attempts {
            let now = shared.host.now();
            if now >= limits.deadline {
                break;
            }
            let place = match shared.place(&call, &tale.tried, now) {
                Place::Full { .. } if call.place_ms > 0 => {
                    let until = now + Duration::from_millis(call.place_ms.into());
                    shared.wait_for_place(&call, &tale.tried, until.min(limits.deadline)).await
                }
                decided => decided,
            };
            let now = shared.host.now();
            let lease = match place {
                Place::Taken(lease) => lease,
                refused => return Err(tale.end(&refused)),
            };
            let trial = tale.begin(lease.instance(), now);
            let ended = match attempt.run(lease, trial).await {
                Ok(answer) => return Ok(self.reply(answer, tale.answered())),
                Err(ended) => ended,
            };
            let again = ended.verdict.elsewhere == Elsewhere::Yes;
            tale.note(ended);
            if !again {
                break;
            }
        }
        Err(tale.end(&Place::None))
    }

    fn reply(&self, answer: Answer, (hops, notes): (Vec<Hop>, Vec<Note>)) -> Reply {
        let Answer { status, headers, content, trial } = answer;
        let body = ReplyBody::local(&self.shared, status, content, trial, hops);
        Reply { status, headers, body, notes }
    }
}

impl<'a> Tale<'a> {
    fn new(shared: &'a Shared, call: &CallHead, left: Option<&'a mut Vec<Hop>>) -> Self {
        Self {
            shared,
            trace: Trace::of(&shared.options.tracer, call),
            tried: Vec::new(),
            trying: None,
            hops: Vec::new(),
            notes: Vec::new(),
            wait_ms: None,
            reached: false,
            last: None,
            left,
        }
    }

    fn begin(&mut self, instance: &Arc<Instance>, now: Mono) -> &mut Trial {
        self.tried.push(Arc::clone(instance));
        let trace = self.trace.as_ref().map(|trace| trace.nth(self.tried.len()));
        self.trying.insert(Trial::begin(instance.spec.name.clone(), now, trace))
    }

    fn note(&mut self, ended: Box<Ended>) {
        self.trying = None;
        let wait = ended.wait.map(|wait| u32::try_from(wait.as_millis()).unwrap_or(u32::MAX));
        self.wait_ms = [self.wait_ms, wait].into_iter().flatten().min();
        self.reached |= ended.reached;
        if ended.status.is_some() || !ended.said.is_empty() {
            let hop = u16::try_from(self.hops.len()).unwrap_or(u16::MAX);
            self.notes.push(Note { hop, status: ended.status, said: ended.said.to_string() });
        }
        self.tell(&ended.trial, ended.status, ended.verdict.code);
        self.last = Some(ended);
    }

    fn tell(&mut self, trial: &Trial, status: Option<u16>, code: Code) {
        let (options, now) = (&self.shared.options, self.shared.host.now());
        trial.finish(&options.tracer, status, Some(code), now);
        self.hops.push(trial.hop(&options.node, Err(code), now));
    }

    /// The answer's attempt is told by its body; here are those before it.
    fn answered(mut self) -> (Vec<Hop>, Vec<Note>) {
        self.trying = None;
        (mem::take(&mut self.hops), mem::take(&mut self.notes))
    }

    /// The failure: the last attempt's, or that there was no place for one.
    fn end(mut self, place: &Place) -> Box<Failed> {
        let failure = match self.last.take() {
            Some(ended) => told(*ended, self.wait_ms),
            None => refused(place, self.shared.host.now()),
        };
        let (code, hops) = (Some(failure.code), mem::take(&mut self.hops));
        let tail = Tail { outcome: Outcome::Failed, code, usage: None, reached_upstream: self.reached, hops };
        Box::new(Failed { failure, tail, notes: mem::take(&mut self.notes) })
    }
}

impl Drop for Tale<'_> {
    /// In the middle of an attempt: the caller left.
    fn drop(&mut self) {
        if let Some(trial) = self.trying.take() {
            self.tell(&trial, None, Code::CallerGone);
            if let Some(left) = self.left.take() {
                left.append(&mut self.hops);
            }
        }
    }
}

fn told(ended: Ended, retry_after_ms: Option<u32>) -> Failure {
    let Ended { verdict, message, status, body, .. } = ended;
    let shown = verdict.code.blame() == Blame::Caller && verdict.code != Code::ContextTooLong;
    let body = body.filter(|_body| shown).map(|body| body.to_vec());
    Failure {
        code: verdict.code,
        message: message.into_owned(),
        upstream_status: status,
        body,
        retry_after_ms,
    }
}

/// When to come back after calls that are in progress: when one ends, nobody knows.
const SOON_MS: u32 = 1_000;

fn refused(place: &Place, now: Mono) -> Failure {
    let wait_ms = |until: Mono| u32::try_from(until.since(now).as_millis()).unwrap_or(u32::MAX);
    let (code, message, wait) = match place {
        Place::Taken(_) | Place::None => {
            (Code::NoTarget, "no server of this model is configured at this node", None)
        }
        Place::Full { until } => {
            let wait = until.map_or(SOON_MS, wait_ms).max(SOON_MS);
            (Code::ModelOverloaded, "every server of the model is busy; try again shortly", Some(wait))
        }
        Place::Crowded { after } => {
            let wait = u32::try_from(after.as_millis()).unwrap_or(u32::MAX);
            (Code::QueueFull, "too many calls wait for this model already; try again later", Some(wait))
        }
        Place::Out(until) => (
            Code::NoTarget,
            "every server of the model failed a moment ago; try again shortly",
            Some(wait_ms(*until)),
        ),
    };
    Failure { code, message: message.to_owned(), upstream_status: None, body: None, retry_after_ms: wait }
}
