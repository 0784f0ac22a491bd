//! A target's stream of responses as canonical events.
//!
//! The stream has no end mark: it is whole when every choice said why it ended and the body ended. A reason may come in
//! an event of its own, after the call that it is for, and so it is told only at the end.

use std::collections::BTreeMap;

use serde_json::Value;

use super::chunk::{self, Call, Candidate, Ids, Step, is_error};
use super::error::upstream_error;
use crate::canon::{Delta, Event, Opening, Usage};
use crate::openai::StreamFault;

/// Reads one stream.
#[derive(Debug, Default)]
pub struct Reader {
    started: bool,
    id: String,
    usage: Option<Usage>,
    choices: BTreeMap<u32, Growing>,
}

/// A choice so far.
#[derive(Debug)]
struct Growing {
    choice: u32,
    parts: u32,
    open: Option<(Open, u32)>,
    ids: Ids,
    called: bool,
    reason: Option<String>,
}

/// What may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Text,
    Thought,
}

impl Reader {
    /// Reads the payload of one event, or one element of the array.
    ///
    /// # Errors
    /// [`StreamFault`] when it is an error or no response. Nothing more is to be read then.
    pub fn read(
        &mut self,
        kind: Option<&[u8]>,
        data: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), StreamFault> {
        let data = data.trim_ascii();
        // Servers that speak OpenAI's API, too, end this one's streams as they end those.
        if data.is_empty() || data == b"[DONE]" {
            return Ok(());
        }
        let payload: Value = serde_json::from_slice(data).map_err(|_not_json| StreamFault::Malformed)?;
        if kind == Some(b"error") || is_error(&payload) {
            return Err(StreamFault::Error(upstream_error(data).unwrap_or_default()));
        }
        let chunk = chunk::read(payload).map_err(|_other_shape| StreamFault::Malformed)?;
        if !self.started {
            self.started = true;
            self.id.clone_from(&chunk.id);
            events.push(Event::Start { id: chunk.id, model: chunk.model, created: None });
        }
        for candidate in chunk.candidates {
            let Self { id, choices, .. } = self;
            let growing = choices.entry(candidate.index);
            growing.or_insert_with_key(|choice| Growing::new(id, *choice)).take(candidate, events);
        }
        if let Some(usage) = chunk.usage.filter(|usage| self.usage != Some(*usage)) {
            self.usage = Some(usage);
            events.push(Event::Usage(usage));
        }
        Ok(())
    }

    /// The stream's body ended.
    ///
    /// # Errors
    /// [`StreamFault::Cut`] when the answer is not whole.
    pub fn close(&mut self, events: &mut Vec<Event>) -> Result<(), StreamFault> {
        if !self.is_whole() {
            return Err(StreamFault::Cut);
        }
        for growing in self.choices.values_mut() {
            growing.close(events);
        }
        for Growing { choice, called, reason, .. } in self.choices.values() {
            let stop = chunk::stop(reason.as_deref(), *called);
            events.extend(stop.map(|stop| Event::Stop { choice: *choice, stop }));
        }
        events.push(Event::End);
        Ok(())
    }

    /// Whether the answer is whole so far: every choice said why it ended.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.choices.is_empty() && self.choices.values().all(|choice| choice.reason.is_some())
    }
}

impl Growing {
    fn new(id: &str, choice: u32) -> Self {
        Self { choice, parts: 0, open: None, ids: Ids::of(id, choice), called: false, reason: None }
    }

    fn take(&mut self, candidate: Candidate, events: &mut Vec<Event>) {
        let Candidate { index: choice, steps, reason, logprobs } = candidate;
        for step in steps {
            self.step(step, events);
        }
        events.extend(logprobs.map(|logprobs| Event::Logprobs { choice, logprobs }));
        self.reason = reason.or_else(|| self.reason.take());
    }

    fn step(&mut self, step: Step, events: &mut Vec<Event>) {
        match step {
            Step::Text(text) => self.grow(Open::Text, Delta::Text(text), events),
            Step::Thought(text) => self.grow(Open::Thought, Delta::Text(text), events),
            Step::Signed(signature) => {
                self.grow(Open::Thought, Delta::Signature(signature), events);
                self.close(events);
            }
            Step::Sealed(signature) => {
                self.close(events);
                self.grow(Open::Thought, Delta::Signature(signature), events);
                self.close(events);
            }
            Step::Call(call) => self.call(call, events),
            // No stream of another API carries media, and none asks for them.
            Step::Media(_media) => self.close(events),
        }
    }

    fn grow(&mut self, kind: Open, delta: Delta, events: &mut Vec<Event>) {
        let choice = self.choice;
        let part = match self.open {
            Some((open, part)) if open == kind => part,
            Some(_) | None => {
                self.close(events);
                let opening = if kind == Open::Text { Opening::Text } else { Opening::Thought };
                let part = self.begin(opening, events);
                self.open = Some((kind, part));
                part
            }
        };
        events.push(Event::Piece { choice, part, delta });
    }

    fn call(&mut self, call: Call, events: &mut Vec<Event>) {
        self.close(events);
        self.called = true;
        let Call { id, name, arguments, signature } = call;
        let id = self.ids.name(id);
        let part = self.begin(Opening::ToolCall { id, name, signature }, events);
        let choice = self.choice;
        events.push(Event::Piece { choice, part, delta: Delta::Arguments(arguments) });
        events.push(Event::Close { choice, part });
    }

    fn begin(&mut self, opening: Opening, events: &mut Vec<Event>) -> u32 {
        let part = self.parts;
        self.parts = part.saturating_add(1);
        events.push(Event::Open { choice: self.choice, part, opening });
        part
    }

    fn close(&mut self, events: &mut Vec<Event>) {
        if let Some((_kind, part)) = self.open.take() {
            events.push(Event::Close { choice: self.choice, part });
        }
    }
}
