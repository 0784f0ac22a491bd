//! A caller, as an application is: asks the nearest edge that answers, one connection a call, streams or not, may hang
//! up at any moment, may ask again.

mod exchange;

use std::sync::Arc;
use std::time::Duration;

use seam::{Host, Stop};
use simulation_hooks::Random;

use super::Dns;
use crate::history::{Call, CallOutcome, Recorder};
use crate::scenario::{Crowd, Load};
use crate::schedule::CallerPlan;
use exchange::Request;

/// Before a call is asked again.
const BEFORE_RETRY: Duration = Duration::from_millis(250);

/// What callers have in common.
#[derive(Clone, Debug)]
pub struct CallerSetup {
    /// What they do.
    pub load: Load,
    /// Models they ask for.
    pub models: Vec<String>,
    /// Where they find edges.
    pub dns: Dns,
    /// Where what they saw goes.
    pub recorder: Recorder,
    /// Keys of the strict tenant and of the free one.
    pub keys: [&'static str; 2],
    /// Whether they are revoked.
    pub revoked: bool,
    /// Whether they are restricted at times.
    pub bound: bool,
    /// The crowd that they are of.
    pub crowd: Option<Arc<Crowd>>,
}

/// A caller on a host that it may share with others.
#[derive(Clone, Debug)]
pub struct Caller {
    host: Host,
    plan: CallerPlan,
    setup: CallerSetup,
    random: Random,
}

/// When a caller hangs up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HangUp {
    Never,
    /// So long after asking, unless the head is there.
    BeforeHead(Duration),
    /// After so many pieces of the body.
    Midway(u64),
}

impl CallerSetup {
    /// The same for callers of `crowd`.
    #[must_use]
    pub fn of(&self, crowd: &Crowd) -> Self {
        Self { load: crowd.load(&self.load), crowd: Some(Arc::new(crowd.clone())), ..self.clone() }
    }
}

impl Caller {
    /// A caller on `host` who draws from `random`.
    #[must_use]
    pub const fn new(host: Host, plan: CallerPlan, setup: CallerSetup, random: Random) -> Self {
        Self { host, plan, setup, random }
    }

    /// Calls until `stop`; the last call is let end.
    pub fn start(mut self, stop: Stop) -> seam::Task<()> {
        let host = self.host.clone();
        if self.plan.at_once > 0 {
            return host.spawn("burst", self.bursts(stop));
        }
        host.spawn("caller", async move {
            let first = self.setup.load.pause.draw(&mut self.random);
            self.host.sleep(first).await;
            while !stop.is_wanted() {
                self.call_until_answered().await;
                let pause = self.setup.load.pause.draw(&mut self.random);
                self.host.sleep(pause).await;
            }
        })
    }

    /// Asks once at the edge called `edge`, or at the nearest that answers, and gives the call as it ended.
    pub async fn call(&mut self, edge: Option<&str>, retry_of: Option<u64>) -> Call {
        let call = self.begin(retry_of);
        let edges = match edge {
            Some(edge) => vec![edge.to_owned()],
            None => self.setup.dns.edges(&self.plan.region, self.random.below(1 << 16)),
        };
        let most = self.setup.load.max_tokens.draw(&mut self.random).max(1);
        let hang_up = self.hang_up(call.stream);
        let [strict, free] = self.setup.keys;
        let key = if self.plan.strict { strict } else { free };
        let crowd = self.setup.crowd.as_ref();
        let key = crowd.map_or_else(|| key.to_owned(), |crowd| crowd.secret());
        let recorder = self.setup.recorder.clone();
        let tools = self.setup.load.tools && call.id.is_multiple_of(2);
        let request = Request { host: self.host.clone(), recorder, id: call.id, key, most, tools, hang_up };
        request.run(&call, &edges).await
    }

    /// Makes many calls at the same instant, every so often; they are let end.
    async fn bursts(mut self, stop: Stop) {
        let every = self.setup.load.burst_every;
        self.host.sleep(every.draw(&mut self.random)).await;
        while !stop.is_wanted() {
            let mut calls = Vec::new();
            for _call in 0..self.plan.at_once {
                let random = Random::new(self.random.draw());
                let mut caller = Self { random, ..self.clone() };
                let calling = async move { caller.call_until_answered().await };
                calls.push(self.host.spawn("caller", calling));
            }
            for call in calls {
                // A caller's machine never ends.
                let _gone = call.await;
            }
            self.host.sleep(every.draw(&mut self.random)).await;
        }
    }

    async fn call_until_answered(&mut self) {
        let mut call = self.call(None, None).await;
        for _again in 0..self.setup.load.retries {
            let worth_it = match call.outcome {
                CallOutcome::Unreachable | CallOutcome::Broken | CallOutcome::Failed => true,
                CallOutcome::Refused => call.status.is_some_and(|status| status == 429 || status >= 500),
                CallOutcome::Open
                | CallOutcome::Complete
                | CallOutcome::Short
                | CallOutcome::Foreign
                | CallOutcome::HungUp
                | CallOutcome::Late
                | CallOutcome::Abandoned => false,
            };
            if !worth_it {
                return;
            }
            self.host.sleep(BEFORE_RETRY).await;
            call = self.call(None, Some(call.id)).await;
        }
    }

    fn begin(&mut self, retry_of: Option<u64>) -> Call {
        let models = &self.setup.models;
        let at = usize::try_from(self.random.below(models.len() as u64)).unwrap_or(0);
        let model = models.get(at).cloned().unwrap_or_default();
        let stream = self.setup.load.streamed.draw(&mut self.random);
        let crowd = self.setup.crowd.clone();
        let batch = crowd.as_ref().is_some_and(|crowd| crowd.batch.draw(&mut self.random));
        let started = self.setup.recorder.now();
        self.setup.recorder.write(|history| {
            let call = Call {
                id: history.calls.len() as u64,
                retry_of,
                caller: self.plan.name.clone(),
                region: self.plan.region.clone(),
                strict: self.plan.strict,
                revoked: self.setup.revoked,
                bound: self.setup.bound,
                crowd: crowd.map(|crowd| crowd.tenant.clone()),
                batch,
                edge: String::new(),
                skipped: Vec::new(),
                model,
                stream,
                started,
                sent: None,
                head: None,
                first_byte: None,
                ended: None,
                outcome: CallOutcome::Open,
                status: None,
                code: None,
                request: None,
            };
            history.calls.push(call.clone());
            call
        })
    }

    fn hang_up(&mut self, stream: bool) -> HangUp {
        let hang_up = self.setup.load.hang_up;
        if hang_up.before_head.draw(&mut self.random) {
            let after = hang_up.after.map(|after| after.draw(&mut self.random));
            return HangUp::BeforeHead(
                after.unwrap_or_else(|| Duration::from_millis(self.random.below(200))),
            );
        }
        if stream && hang_up.midway.draw(&mut self.random) {
            return HangUp::Midway(1 + self.random.below(6));
        }
        HangUp::Never
    }
}
