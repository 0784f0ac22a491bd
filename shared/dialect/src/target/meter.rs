//! Follows a target's stream: what each event is, what the whole used, and whether it ended well.

use base::Usage;
use bytes::Bytes;

use super::{Reader, Target};
use crate::canon::{self, Event};
use crate::openai::{self, StreamFault};
use crate::sse::{Data, Judged, read_event};

/// The event that ends Anthropic's streams, where a server left it out.
const MESSAGE_STOP: &[u8] = b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

/// The end mark of chat completions, with which some servers end every stream.
const DONE: &[u8] = b"[DONE]";

/// Follows one stream.
#[derive(Debug)]
pub struct Meter(Kind);

#[derive(Debug)]
enum Kind {
    /// Most chat chunks are never parsed.
    Openai(openai::Meter),
    /// Others are read.
    Other(Box<Read>),
}

#[derive(Debug)]
struct Read {
    reader: Reader,
    /// Of the event that is read; kept for its room.
    events: Vec<Event>,
    usage: Option<canon::Usage>,
    started: bool,
    done: bool,
    fault: Option<StreamFault>,
}

impl Meter {
    /// A meter for one stream; `hide_usage` when the caller did not ask for usage and we did, where it is asked for.
    #[must_use]
    pub fn new(target: Target, hide_usage: bool) -> Self {
        Self(match target {
            Target::Openai => Kind::Openai(openai::Meter::new(hide_usage)),
            Target::Anthropic | Target::Gemini => Kind::Other(Box::new(Read::of(target))),
        })
    }

    /// What the upstream reported so far; the latest report counts.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        match &self.0 {
            Kind::Openai(meter) => meter.usage(),
            Kind::Other(read) => read.usage.map(|usage| usage.as_billed()),
        }
    }

    /// Whether an event with a payload came; comments and pings are none.
    #[must_use]
    pub fn started(&self) -> bool {
        match &self.0 {
            Kind::Openai(meter) => meter.started(),
            Kind::Other(read) => read.started,
        }
    }

    /// Whether the answer is whole: it said why it ended, or the end mark came. Nothing else proves it.
    #[must_use]
    pub fn complete(&self) -> bool {
        match &self.0 {
            Kind::Openai(meter) => meter.complete(),
            Kind::Other(read) => read.reader.is_whole(),
        }
    }

    /// Whether the end mark came.
    #[must_use]
    pub fn done(&self) -> bool {
        match &self.0 {
            Kind::Openai(meter) => meter.done(),
            Kind::Other(read) => read.done,
        }
    }

    /// Why the stream was stopped.
    #[must_use]
    pub fn fault(&self) -> Option<&StreamFault> {
        match &self.0 {
            Kind::Openai(meter) => meter.fault(),
            Kind::Other(read) => read.fault.as_ref(),
        }
    }

    /// Looks at one whole event.
    pub fn judge(&mut self, event: &[u8]) -> Judged {
        match &mut self.0 {
            Kind::Openai(meter) => meter.judge(event),
            Kind::Other(read) => read.judge(event),
        }
    }

    /// Looks at what was left when the stream ended: the last event may lack its blank line. Gives what the caller still
    /// gets: that event, and the end mark where the upstream left it out.
    pub fn close(&mut self, rest: &[u8]) -> Option<Bytes> {
        match &mut self.0 {
            Kind::Openai(meter) => meter.close(rest),
            Kind::Other(read) => read.close(rest),
        }
    }
}

impl Read {
    fn of(target: Target) -> Self {
        let (reader, events) = (Reader::of(target), Vec::new());
        Self { reader, events, usage: None, started: false, done: false, fault: None }
    }

    fn judge(&mut self, event: &[u8]) -> Judged {
        if self.done {
            return Judged::Drop;
        }
        let event = read_event(event);
        match event.data {
            Data::Absent => Judged::Keep,
            Data::One(payload) => self.take(event.kind, payload),
            Data::Many(lines) => self.take(event.kind, &lines.join(&b'\n')),
        }
    }

    fn take(&mut self, kind: Option<&[u8]>, payload: &[u8]) -> Judged {
        let payload = payload.trim_ascii();
        if payload.is_empty() || payload == DONE {
            return Judged::Drop;
        }
        if let Err(fault) = self.reader.read(kind, payload, &mut self.events) {
            self.fault = Some(fault);
            return Judged::Stop;
        }
        for event in self.events.drain(..) {
            match event {
                Event::Ping => {}
                Event::Usage(usage) => self.usage = Some(usage),
                Event::End => self.done = true,
                Event::Start { .. }
                | Event::Open { .. }
                | Event::Piece { .. }
                | Event::Close { .. }
                | Event::Logprobs { .. }
                | Event::Stop { .. } => self.started = true,
            }
        }
        Judged::Keep
    }

    fn close(&mut self, rest: &[u8]) -> Option<Bytes> {
        let mut last = Vec::new();
        if !rest.trim_ascii().is_empty() && self.judge(rest) == Judged::Keep {
            last.extend_from_slice(&[rest, b"\n\n"].concat());
        }
        let unended = matches!(self.reader, Reader::Anthropic(_)) && !self.done && self.reader.is_whole();
        if unended && self.fault.is_none() {
            self.done = true;
            last.extend_from_slice(MESSAGE_STOP);
        }
        (!last.is_empty()).then(|| last.into())
    }
}
