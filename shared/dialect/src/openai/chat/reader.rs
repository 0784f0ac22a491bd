//! A target's stream of chunks as canonical events.
//!
//! Chunks say what they add and never where a part begins or ends: a part ends where another kind of text begins, and a call of a
//! tool where another begins and its arguments are whole. What is open when the choice ends, ends with it.

mod choice;

use std::collections::BTreeMap;

use serde_json::Value;

use self::choice::Growing;
use super::answer::usage;
use crate::canon::{Event, Members, Unfit};
use crate::openai::{StreamFault, upstream_error};

/// Most choices of one stream that are followed; OpenAI's own bound of `n`.
const MOST_CHOICES: u32 = 128;

/// Reads one stream.
#[derive(Debug, Default)]
pub struct Reader {
    started: bool,
    ended: bool,
    choices: BTreeMap<u32, Growing>,
}

impl Reader {
    /// Reads the payload of one event.
    ///
    /// # Errors
    /// [`StreamFault`] when it is an error or no chunk. Nothing more is to be read then.
    pub fn read(
        &mut self,
        kind: Option<&[u8]>,
        data: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), StreamFault> {
        let data = data.trim_ascii();
        if self.ended || data.is_empty() {
            return Ok(());
        }
        if data == b"[DONE]" {
            return self.done(events);
        }
        if kind == Some(b"error") {
            return Err(StreamFault::Error(upstream_error(data).unwrap_or_default()));
        }
        let chunk: Value = serde_json::from_slice(data).map_err(|_not_json| StreamFault::Malformed)?;
        if is_error(&chunk) {
            return Err(StreamFault::Error(upstream_error(data).unwrap_or_default()));
        }
        let mut chunk = Members::of("", chunk).map_err(malformed)?;
        self.chunk(&mut chunk, events).map_err(malformed)
    }

    /// The stream's body ended.
    ///
    /// # Errors
    /// [`StreamFault::Cut`] when the answer is not whole.
    pub fn close(&mut self, events: &mut Vec<Event>) -> Result<(), StreamFault> {
        match (self.ended, self.is_whole()) {
            (true, _) => Ok(()),
            (false, true) => self.done(events),
            (false, false) => Err(StreamFault::Cut),
        }
    }

    /// Whether the answer is whole: every choice said why it ended, or the end mark came.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.ended || (!self.choices.is_empty() && self.choices.values().all(Growing::is_over))
    }

    /// The end mark proves that the answer is whole, as no finish reason is needed then.
    fn done(&mut self, events: &mut Vec<Event>) -> Result<(), StreamFault> {
        for (number, choice) in &mut self.choices {
            choice.end(*number, events).map_err(malformed)?;
        }
        self.ended = true;
        events.push(Event::End);
        Ok(())
    }

    fn chunk(&mut self, chunk: &mut Members, events: &mut Vec<Event>) -> Result<(), Unfit> {
        if !self.started {
            self.started = true;
            events.push(Event::Start {
                id: chunk.text("id")?.unwrap_or_default(),
                model: chunk.text("model")?.unwrap_or_default(),
                created: chunk.take("created").as_ref().and_then(Value::as_u64),
            });
        }
        for (path, item) in chunk.items("choices")? {
            let mut item = Members::of(path, item)?;
            let number = item.count("index")?.unwrap_or(0);
            let number = u32::try_from(number).ok().filter(|number| *number < MOST_CHOICES);
            let number = number.ok_or_else(|| Unfit::new(item.path("index"), "is beyond all bounds"))?;
            self.choices.entry(number).or_default().add(number, &mut item, events)?;
        }
        events.extend(chunk.take("usage").as_ref().and_then(usage).map(Event::Usage));
        Ok(())
    }
}

fn malformed(_unfit: Unfit) -> StreamFault {
    StreamFault::Malformed
}

fn is_error(chunk: &Value) -> bool {
    let named = chunk.get("error").is_some_and(|error| !error.is_null());
    named || chunk.get("object").and_then(Value::as_str) == Some("error")
}
