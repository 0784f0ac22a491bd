//! One attempt at one instance: a connection, a request, and what came of it.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use base::{Blame, Code, Elsewhere, Mono, Name, Usage};
use bytes::Bytes;
use dialect::Target;
use dialect::openai::{BadReply, UpstreamError};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use http::{HeaderValue, Response};
use hyper::body::Incoming;
use telemetry::redact::redact;
use telemetry::trace::{Context, Tracer};
use upstream::{Fault, Health, Verdict, of_fault, of_status, retry_after};
use wire::call::{CallHead, Hop};
use wire::catalog::Operation;

use crate::connection::Connection;
use crate::events::Events;
use crate::instance::Lease;
use crate::pool::Shared;
use crate::source::{Limits, Opened, Source, Timer};
use crate::spans::Trace;
use crate::words::{explain, words};
use crate::{Full, Room, headers, request, target_of};

/// Longest error body that is read, in bytes; callers get no more either.
const MAX_ERROR: usize = 64 * 1024;

/// Most characters of an upstream's words that records hold.
const MAX_SAID: usize = 300;

/// When room for answers comes back, nobody knows.
const SOON_MS: u32 = 1_000;

const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";

/// An attempt to be made.
pub(crate) struct Attempt<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) call: &'a CallHead,
    pub(crate) body: &'a Bytes,
    pub(crate) limits: Limits,
}

/// When an attempt reached what.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    upstream: Name,
    /// The key that it is made with.
    pub(crate) key: Option<Name>,
    begun: Mono,
    connected: Option<Mono>,
    pub(crate) first_byte: Option<Mono>,
    /// If it is traced.
    trace: Option<Trace>,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) content: Content,
    pub(crate) trial: Trial,
}

/// An answer's body.
pub(crate) enum Content {
    Events(Box<Events>),
    Whole(Bytes, Option<Usage>),
}

/// An attempt without an answer.
pub(crate) struct Ended {
    pub(crate) verdict: Verdict,
    pub(crate) message: Cow<'static, str>,
    pub(crate) status: Option<u16>,
    /// The upstream's words, for operators.
    pub(crate) said: Box<str>,
    pub(crate) body: Option<Bytes>,
    /// For how long the upstream asked to be left alone, in milliseconds.
    pub(crate) wait_ms: Option<u32>,
    pub(crate) trial: Trial,
    /// Whether the upstream may have begun to work.
    pub(crate) reached: bool,
}

/// The same, before it is known how far the attempt came.
struct Miss {
    verdict: Verdict,
    message: Cow<'static, str>,
    status: Option<u16>,
    said: Box<str>,
    body: Option<Bytes>,
    wait_ms: Option<u32>,
}

impl Trial {
    pub(crate) fn begin(lease: &Lease, now: Mono, trace: Option<Trace>) -> Self {
        let (upstream, key) = (lease.instance().spec.name.clone(), lease.key().cloned());
        Self { upstream, key, begun: now, connected: None, first_byte: None, trace }
    }

    /// Whether the upstream may have begun to work.
    pub(crate) const fn reached(&self) -> bool {
        self.connected.is_some()
    }

    fn span(&self) -> Option<Context> {
        self.trace.as_ref().map(Trace::context)
    }

    /// The attempt is over: its span, if it is traced, is handed over.
    pub(crate) fn finish(&self, tracer: &Tracer, status: Option<u16>, error: Option<Code>, now: Mono) {
        if let Some(trace) = &self.trace {
            trace.finish(tracer, &self.upstream, (self.begun, now), (status, error));
        }
    }

    /// The attempt in the call's tale.
    pub(crate) fn hop(&self, node: &Name, result: Result<u16, Code>, now: Mono) -> Hop {
        let us = |at: Mono| u32::try_from(at.since(self.begun).as_micros()).unwrap_or(u32::MAX);
        Hop {
            node: node.clone(),
            upstream: self.upstream.clone(),
            key: self.key.clone(),
            result,
            connected_us: us(self.connected.unwrap_or(now)),
            first_byte_us: self.first_byte.map(us),
            total_us: us(now),
        }
    }
}

impl Miss {
    /// Nothing was handed on yet: what broke off may be had elsewhere.
    fn fault(fault: Fault) -> Self {
        let fault = if fault == Fault::Cut { Fault::Closed } else { fault };
        Self {
            verdict: of_fault(fault),
            message: words(fault).into(),
            status: None,
            said: Box::default(),
            body: None,
            wait_ms: None,
        }
    }

    /// This node holds as many answers as it can. The upstream did its work: asked again, it would do it twice.
    fn no_room(_full: Full) -> Self {
        let verdict = Verdict { code: Code::Overloaded, health: Health::Unknown, elsewhere: Elsewhere::No };
        let message = "this node holds as many answers as it can; try again shortly".into();
        Self { verdict, message, status: None, said: Box::default(), body: None, wait_ms: Some(SOON_MS) }
    }
}

