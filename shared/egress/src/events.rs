//! An event stream from an upstream to its caller: whole events on, usage taken, failures kept out.

use std::collections::VecDeque;
use std::mem;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base::{Code, Mono, Usage};
use bytes::Bytes;
use dialect::openai::StreamFault;
use dialect::sse::Splitter;
use dialect::{Meter, Target};
use upstream::{Fault, Health, Verdict, of_fault, of_status};

use crate::source::Source;

/// How long the connection may take to end after the end mark; then it is not kept.
const END_WITHIN: Duration = Duration::from_millis(100);

/// A stream under way or ended.
#[derive(Debug)]
pub(crate) struct Events {
    /// Gone when the stream has ended.
    source: Option<Source>,
    splitter: Splitter,
    meter: Meter,
    /// Whole events not handed on yet, all from one read.
    out: VecDeque<Bytes>,
    failed: Option<Verdict>,
    first_byte: Option<Mono>,
}

impl Events {
    pub(crate) fn new(source: Source, target: Target, hide_usage: bool, max_event: usize) -> Self {
        Self {
            source: Some(source),
            splitter: Splitter::new(max_event),
            meter: Meter::new(target, hide_usage),
            out: VecDeque::new(),
            failed: None,
            first_byte: None,
        }
    }

    /// Reads until the answer begins, so that a failure before is one that another instance may mend. Comments until
    /// then say nothing and are dropped.
    ///
    /// # Errors
    /// Why it does not begin.
    pub(crate) fn poll_started(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Verdict>> {
        loop {
            if let Some(verdict) = self.failed.take() {
                return Poll::Ready(Err(verdict));
            }
            if self.meter.started() {
                if let Some(source) = &self.source {
                    source.lease.answered(source.now());
                }
                return Poll::Ready(Ok(()));
            }
            if self.source.is_none() {
                return Poll::Ready(Err(of_fault(Fault::Empty)));
            }
            self.out.clear();
            ready!(self.poll_read(cx));
        }
    }

    /// The next whole events; `None` at the end, good or not.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(events) = self.out.pop_front() {
                return Poll::Ready(Some(events));
            }
            if self.source.is_none() {
                return Poll::Ready(None);
            }
            ready!(self.poll_read(cx));
        }
    }

    /// When the first bytes came.
    pub(crate) const fn first_byte(&self) -> Option<Mono> {
        self.first_byte
    }

    /// What was reported so far.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.meter.usage()
    }

    /// Whether the answer is whole.
    pub(crate) fn complete(&self) -> bool {
        self.meter.complete() && self.failed.is_none()
    }

    /// Whether it ended, and why when not well.
    pub(crate) fn ended(&self) -> Option<Result<(), Code>> {
        match self.failed {
            Some(verdict) => Some(Err(verdict.code)),
            None => self.source.is_none().then_some(Ok(())),
        }
    }

    /// What the upstream said when it sent an error as an event.
    pub(crate) fn said(&self) -> Option<&str> {
        match self.meter.fault() {
            Some(StreamFault::Error(error)) => Some(&error.message),
            Some(StreamFault::Malformed | StreamFault::Cut) | None => None,
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(source) = &mut self.source else { return Poll::Ready(()) };
        let read = ready!(source.poll(cx));
        self.first_byte = source.first_byte();
        match read {
            Ok(Some(read)) => self.take(&read),
            Ok(None) => self.close(true),
            // What breaks after the answer is whole breaks nothing.
            Err(_late) if self.meter.complete() => self.close(false),
            Err(Fault::Cut) if !self.meter.started() => self.fail(of_fault(Fault::Closed)),
            Err(fault) => self.fail(of_fault(fault)),
        }
        Poll::Ready(())
    }

    fn take(&mut self, read: &Bytes) {
        let Self { splitter, meter, out, .. } = self;
        let was_done = meter.done();
        let taken = splitter.push(read, |event| meter.judge(event), |events| out.push_back(events));
        if let Some(verdict) = self.meter.fault().map(judge) {
            self.fail(verdict);
        } else if taken.is_err() {
            self.fail(of_fault(Fault::Malformed));
        } else if self.meter.done()
            && !was_done
            && let Some(source) = &mut self.source
        {
            source.hurry(END_WITHIN);
        }
    }

    fn close(&mut self, in_order: bool) {
        let rest = mem::replace(&mut self.splitter, Splitter::new(0)).rest();
        self.out.extend(self.meter.close(&rest));
        if let Some(verdict) = self.meter.fault().map(judge) {
            return self.fail(verdict);
        }
        if !self.meter.complete() {
            return self.fail(of_fault(if self.meter.started() { Fault::Cut } else { Fault::Empty }));
        }
        if let Some(mut source) = self.source.take() {
            source.lease.judge(Health::Good);
            source.lease.settle(self.meter.usage());
            if in_order {
                source.finish();
            }
        }
    }

    fn fail(&mut self, verdict: Verdict) {
        if let Some(mut source) = self.source.take() {
            source.lease.judge(verdict.health);
            source.lease.settle(self.meter.usage());
        }
        self.failed = Some(verdict);
    }
}

/// What an error sent as an event means: as if it had come as a status, 500 when it names none.
fn judge(fault: &StreamFault) -> Verdict {
    match fault {
        StreamFault::Malformed => of_fault(Fault::Malformed),
        StreamFault::Cut => of_fault(Fault::Cut),
        StreamFault::Error(error) => of_status(error.status.unwrap_or(500), error.meaning(), None)
            .unwrap_or_else(|| of_fault(Fault::Malformed)),
    }
}
