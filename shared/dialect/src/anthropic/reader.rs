//! A target's stream as canonical events.
//!
//! Only a stop reason or the stop of the message prove that an answer is whole. Events and blocks of types not known here are
//! passed over, as the API's versioning asks of its readers.

mod block;

use std::collections::BTreeMap;

use serde_json::Value;

use self::block::Block;
use super::error::upstream_error;
use super::stop;
use super::usage::Reports;
use crate::canon::{Event, Members, Unfit};
use crate::openai::StreamFault;

/// Most blocks that are open at once; the API itself opens one after the other.
const MOST_OPEN: usize = 128;

/// Reads one stream.
#[derive(Debug, Default)]
pub struct Reader {
    started: bool,
    stopped: bool,
    ended: bool,
    usage: Reports,
    open: BTreeMap<u64, Block>,
    /// How many parts began.
    parts: u32,
}

impl Reader {
    /// Reads the payload of one event; `kind` is its type outside of the payload.
    ///
    /// # Errors
    /// [`StreamFault`] when it is an error, or no event of this API. Nothing more is to be read then.
    pub fn read(
        &mut self,
        kind: Option<&[u8]>,
        data: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), StreamFault> {
        let data = data.trim_ascii();
        // Some servers that speak like it end as chat completions do; that mark proves nothing here.
        if self.ended || data.is_empty() || data == b"[DONE]" {
            return Ok(());
        }
        let said = || StreamFault::Error(upstream_error(data).unwrap_or_default());
        let payload: Value = match serde_json::from_slice(data) {
            Ok(payload) => payload,
            Err(_not_json) if kind == Some(b"error") => return Err(said()),
            Err(_not_json) => return Err(StreamFault::Malformed),
        };
        let mut payload = Members::of("", payload).map_err(malformed)?;
        let named = payload.text("type").map_err(malformed)?;
        let named = named.unwrap_or_else(|| String::from_utf8_lossy(kind.unwrap_or_default()).into_owned());
        if named == "error" || payload.has("error") {
            return Err(said());
        }
        self.event(&named, &mut payload, events).map_err(malformed)
    }

    /// The stream's body ended.
    ///
    /// # Errors
    /// [`StreamFault::Cut`] when the answer is not whole.
    pub fn close(&mut self, events: &mut Vec<Event>) -> Result<(), StreamFault> {
        match (self.ended, self.stopped) {
            (true, _) => Ok(()),
            (false, true) => {
                self.end(events);
                Ok(())
            }
            (false, false) => Err(StreamFault::Cut),
        }
    }

    /// Whether the answer is whole: it said why it ended.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.stopped
    }

    fn event(&mut self, named: &str, payload: &mut Members, events: &mut Vec<Event>) -> Result<(), Unfit> {
        match named {
            "message_start" => self.start(payload, events),
            "content_block_start" => self.open(payload, events),
            "content_block_delta" => self.delta(payload, events),
            "content_block_stop" => self.close_block(payload, events),
            "message_delta" => self.message(payload, events),
            "message_stop" if self.stopped => {
                self.end(events);
                Ok(())
            }
            "message_stop" => Err(Unfit::new("type", "ends a message that never said why")),
            "ping" => {
                events.push(Event::Ping);
                Ok(())
            }
            _newer => Ok(()),
        }
    }

    fn start(&mut self, payload: &mut Members, events: &mut Vec<Event>) -> Result<(), Unfit> {
        if std::mem::replace(&mut self.started, true) {
            return Err(Unfit::new("type", "starts a second message"));
        }
        let mut message = payload.object("message")?.ok_or_else(|| Unfit::new("message", "is missing"))?;
        let (id, model) = (message.text("id")?, message.text("model")?);
        events.push(Event::Start {
            id: id.unwrap_or_default(),
            model: model.unwrap_or_default(),
            created: None,
        });
        self.report(&mut message, events);
        Ok(())
    }

    fn report(&mut self, of: &mut Members, events: &mut Vec<Event>) {
        if let Some(usage) = of.take("usage") {
            self.usage.add(&usage);
            events.extend(self.usage.usage().map(Event::Usage));
        }
    }

    fn open(&mut self, payload: &mut Members, events: &mut Vec<Event>) -> Result<(), Unfit> {
        let index = index(payload)?;
        if !self.started || self.stopped || self.open.len() >= MOST_OPEN || self.open.contains_key(&index) {
            return Err(Unfit::new("index", "opens a block that cannot be opened"));
        }
        let mut content = payload.object("content_block")?;
        let content = content.as_mut().ok_or_else(|| Unfit::new("content_block", "is missing"))?;
        let block = Block::open(self.parts, content, events)?;
        if block.is_carried() {
            self.parts = self.parts.saturating_add(1);
        }
        self.open.insert(index, block);
        Ok(())
    }

    fn delta(&mut self, payload: &mut Members, events: &mut Vec<Event>) -> Result<(), Unfit> {
        let index = index(payload)?;
        let block = self.open.get_mut(&index).ok_or_else(|| Unfit::new("index", "names no open block"))?;
        let mut delta = payload.object("delta")?;
        let delta = delta.as_mut().ok_or_else(|| Unfit::new("delta", "is missing"))?;
        block.grow(delta, events)
    }

    fn close_block(&mut self, payload: &mut Members, events: &mut Vec<Event>) -> Result<(), Unfit> {
        let index = index(payload)?;
        match self.open.remove(&index) {
            Some(block) => {
                block.close(events);
                Ok(())
            }
            // It ended with the message, which some servers close first.
            None if self.stopped => Ok(()),
            None => Err(Unfit::new("index", "names no open block")),
        }
    }

    /// What is said of the whole message: what it used, and at last why it ended.
    fn message(&mut self, payload: &mut Members, events: &mut Vec<Event>) -> Result<(), Unfit> {
        if !self.started {
            return Err(Unfit::new("type", "comes before the message starts"));
        }
        self.report(payload, events);
        let Some(mut delta) = payload.object("delta")? else { return Ok(()) };
        let sequence = delta.text("stop_sequence")?;
        if let Some(reason) = delta.text("stop_reason")?.filter(|reason| !reason.is_empty())
            && !std::mem::replace(&mut self.stopped, true)
        {
            self.close_all(events);
            events.push(Event::Stop { choice: 0, stop: stop::read(&reason, sequence) });
        }
        Ok(())
    }

    /// Blocks that the target forgot to close ended with the message.
    fn close_all(&mut self, events: &mut Vec<Event>) {
        for block in std::mem::take(&mut self.open).into_values() {
            block.close(events);
        }
    }

    fn end(&mut self, events: &mut Vec<Event>) {
        self.ended = true;
        events.push(Event::End);
    }
}

fn index(payload: &mut Members) -> Result<u64, Unfit> {
    payload.count("index")?.ok_or_else(|| Unfit::new("index", "is missing"))
}

fn malformed(_unfit: Unfit) -> StreamFault {
    StreamFault::Malformed
}
