//! Event streams (WHATWG HTML §9.2): bytes in as the network cut them, whole events out.
//!
//! An event ends at a blank line; lines end in CR LF, LF or CR. Events that lie whole in what was read are handed on as
//! slices of it, and a run of them as one slice, without a copy. Nothing here decodes text, so that no character is
//! ever halved.

use std::mem;

use bytes::{Bytes, BytesMut};
use memchr::memchr2;

/// What becomes of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It goes on as it came.
    Keep,
    /// It does not go on.
    Drop,
    /// These bytes go on in its place.
    Replace(Bytes),
    /// It does not go on, nor does anything after it.
    Stop,
}

/// An event exceeds the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event exceeds {limit} bytes")]
pub struct TooLong {
    /// The limit in bytes.
    pub limit: usize,
}

/// Cuts a stream into events.
#[derive(Debug)]
pub struct Splitter {
    /// The start of an event whose end did not come yet.
    carry: BytesMut,
    place: Place,
    limit: usize,
}

/// Where in its line the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At the start of a line.
    LineStart,
    /// At the start of a line, whose line end was a CR: an LF here still belongs to it.
    AfterCr,
    /// Within a line.
    Within,
}

impl Splitter {
    /// A splitter for one stream; `limit` bounds an event in bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { carry: BytesMut::new(), place: Place::LineStart, limit }
    }

    /// Takes what was read, asks `judge` about each event that ends in it, and hands what goes on to `out`: adjacent
    /// events in one piece.
    ///
    /// # Errors
    /// [`TooLong`]; whatever preceded the event has been handed on.
    pub fn push(
        &mut self,
        read: &Bytes,
        mut judge: impl FnMut(&[u8]) -> Judged,
        mut out: impl FnMut(Bytes),
    ) -> Result<(), TooLong> {
        // `read[run..start]` are kept events not handed on yet, `read[start..]` begins the current event.
        let (mut run, mut start) = (0, 0);
        while let Some(end) = self.event_end(read, start) {
            let judged = if self.carry.is_empty() {
                judge(read.get(start..end).unwrap_or_default())
            } else {
                self.carry.extend_from_slice(read.get(start..end).unwrap_or_default());
                let event = mem::take(&mut self.carry).freeze();
                run = end;
                match judge(&event) {
                    Judged::Keep => Judged::Replace(event),
                    other => other,
                }
            };
            if judged != Judged::Keep {
                hand(read, run, start, &mut out);
                run = end;
            }
            start = end;
            match judged {
                Judged::Keep | Judged::Drop => {}
                Judged::Replace(event) => out(event),
                Judged::Stop => return Ok(()),
            }
        }
        hand(read, run, start, &mut out);
        self.carry.extend_from_slice(read.get(start..).unwrap_or_default());
        if self.carry.len() > self.limit { Err(TooLong { limit: self.limit }) } else { Ok(()) }
    }

    /// What was left of an event when the stream ended.
    #[must_use]
    pub fn rest(self) -> Bytes {
        self.carry.freeze()
    }

    /// Where the event that goes on at `from` ends, if it ends in `read`.
    fn event_end(&mut self, read: &[u8], from: usize) -> Option<usize> {
        let mut at = from;
        loop {
            let rest = read.get(at..).unwrap_or_default();
            let Some(length) = memchr2(b'\n', b'\r', rest) else {
                if !rest.is_empty() {
                    self.place = Place::Within;
                }
                return None;
            };
            let place = if length > 0 { Place::Within } else { self.place };
            let cr = rest.get(length) == Some(&b'\r');
            at += length + 1;
            match (place, cr) {
                (Place::AfterCr, false) => self.place = Place::LineStart,
                (Place::Within, _) => self.place = if cr { Place::AfterCr } else { Place::LineStart },
                (Place::LineStart | Place::AfterCr, _) => {
                    let pair = cr && read.get(at) == Some(&b'\n');
                    at += usize::from(pair);
                    self.place = if cr && !pair { Place::AfterCr } else { Place::LineStart };
                    return Some(at);
                }
            }
        }
    }
}

fn hand(read: &Bytes, from: usize, to: usize, out: &mut impl FnMut(Bytes)) {
    if from < to {
        out(read.slice(from..to));
    }
}

/// An event's fields, as slices of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The value of its last `event` field.
    pub kind: Option<&'a [u8]>,
    /// The values of its `data` fields.
    pub data: Data<'a>,
}

/// The values of an event's `data` fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data<'a> {
    /// No such field: a comment, or a bare `event`.
    Absent,
    /// One.
    One(&'a [u8]),
    /// Several; joined by LF they are the payload.
    Many(Vec<&'a [u8]>),
}

impl<'a> Data<'a> {
    /// Each field's value, in order.
    #[must_use]
    pub fn lines(self) -> Vec<&'a [u8]> {
        match self {
            Self::Absent => Vec::new(),
            Self::One(line) => vec![line],
            Self::Many(lines) => lines,
        }
    }
}

/// Reads an event.
#[must_use]
pub fn read_event(event: &[u8]) -> Event<'_> {
    let mut rest = event.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(event);
    let mut found = Event { kind: None, data: Data::Absent };
    while !rest.is_empty() {
        let end = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let line = rest.get(..end).unwrap_or_default();
        rest = rest.get(end + 1..).unwrap_or_default();
        if let Some(value) = value_of(line, b"data") {
            found.data = match found.data {
                Data::Absent => Data::One(value),
                Data::One(first) => Data::Many(vec![first, value]),
                Data::Many(mut values) => {
                    values.push(value);
                    Data::Many(values)
                }
            };
        } else if let Some(value) = value_of(line, b"event") {
            found.kind = Some(value);
        }
    }
    found
}

/// The value of `line` when it is of the field `name`; one leading space is no part of it.
fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name)?;
    match rest.split_first() {
        None => Some(rest),
        Some((b':', value)) => Some(value.strip_prefix(b" ").unwrap_or(value)),
        Some(_longer_name) => None,
    }
}

/// Whether `bytes` end where an event ends.
#[must_use]
pub fn ends_event(bytes: &[u8]) -> bool {
    [&b"\n\n"[..], b"\r\n\r\n", b"\r\r", b"\n\r\n"].iter().any(|end| bytes.ends_with(end))
}

#[cfg(test)]
mod tests;
