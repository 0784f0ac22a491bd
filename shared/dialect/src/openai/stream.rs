//! Follows an event stream of chat chunks: what each event is, what the whole used, and whether it ended well.
//!
//! Most chunks carry a piece of text and nothing else; they are looked at with three substring searches and parsed
//! never. A quote within a JSON text is escaped, so that `"usage"` with both quotes bare is a key or a whole value.

use std::ops::Range;
use std::sync::LazyLock;

use base::Usage;
use bytes::Bytes;
use memchr::memmem::Finder;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::error::{UpstreamError, upstream_error};
use super::reply::{is_empty_list, usage};
use super::scan::span;
use crate::sse::{Data, Judged, read_event};

static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"usage\""));
static ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"error\""));
static FINISH: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"finish_reason\""));

const DONE: &[u8] = b"[DONE]";
const DONE_EVENT: &[u8] = b"data: [DONE]\n\n";

/// What is wrong with a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// The upstream sent an error as an event.
    Error(UpstreamError),
    /// An event that is not JSON, or the stream broke off within one.
    Malformed,
    /// It ended before the answer did.
    Cut,
}

/// Follows one stream.
#[derive(Debug)]
pub struct Meter {
    hide_usage: bool,
    usage: Option<Usage>,
    started: bool,
    finished: bool,
    done: bool,
    fault: Option<StreamFault>,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    choices: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    usage: Option<&'a RawValue>,
}

/// A member that is there, be it null.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(member: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(member).map(Some)
}

impl Meter {
    /// A meter for one stream; `hide_usage` when the caller did not ask for usage and we did.
    #[must_use]
    pub const fn new(hide_usage: bool) -> Self {
        Self { hide_usage, usage: None, started: false, finished: false, done: false, fault: None }
    }

    /// What the upstream reported so far; the latest report counts.
    #[must_use]
    pub const fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Whether an event with a payload came, comments not counted.
    #[must_use]
    pub const fn started(&self) -> bool {
        self.started
    }

    /// Whether the answer is whole: a finish reason or the end mark came. Nothing else proves it.
    #[must_use]
    pub const fn complete(&self) -> bool {
        self.finished || self.done
    }

    /// Whether the end mark came.
    #[must_use]
    pub const fn done(&self) -> bool {
        self.done
    }

    /// Why the stream was stopped.
    #[must_use]
    pub const fn fault(&self) -> Option<&StreamFault> {
        self.fault.as_ref()
    }

    /// Looks at one whole event.
    pub fn judge(&mut self, event: &[u8]) -> Judged {
        if self.done {
            return Judged::Drop;
        }
        let read = read_event(event);
        match read.data {
            Data::Absent => Judged::Keep,
            Data::One(payload) => self.judge_payload(payload, read.kind == Some(b"error")),
            Data::Many(lines) => self.judge_lines(&lines, read.kind == Some(b"error")),
        }
    }

    /// Looks at what was left when the stream ended: the last event may lack its blank line. Gives what the caller
    /// still gets: that event, and the end mark where the upstream left it out.
    pub fn close(&mut self, rest: &[u8]) -> Option<Bytes> {
        let mut last = Vec::new();
        if !rest.trim_ascii().is_empty() && !self.done {
            let whole = match read_event(rest).data {
                Data::Absent => true,
                Data::One(payload) => payload.trim_ascii() == DONE || is_json(payload),
                Data::Many(lines) => is_json(&lines.join(&b'\n')),
            };
            match (whole, self.judge(rest)) {
                (true, Judged::Keep) => last.extend_from_slice(&[rest, b"\n\n"].concat()),
                (true, Judged::Replace(event)) => last.extend_from_slice(&event),
                (true, Judged::Drop | Judged::Stop) => {}
                (false, _) => self.fault = Some(StreamFault::Malformed),
            }
        }
        if self.finished && !self.done && self.fault.is_none() {
            self.done = true;
            last.extend_from_slice(DONE_EVENT);
        }
        (!last.is_empty()).then(|| last.into())
    }

    fn judge_payload(&mut self, payload: &[u8], error: bool) -> Judged {
        let payload = payload.trim_ascii();
        if payload.is_empty() {
            return Judged::Drop;
        }
        self.started = true;
        if payload == DONE {
            self.done = true;
            return Judged::Keep;
        }
        if error || !payload.starts_with(b"{") || !payload.ends_with(b"}") {
            return self.stop(if error { said(payload) } else { StreamFault::Malformed });
        }
        if ERROR.find(payload).is_some() || self.usage_matters(payload) {
            match serde_json::from_slice(payload) {
                Ok(chunk) => return self.judge_chunk(&chunk, payload),
                Err(_not_json) => return self.stop(StreamFault::Malformed),
            }
        }
        self.finished = self.finished || finish_reason(payload);
        Judged::Keep
    }

