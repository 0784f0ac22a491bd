//! The one function that local dispatch, a peer edge and central's relay all call.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use base::{Blame, Code, Elsewhere, Mono};
use bytes::Bytes;
use upstream::{Barred, Barrier};
use wire::call::{CallHead, Failure, Hop, Note, Tail};
use wire::ledger::Outcome;

use crate::call::{Answer, Attempt, Ended, Trial};
use crate::instance::{Instance, Lease};
use crate::left::{Left, gone};
use crate::places::Tried;
use crate::pool::{Place, Shared};
use crate::source::Limits;
use crate::spans::Trace;
use crate::{Egress, Exchange, Failed, Reply, ReplyBody};

/// What a call went through so far.
struct Tale<'a> {
    shared: &'a Shared,
    /// Where the call stands in its trace, if it is traced here.
    trace: Option<Trace>,
    tried: Tried,
    /// The attempt in progress.
    trying: Option<Trial>,
    hops: Vec<Hop>,
    /// What upstreams said to those.
    notes: Vec<Note>,
    /// The shortest wait that any upstream asked for.
    wait_ms: Option<u32>,
    reached: bool,
    last: Option<Box<Ended>>,
    /// Who hears of it when the caller leaves, until the exchange is decided.
    left: Option<&'a mut Left>,
}

impl Egress {
    /// Has one of this node's upstreams answer `call`, whose `body` is in the upstream's dialect. Other instances are
    /// tried until an answer begins; dropping the exchange, or this future, cancels the upstream's work. The future
    /// dropped puts into `left` how far it came.
    ///
    /// # Errors
    /// [`Failed`] when no answer began.
    pub async fn serve(&self, call: CallHead, body: Bytes, left: Option<&mut Left>) -> Exchange {
        let shared = &self.shared;
        let limits = Limits::new(&call.timeouts, shared.host.now());
        let attempt = Attempt { shared, call: &call, body: &body, limits };
        let mut tale = Tale::new(shared, &call, left);
        while tale.tried.instances.len() < shared.options.attempts {
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
            let (instance, trial) = (Arc::clone(lease.instance()), tale.begin(&lease, now));
            let ended = match attempt.run(lease, trial).await {
                Ok(answer) => return Ok(self.reply(answer, tale.answered())),
                Err(ended) => ended,
            };
            let again = ended.verdict.elsewhere == Elsewhere::Yes;
            tale.failed_at(instance, &ended);
            tale.note(ended);
            if !again {
                break;
            }
        }
        Err(tale.end(&Place::None))
    }

    fn reply(&self, answer: Answer, (hops, notes): (Vec<Hop>, Vec<Note>)) -> Reply {
        let Answer { status, headers, content, trial } = answer;
        let provider_key = trial.key.clone();
        let body = ReplyBody::local(&self.shared, status, content, trial, hops);
        Reply { status, headers, body, provider_key, notes }
    }
}

impl<'a> Tale<'a> {
    fn new(shared: &'a Shared, call: &CallHead, left: Option<&'a mut Left>) -> Self {
        Self {
            shared,
            trace: Trace::of(&shared.options.tracer, call),
            tried: Tried::default(),
            trying: None,
            hops: Vec::new(),
            notes: Vec::new(),
            wait_ms: None,
            reached: false,
            last: None,
            left,
        }
    }

    fn begin(&mut self, lease: &Lease, now: Mono) -> &mut Trial {
        let trace = self.trace.as_ref().map(|trace| trace.nth(self.hops.len() + 1));
        self.trying.insert(Trial::begin(lease, now, trace))
    }

    /// What is not tried again: the key, where the failure was the key's, so that another one may do; else the instance.
    fn failed_at(&mut self, instance: Arc<Instance>, ended: &Ended) {
        match &ended.trial.key {
            Some(key) if ended.verdict.health.is_of_key() => {
                let upstream = instance.spec.name.clone();
                self.tried.keys.entry(upstream).or_default().push(key.clone());
            }
            Some(_) | None => self.tried.instances.push(instance),
        }
    }

    fn note(&mut self, ended: Box<Ended>) {
        self.trying = None;
        self.wait_ms = [self.wait_ms, ended.wait_ms].into_iter().flatten().min();
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

    /// Whoever leaves from now on leaves an exchange.
    fn decided(&mut self) {
        self.trying = None;
        if let Some(left) = self.left.take() {
            *left = Left::Untold;
        }
    }

    /// The answer's attempt is told by its body; here are those before it.
    fn answered(mut self) -> (Vec<Hop>, Vec<Note>) {
        self.decided();
        (mem::take(&mut self.hops), mem::take(&mut self.notes))
    }

    /// The failure: the last attempt's, or that there was no place for one.
    fn end(mut self, place: &Place) -> Box<Failed> {
        self.decided();
        let now = self.shared.host.now();
        let failure = match (self.last.take(), place) {
            // The key that is back first tells more than the one that was tried last.
            (Some(ended), Place::Barred(barred)) if ended.verdict.health.is_of_key() => {
                let first = refused(place, now);
                let same = first.code == ended.verdict.code;
                let wait = Some(wait_ms(barred.until, now));
                if same { told(*ended, wait) } else { Failure { upstream_status: ended.status, ..first } }
            }
            (Some(ended), _) => told(*ended, self.wait_ms),
            (None, place) => refused(place, now),
        };
        let (code, hops) = (Some(failure.code), mem::take(&mut self.hops));
        let tail = Tail { outcome: Outcome::Failed, code, usage: None, reached_upstream: self.reached, hops };
        Box::new(Failed { failure, tail, notes: mem::take(&mut self.notes) })
    }
}

impl Drop for Tale<'_> {
    /// Undecided, in the middle of an attempt or in line for a place: the caller left.
    fn drop(&mut self) {
        if let Some(trial) = self.trying.take() {
            self.reached |= trial.reached();
            self.tell(&trial, None, Code::CallerGone);
        }
        if let Some(left) = self.left.take() {
            *left = Left::Told(gone(self.reached, mem::take(&mut self.hops)));
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

fn wait_ms(until: Mono, now: Mono) -> u32 {
    // A part of a millisecond is one: the call would come too early else.
    u32::try_from(until.since(now).as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX)
}

fn refused(place: &Place, now: Mono) -> Failure {
    let (code, message, wait) = match place {
        Place::Taken(_) | Place::None => {
            (Code::NoTarget, "no server of this model is configured at this node", None)
        }
        Place::Full { until } => {
            let wait = until.map_or(SOON_MS, |until| wait_ms(until, now)).max(SOON_MS);
            (Code::ModelOverloaded, "every server of the model is busy; try again shortly", Some(wait))
        }
        Place::Crowded { after } => {
            let wait = u32::try_from(after.as_millis()).unwrap_or(u32::MAX);
            (Code::QueueFull, "too many calls wait for this model already; try again later", Some(wait))
        }
        Place::Out(until) => (
            Code::NoTarget,
            "every server of the model failed a moment ago; try again shortly",
            Some(wait_ms(*until, now)),
        ),
        Place::Barred(Barred { until, why: Barrier::Paced }) => (
            Code::UpstreamRateLimited,
            "the model's provider limits every key that the gateway has for it; try again later",
            Some(wait_ms(*until, now)),
        ),
        Place::Barred(Barred { until, why: Barrier::Suspended }) => (
            Code::UpstreamAuth,
            "the model's provider refuses every key that the gateway has for it; its operator must look",
            Some(wait_ms(*until, now)),
        ),
    };
    Failure { code, message: message.to_owned(), upstream_status: None, body: None, retry_after_ms: wait }
}
