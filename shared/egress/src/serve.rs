//! The one function that local dispatch, a peer edge and central's relay all call.

use std::sync::Arc;

use base::{Blame, Code, Elsewhere, Mono};
use bytes::Bytes;
use wire::call::{CallHead, Failure, Hop, Tail};
use wire::ledger::Outcome;

use crate::call::{Answer, Attempt, Ended};
use crate::instance::Instance;
use crate::pool::Place;
use crate::source::Limits;
use crate::{Egress, Exchange, Failed, Reply, ReplyBody};

/// What a call went through so far.
#[derive(Default)]
struct Tale {
    tried: Vec<Arc<Instance>>,
    hops: Vec<Hop>,
    /// The shortest wait that any upstream asked for.
    wait_ms: Option<u32>,
    reached: bool,
    last: Option<Box<Ended>>,
}

impl Egress {
    /// Has one of this node's upstreams answer `call`, whose `body` is in the upstream's dialect. Other instances are
    /// tried until an answer begins; dropping the exchange, or this future, cancels the upstream's work.
    ///
    /// # Errors
    /// [`Failed`] when no answer began.
    pub async fn serve(&self, call: CallHead, body: Bytes) -> Exchange {
        let shared = &self.shared;
        let limits = Limits::new(&call.timeouts, shared.host.now());
        let attempt = Attempt { shared, call: &call, body: &body, limits };
        let mut tale = Tale::default();
        while tale.tried.len() < shared.options.attempts {
            let now = shared.host.now();
            if now >= limits.deadline {
                break;
            }
            let lease = match shared.place(call.serve_at, &call.model, &tale.tried, now) {
                Place::Taken(lease) => lease,
                refused => return Err(tale.end(&refused, now)),
            };
            tale.tried.push(Arc::clone(lease.instance()));
            match attempt.run(lease).await {
                Ok(answer) => return Ok(self.reply(answer, tale.hops)),
                Err(ended) => {
                    let again = ended.verdict.elsewhere == Elsewhere::Yes;
                    let hop =
                        ended.trial.hop(&shared.options.node, Err(ended.verdict.code), shared.host.now());
                    tale.note(hop, ended);
                    if !again {
                        break;
                    }
                }
            }
        }
        Err(tale.end(&Place::None, shared.host.now()))
    }

    fn reply(&self, answer: Answer, hops: Vec<Hop>) -> Reply {
        let Answer { status, headers, content, trial } = answer;
        let body = ReplyBody::local(&self.shared, status, content, trial, hops);
        Reply { status, headers, body }
    }
}

impl Tale {
    fn note(&mut self, hop: Hop, ended: Box<Ended>) {
        let wait = ended.wait.map(|wait| u32::try_from(wait.as_millis()).unwrap_or(u32::MAX));
        self.wait_ms = [self.wait_ms, wait].into_iter().flatten().min();
        self.reached |= ended.reached;
        self.hops.push(hop);
        self.last = Some(ended);
    }

    /// The failure: the last attempt's, or that there was no place for one.
    fn end(self, place: &Place, now: Mono) -> Box<Failed> {
        let Self { hops, wait_ms, reached, last, .. } = self;
        let failure = match last {
            Some(ended) => told(*ended, wait_ms),
            None => refused(place, now),
        };
        let code = Some(failure.code);
        let tail = Tail { outcome: Outcome::Failed, code, usage: None, reached_upstream: reached, hops };
        Box::new(Failed { failure, tail })
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

fn refused(place: &Place, now: Mono) -> Failure {
    let (code, message, wait) = match place {
        Place::Taken(_) | Place::None => {
            (Code::NoTarget, "no server of this model is configured at this node", None)
        }
        Place::Full => {
            (Code::ModelOverloaded, "every server of the model is busy; try again shortly", Some(1000))
        }
        Place::Out(until) => {
            let wait = u32::try_from(until.since(now).as_millis()).unwrap_or(u32::MAX);
            (Code::NoTarget, "every server of the model failed a moment ago; try again shortly", Some(wait))
        }
    };
    Failure { code, message: message.to_owned(), upstream_status: None, body: None, retry_after_ms: wait }
}
