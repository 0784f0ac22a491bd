//! Canonical events as a caller's stream.
//!
//! The API's blocks come one after the other. What comes of a later part while an earlier one is open waits until that one is
//! closed, up to a bound, beyond which blocks are open side by side: SDKs put pieces together by their index.

mod block;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use self::block::Block;
use super::answer::{Stamp, envelope, stopped};
use super::{error, usage};
use crate::canon::{Delta, Event, Opening, Stop, Usage};

/// Most bytes that wait.
const MOST_WAITING: usize = 1 << 20;

/// Writes one stream.
#[derive(Debug)]
pub struct Writer {
    id: String,
    model: String,
    usage: Option<Usage>,
    begun: bool,
    over: bool,
    stop: Option<Stop>,
    /// The index of the next block.
    next: u32,
    open: BTreeMap<u32, Block>,
    waiting: Vec<(u32, Block)>,
    waiting_bytes: usize,
}

impl Writer {
    /// A writer for one stream.
    #[must_use]
    pub fn new(stamp: &Stamp<'_>) -> Self {
        Self {
            id: stamp.id.to_owned(),
            model: stamp.model.to_owned(),
            usage: None,
            begun: false,
            over: false,
            stop: None,
            next: 0,
            open: BTreeMap::new(),
            waiting: Vec::new(),
            waiting_bytes: 0,
        }
    }

    /// Writes what an event says, as whole events. Of several answers the first is told: no call of this API asks for more.
    pub fn write(&mut self, event: &Event, out: &mut Vec<u8>) {
        if self.over {
            return;
        }
        match event {
            Event::Start { id, model, created: _ } => self.start(id, model),
            Event::Open { choice: 0, part, opening } => self.open(*part, opening, out),
            Event::Piece { choice: 0, part, delta } => self.piece(*part, delta, out),
            Event::Close { choice: 0, part } => self.close(*part, out),
            Event::Stop { choice: 0, stop } => self.stop = Some(stop.clone()),
            Event::Usage(usage) => self.usage = Some(*usage),
            Event::Ping => self.ping(out),
            Event::End => self.end(out),
            Event::Logprobs { .. }
            | Event::Open { .. }
            | Event::Piece { .. }
            | Event::Close { .. }
            | Event::Stop { .. } => {}
        }
    }

    /// Ends the stream in failure. Blocks stay open, and no `message_stop` follows: either would say that something is whole.
    pub fn fail(&mut self, code: base::Code, message: &str, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.over, true) {
            out.extend_from_slice(&error::error_event(code, message));
        }
    }

    fn start(&mut self, id: &str, model: &str) {
        if !id.is_empty() {
            id.clone_into(&mut self.id);
        }
        if !model.is_empty() {
            model.clone_into(&mut self.model);
        }
    }

    /// Says once that the message starts: as late as that, so that it tells what is known of the usage by then.
    fn begin(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.begun, true) {
            let mut message = envelope(&self.id, &self.model);
            message.insert("usage".to_owned(), usage::write(self.usage.as_ref()).into());
            event("message_start", fields([("message", message.into())]), out);
        }
    }

    fn ping(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        event("ping", Map::new(), out);
    }

    fn open(&mut self, part: u32, opening: &Opening, out: &mut Vec<u8>) {
        self.begin(out);
        let mut block = Block::of(opening);
        if self.open.is_empty() || self.waiting_bytes > MOST_WAITING {
            block.begin(&mut self.next, out);
            self.open.insert(part, block);
        } else {
            self.waiting.push((part, block));
        }
    }

    fn piece(&mut self, part: u32, delta: &Delta, out: &mut Vec<u8>) {
        if let Some(block) = self.open.get_mut(&part) {
            block.write(delta, &mut self.next, out);
        } else if let Some((_part, block)) =
            self.waiting.iter_mut().find(|(waiting, _block)| *waiting == part)
        {
            self.waiting_bytes = self.waiting_bytes.saturating_add(block.hold(delta));
            if self.waiting_bytes > MOST_WAITING {
                self.open_all(out);
            }
        }
    }

    fn close(&mut self, part: u32, out: &mut Vec<u8>) {
        if let Some(block) = self.open.remove(&part) {
            block.close(&mut self.next, out);
        } else if let Some((_part, block)) =
            self.waiting.iter_mut().find(|(waiting, _block)| *waiting == part)
        {
            block.closed = true;
        }
        while self.open.is_empty() && !self.waiting.is_empty() {
            self.open_next(out);
        }
    }

    /// Writes what waits of the next part, which is open then unless it is whole.
    fn open_next(&mut self, out: &mut Vec<u8>) {
        let (part, mut block) = self.waiting.remove(0);
        self.waiting_bytes = self.waiting_bytes.saturating_sub(block.release(&mut self.next, out));
        if block.closed {
            block.close(&mut self.next, out);
        } else {
            self.open.insert(part, block);
        }
    }

    fn open_all(&mut self, out: &mut Vec<u8>) {
        while !self.waiting.is_empty() {
            self.open_next(out);
        }
        // From now on nothing waits.
        self.waiting_bytes = usize::MAX;
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        self.open_all(out);
        for block in std::mem::take(&mut self.open).into_values() {
            block.close(&mut self.next, out);
        }
        let usage = usage::write(self.usage.as_ref());
        let delta = stopped(self.stop.as_ref());
        event("message_delta", fields([("delta", delta.into()), ("usage", usage.into())]), out);
        event("message_stop", Map::new(), out);
        self.over = true;
    }
}

fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Writes one event, whose type stands in its payload too.
fn event(kind: &str, mut payload: Map<String, Value>, out: &mut Vec<u8>) {
    payload.insert("type".to_owned(), json!(kind));
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\ndata: ");
    // Texts and numbers only: writing them cannot fail.
    serde_json::to_writer(&mut *out, &payload).ok();
    out.extend_from_slice(b"\n\n");
}