    /// Whether a `usage` member may hold a report, or anything else that the caller did not ask for; null says that
    /// usage comes later.
    fn usage_matters(&self, payload: &[u8]) -> bool {
        values(&USAGE, payload).any(|value| self.hide_usage || value.starts_with(b"{"))
    }

    fn judge_chunk(&mut self, chunk: &Chunk<'_>, payload: &[u8]) -> Judged {
        if chunk.error.is_some() || chunk.object.is_some_and(|object| object.get() == "\"error\"") {
            return self.stop(said(payload));
        }
        self.finished = self.finished || finish_reason(payload);
        let Some(reported) = chunk.usage else { return Judged::Keep };
        self.usage = usage(reported).or(self.usage);
        let nothing = reported.get() == "null";
        match chunk.choices {
            _any if nothing && !self.hide_usage => Judged::Keep,
            _any if nothing => Judged::Replace(without_member(payload, span(payload, reported))),
            Some(choices) if !is_empty_list(choices) && self.hide_usage => {
                Judged::Replace(without_member(payload, span(payload, reported)))
            }
            Some(choices) if !is_empty_list(choices) => Judged::Keep,
            _none if self.hide_usage => Judged::Drop,
            Some(_empty) => Judged::Keep,
            None => Judged::Replace(with_choices(payload)),
        }
    }

    /// Several `data` lines are one payload. Some servers forget the blank line between two events; their payloads,
    /// each whole, are sent on as the events they were meant to be.
    fn judge_lines(&mut self, lines: &[&[u8]], error: bool) -> Judged {
        let joined = lines.join(&b'\n');
        if is_json(&joined) {
            return self.judge_payload(&joined, error);
        }
        if !lines.iter().all(|line| line.trim_ascii() == DONE || is_json(line)) {
            return self.stop(StreamFault::Malformed);
        }
        let mut mended = Vec::new();
        for line in lines {
            match self.judge_payload(line, error) {
                Judged::Keep => mended.extend_from_slice(&[&b"data: "[..], line, b"\n\n"].concat()),
                Judged::Replace(event) => mended.extend_from_slice(&event),
                Judged::Drop => {}
                Judged::Stop => return Judged::Stop,
            }
        }
        Judged::Replace(mended.into())
    }

    fn stop(&mut self, fault: StreamFault) -> Judged {
        self.fault = Some(fault);
        Judged::Stop
    }
}

fn said(payload: &[u8]) -> StreamFault {
    StreamFault::Error(upstream_error(payload).unwrap_or_default())
}

fn is_json(payload: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(payload).is_ok()
}

/// Whether some choice says why it ended. An empty text is no reason.
fn finish_reason(payload: &[u8]) -> bool {
    values(&FINISH, payload).any(|value| value.starts_with(b"\"") && !value.starts_with(b"\"\""))
}

/// What follows each occurrence of the key that `finder` looks for.
fn values<'a>(finder: &'a Finder<'_>, payload: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    finder.find_iter(payload).filter_map(|at| {
        let rest = payload.get(at + finder.needle().len()..)?.trim_ascii_start();
        Some(rest.strip_prefix(b":")?.trim_ascii_start())
    })
}

/// The usage chunk with the `choices` that strict clients want to see.
fn with_choices(payload: &[u8]) -> Bytes {
    let members = payload.get(1..).unwrap_or_default();
    event(&[&b"{\"choices\":[],"[..], members].concat())
}

/// A payload as one event; each of its lines is a `data` field.
fn event(payload: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(payload.len() + 8);
    for line in payload.split(|byte| *byte == b'\n') {
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.push(b'\n');
    }
    event.push(b'\n');
    event.into()
}

/// The chunk without its `usage`, whose value stands at `value`; every other byte as it came.
fn without_member(payload: &[u8], value: Range<usize>) -> Bytes {
    let before = payload.get(..value.start).unwrap_or_default().trim_ascii_end();
    let after = payload.get(value.end..).unwrap_or_default();
    let key = before.strip_suffix(b":").map(<[u8]>::trim_ascii_end);
    let parts = match key.and_then(|before| before.strip_suffix(USAGE.needle())) {
        Some(before) => match before.trim_ascii_end().strip_suffix(b",") {
            Some(others) => [others, &[], after],
            None => [before, &[], after.trim_ascii_start().strip_prefix(b",").unwrap_or(after)],
        },
        // The key is spelt with escapes: it stays, without its value.
        None => [before, b"null", after],
    };
    event(&parts.concat())
}

#[cfg(test)]
mod tests;
