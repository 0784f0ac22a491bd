//! One content block of a stream while it grows.

use serde_json::Value;

use crate::canon::{Delta, Event, Members, Opening, Unfit};

/// A block that is open.
#[derive(Debug)]
pub(super) struct Block {
    /// Its number among the parts of the answer.
    part: u32,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Text,
    Thought,
    Sealed,
    Call {
        /// What the block began with, until a delta says it anew: some servers send arguments whole.
        input: Option<String>,
    },
    /// Of a type that only its own provider knows.
    Foreign,
}

impl Block {
    /// Begins a block, as the part of this number.
    pub(super) fn open(part: u32, content: &mut Members, events: &mut Vec<Event>) -> Result<Self, Unfit> {
        let (kind, opening) = match content.need_text("type")?.as_str() {
            "text" => (Kind::Text, Opening::Text),
            "thinking" => (Kind::Thought, Opening::Thought),
            "redacted_thinking" => (Kind::Sealed, Opening::SealedThought(content.need_text("data")?)),
            "tool_use" => (Kind::Call { input: input(content) }, call(content)?),
            _its_own => return Ok(Self { part, kind: Kind::Foreign }),
        };
        events.push(Event::Open { choice: 0, part, opening });
        let block = Self { part, kind };
        match block.kind {
            Kind::Text => block.add(content.text("text")?.map(Delta::Text), events),
            Kind::Thought => {
                block.add(content.text("thinking")?.map(Delta::Text), events);
                block.add(content.text("signature")?.map(Delta::Signature), events);
            }
            Kind::Sealed | Kind::Call { .. } | Kind::Foreign => {}
        }
        Ok(block)
    }

    /// Whether the answer has a part of it.
    pub(super) const fn is_carried(&self) -> bool {
        !matches!(self.kind, Kind::Foreign)
    }

    /// Adds a delta. Those of types not known here say nothing that a part has a place for, such as citations.
    pub(super) fn grow(&mut self, delta: &mut Members, events: &mut Vec<Event>) -> Result<(), Unfit> {
        let kind = delta.need_text("type")?;
        let added = match (&mut self.kind, kind.as_str()) {
            (Kind::Foreign, _any) => None,
            (Kind::Text, "text_delta") => Some(Delta::Text(delta.need_text("text")?)),
            (Kind::Thought, "thinking_delta") => Some(Delta::Text(delta.need_text("thinking")?)),
            (Kind::Thought, "signature_delta") => Some(Delta::Signature(delta.need_text("signature")?)),
            (Kind::Call { input }, "input_json_delta") => {
                let more = delta.need_text("partial_json")?;
                if !more.is_empty() {
                    *input = None;
                }
                Some(Delta::Arguments(more))
            }
            (_other, "text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta") => {
                return Err(Unfit::new("delta.type", "is of another kind than its block"));
            }
            (_any, _newer) => None,
        };
        self.add(added, events);
        Ok(())
    }

    /// Ends the block.
    pub(super) fn close(self, events: &mut Vec<Event>) {
        let Self { part, kind } = self;
        match kind {
            Kind::Foreign => return,
            Kind::Call { input: Some(input) } => {
                events.push(Event::Piece { choice: 0, part, delta: Delta::Arguments(input) });
            }
            Kind::Text | Kind::Thought | Kind::Sealed | Kind::Call { input: None } => {}
        }
        events.push(Event::Close { choice: 0, part });
    }

    fn add(&self, delta: Option<Delta>, events: &mut Vec<Event>) {
        let says = |delta: &Delta| match delta {
            Delta::Text(text) | Delta::Signature(text) | Delta::Arguments(text) => !text.is_empty(),
        };
        let piece = |delta| Event::Piece { choice: 0, part: self.part, delta };
        events.extend(delta.filter(says).map(piece));
    }
}

fn call(content: &mut Members) -> Result<Opening, Unfit> {
    let id = content.need_text("id")?;
    if id.is_empty() {
        return Err(Unfit::new(content.path("id"), "is empty"));
    }
    Ok(Opening::ToolCall { id, name: content.need_text("name")?, signature: None })
}

fn input(content: &mut Members) -> Option<String> {
    match content.take("input") {
        Some(Value::Object(input)) if !input.is_empty() => Some(Value::Object(input).to_string()),
        Some(_) | None => None,
    }
}