impl Attempt<'_> {
    /// Makes the attempt; what it reached stands in `trial` at any moment.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) async fn run(&self, lease: Lease, trial: &mut Trial) -> Result<Answer, Box<Ended>> {
        let exchanged = self.exchange(lease, trial).await;
        let trial = trial.clone();
        match exchanged {
            Ok((status, headers, content)) => Ok(Answer { status, headers, content, trial }),
            Err(Miss { verdict, message, status, said, body, wait_ms }) => {
                let reached = trial.reached();
                Err(Box::new(Ended { verdict, message, status, said, body, wait_ms, trial, reached }))
            }
        }
    }

    async fn exchange(&self, mut lease: Lease, trial: &mut Trial) -> Result<(u16, HeaderMap, Content), Miss> {
        let mut timer = Timer::new(self.shared.host.clone());
        let sent = self.send(&lease, &mut timer, trial).await;
        let (response, connection) = match sent {
            Ok(sent) => sent,
            Err(fault) => {
                let miss = Miss::fault(fault);
                lease.judge(miss.verdict.health);
                if trial.connected.is_none() {
                    lease.settle(Some(Usage::default()));
                }
                return Err(miss);
            }
        };
        let (parts, incoming) = response.into_parts();
        lease.learn(&parts.headers);
        // One limit covers the head and what follows it: a head alone is no answer.
        let sent = trial.connected.unwrap_or_else(|| self.now());
        let (limits, keeping) = (self.limits, self.shared.keeping);
        let source = Source::new(Opened { connection, incoming, lease, timer, limits, keeping, sent });
        let status = parts.status.as_u16();
        if !parts.status.is_success() {
            return Err(self.refusal(source, status, &parts.headers).await);
        }
        let mut headers = parts.headers;
        let content = self.content(source, &headers, trial).await?;
        headers::for_caller(&mut headers);
        if let (Content::Whole(..), true) = (&content, self.call.stream) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
        } else if !self.call.stream && starts_with(headers.get(CONTENT_TYPE), EVENT_STREAM) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        }
        Ok((status, headers, content))
    }

    /// Sends the request and waits for the answer's head. A kept connection that turns out to be closed is replaced by
    /// a new one: its peer closed it before it saw the request.
    async fn send(
        &self,
        lease: &Lease,
        timer: &mut Timer,
        trial: &mut Trial,
    ) -> Result<(Response<Incoming>, Connection), Fault> {
        let instance = lease.instance();
        let mut kept = instance.reuse(self.now(), self.shared.keeping);
        loop {
            let reused = kept.is_some();
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => self.dial(lease).await?,
            };
            let now = self.now();
            trial.connected = Some(now);
            let request = request::build(
                (&instance.spec, lease.credential()),
                self.call,
                self.body,
                connection.is_shared(),
                trial.span(),
            );
            let request = request.ok_or(Fault::Malformed)?;
            let due = (now + self.limits.first_byte).min(self.limits.deadline);
            let answer = {
                let mut answer = pin!(connection.send(request));
                poll_fn(|cx| match answer.as_mut().poll(cx) {
                    Poll::Ready(answer) => Poll::Ready(Ok(answer)),
                    Poll::Pending => timer.poll_past(due, cx).map(Err),
                })
                .await
            };
            match answer {
                Ok(Ok(response)) => return Ok((response, connection)),
                Ok(Err(gone)) if gone.closed && reused => {}
                Ok(Err(gone)) => return Err(gone.fault),
                Err(()) if due == self.limits.deadline => return Err(Fault::Deadline),
                Err(()) => return Err(Fault::FirstByte),
            }
        }
    }

    async fn dial(&self, lease: &Lease) -> Result<Connection, Fault> {
        let left = self.limits.deadline.since(self.now());
        let limit = self.limits.connect.min(left);
        let tls = self.shared.options.tls.as_ref();
        let connection = lease.instance().dial(&self.shared.host, tls, limit).await?;
        lease.instance().offer_shared(&connection);
        Ok(connection)
    }

    /// Reads an answer that came as a success, as far as it takes to know that it is one.
    async fn content(&self, source: Source, headers: &HeaderMap, trial: &mut Trial) -> Result<Content, Miss> {
        let plain = headers.get(CONTENT_ENCODING).is_none_or(|value| value == "identity");
        if !plain {
            let mut source = source;
            source.lease.judge(Health::Failed);
            return Err(Miss::fault(Fault::Malformed));
        }
        let streams = starts_with(headers.get(CONTENT_TYPE), EVENT_STREAM);
        if streams && self.call.stream {
            self.events(source, trial).await
        } else {
            self.whole(source, trial).await
        }
    }

    async fn events(&self, source: Source, trial: &mut Trial) -> Result<Content, Miss> {
        let max = self.shared.options.max_event;
        let mut events = Box::new(Events::new(source, self.target(), self.call.hide_usage, max));
        let started = poll_fn(|cx| events.poll_started(cx)).await;
        trial.first_byte = events.first_byte();
        match started {
            Ok(()) => Ok(Content::Events(events)),
            Err(verdict) => {
                let said = events.said().unwrap_or_default().to_owned();
                Err(Miss {
                    verdict,
                    said: shown(&said),
                    message: explain(verdict.code, said),
                    status: None,
                    body: None,
                    wait_ms: None,
                })
            }
        }
    }

    async fn whole(&self, mut source: Source, trial: &mut Trial) -> Result<Content, Miss> {
        let options = &self.shared.options;
        let read = read_all(&mut source, options.max_reply, &options.answers).await;
        trial.first_byte = source.first_byte();
        let judged = read.and_then(|body| self.judge(body));
        match judged {
            Ok((body, usage)) => {
                source.lease.judge(Health::Good);
                source.lease.settle(usage);
                source.finish();
                Ok(Content::Whole(body, usage))
            }
            Err(miss) => {
                source.lease.judge(miss.verdict.health);
                Err(miss)
            }
        }
    }

    /// Whether the body is an answer. One of the other kind than was asked for is made into that kind.
    fn judge(&self, body: Bytes) -> Result<(Bytes, Option<Usage>), Miss> {
        let target = self.target();
        let whole = if self.call.operation == Operation::Chat && target.is_stream(&body) {
            target.whole_of_stream(&body).map_err(|bad| self.bad(bad, &body))?
        } else {
            body
        };
        let (whole, usage) = self.check(whole)?;
        if !self.call.stream {
            return Ok((whole, usage));
        }
        let stream = target.stream_of_whole(&whole, !self.call.hide_usage);
        Ok((stream.ok_or_else(|| Miss::fault(Fault::Malformed))?, usage))
    }

    const fn target(&self) -> Target {
        target_of(self.call.dialect)
    }

    fn check(&self, body: Bytes) -> Result<(Bytes, Option<Usage>), Miss> {
        let checked = match self.call.operation {
            Operation::Chat => self.target().check_answer(&body),
            Operation::Embeddings => self.target().check_embeddings(&body),
        };
        match checked {
            Ok(usage) => Ok((body, usage)),
            Err(bad) => Err(self.bad(bad, &body)),
        }
    }

    /// A success that holds no answer.
    fn bad(&self, bad: BadReply, body: &[u8]) -> Miss {
        let error = match bad {
            BadReply::Malformed => return Miss::fault(Fault::Malformed),
            BadReply::Empty => return Miss::fault(Fault::Empty),
            BadReply::Error(error) => error,
        };
        let wait = self.target().retry_after(body);
        let verdict = of_status(error.status.unwrap_or(500), error.meaning(), wait)
            .unwrap_or_else(|| of_fault(Fault::Malformed));
        let said = shown(&error.message);
        let message = explain(verdict.code, error.message);
        Miss { verdict, message, status: Some(200), said, body: None, wait_ms: wait.map(wait_ms) }
    }

    /// Reads an answer that came as a failure.
    async fn refusal(&self, mut source: Source, status: u16, headers: &HeaderMap) -> Miss {
        let read = read_all(&mut source, MAX_ERROR, &self.shared.options.answers).await;
        let (said, target) = (read.as_ref().ok(), self.target());
        let error = said.and_then(|body| target.upstream_error(body));
        let wait = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let wait = wait.and_then(|value| retry_after(value, self.shared.host.wall()));
        let wait = wait.or_else(|| said.and_then(|body| target.retry_after(body)));
        let meaning = error.as_ref().and_then(UpstreamError::meaning);
        let verdict = of_status(status, meaning, wait).unwrap_or_else(|| of_fault(Fault::Malformed));
        source.lease.judge(verdict.health);
        source.lease.settle(Some(Usage::default()));
        let theirs = error.is_some() && verdict.code.blame() == Blame::Caller;
        let words = error.map(|error| error.message).unwrap_or_default();
        let said = shown(&words);
        let message = explain(verdict.code, words);
        let body = read.ok();
        if body.is_some() {
            source.finish();
        }
        let wait_ms = wait.map(wait_ms);
        Miss { verdict, message, status: Some(status), said, body: body.filter(|_body| theirs), wait_ms }
    }

    fn now(&self) -> Mono {
        self.shared.host.now()
    }
}

fn wait_ms(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis()).unwrap_or(u32::MAX)
}

/// An upstream's words as operators may see them.
fn shown(words: &str) -> Box<str> {
    redact(words, MAX_SAID).into()
}

async fn read_all(source: &mut Source, max: usize, room: &Room) -> Result<Bytes, Miss> {
    let mut all = room.gather();
    while let Some(piece) = poll_fn(|cx| source.poll(cx)).await.map_err(Miss::fault)? {
        if all.len().saturating_add(piece.len()) > max {
            return Err(Miss::fault(Fault::Malformed));
        }
        all.push(piece).map_err(Miss::no_room)?;
    }
    Ok(all.finish())
}

fn starts_with(value: Option<&HeaderValue>, kind: &str) -> bool {
    let value = value.map(HeaderValue::as_bytes).unwrap_or_default();
    value.get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind.as_bytes()))
}
