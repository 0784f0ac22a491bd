//! One content block of a caller's stream.

use std::mem;

use serde_json::{Value, json};

use super::{event, fields};
use crate::anthropic::marks;
use crate::canon::{Delta, Opening};

/// A part on its way to the caller.
#[derive(Debug)]
pub(super) struct Block {
    kind: Kind,
    /// Its index; `None`: it did not begin yet.
    index: Option<u32>,
    /// What it holds back, while it waits.
    held: Vec<Delta>,
    /// Whether it was closed while it waits.
    pub(super) closed: bool,
}

/// What it is. Texts and thoughts begin with their first piece: an empty block is refused when it is given back.
#[derive(Debug)]
enum Kind {
    Text,
    Thought,
    Sealed { data: String },
    Call { id: String, name: String, signature: Option<String> },
}

impl Block {
    pub(super) fn of(opening: &Opening) -> Self {
        let kind = match opening {
            Opening::Text | Opening::Refusal => Kind::Text,
            Opening::Thought => Kind::Thought,
            Opening::SealedThought(data) => Kind::Sealed { data: data.clone() },
            Opening::ToolCall { id, name, signature } => {
                Kind::Call { id: id.clone(), name: name.clone(), signature: signature.clone() }
            }
        };
        Self { kind, index: None, held: Vec::new(), closed: false }
    }

    /// Begins it, unless it has to say something first.
    pub(super) fn begin(&mut self, next: &mut u32, out: &mut Vec<u8>) {
        match self.kind {
            Kind::Text | Kind::Thought => {}
            Kind::Sealed { .. } | Kind::Call { .. } => {
                self.begun(next, out);
            }
        }
    }

    /// Writes a piece.
    pub(super) fn write(&mut self, delta: &Delta, next: &mut u32, out: &mut Vec<u8>) {
        let piece = match (&self.kind, delta) {
            (_any, Delta::Text(text) | Delta::Signature(text) | Delta::Arguments(text))
                if text.is_empty() =>
            {
                return;
            }
            (Kind::Text, Delta::Text(text)) => json!({"type": "text_delta", "text": text}),
            (Kind::Thought, Delta::Text(text)) => json!({"type": "thinking_delta", "thinking": text}),
            (Kind::Thought, Delta::Signature(text)) => json!({"type": "signature_delta", "signature": text}),
            (Kind::Call { .. }, Delta::Arguments(text)) => {
                json!({"type": "input_json_delta", "partial_json": text})
            }
            (Kind::Text | Kind::Thought | Kind::Sealed { .. } | Kind::Call { .. }, _other_kind) => return,
        };
        let index = self.begun(next, out);
        block_delta(index, piece, out);
    }

    /// Keeps a piece until its turn. Gives its bytes.
    pub(super) fn hold(&mut self, delta: &Delta) -> usize {
        let (Delta::Text(text) | Delta::Signature(text) | Delta::Arguments(text)) = delta;
        match (self.held.last_mut(), delta) {
            (Some(Delta::Text(held)), Delta::Text(_))
            | (Some(Delta::Signature(held)), Delta::Signature(_))
            | (Some(Delta::Arguments(held)), Delta::Arguments(_)) => held.push_str(text),
            (_other, _new) => self.held.push(delta.clone()),
        }
        text.len()
    }

    /// Begins it with what it held. Gives the bytes of that.
    pub(super) fn release(&mut self, next: &mut u32, out: &mut Vec<u8>) -> usize {
        self.begin(next, out);
        let held = mem::take(&mut self.held);
        held.iter().for_each(|delta| self.write(delta, next, out));
        let bytes = held
            .iter()
            .map(|(Delta::Text(text) | Delta::Signature(text) | Delta::Arguments(text))| text.len());
        bytes.sum()
    }

    /// Ends it, if it began.
    pub(super) fn close(mut self, next: &mut u32, out: &mut Vec<u8>) {
        self.begin(next, out);
        if let Some(index) = self.index {
            event("content_block_stop", fields([("index", index.into())]), out);
        }
    }

    /// Its index; begins it where it did not yet.
    fn begun(&mut self, next: &mut u32, out: &mut Vec<u8>) -> u32 {
        if let Some(index) = self.index {
            return index;
        }
        let content = match &self.kind {
            Kind::Text => json!({"type": "text", "text": ""}),
            Kind::Thought => empty_thought(),
            Kind::Sealed { data } => json!({"type": "redacted_thinking", "data": data}),
            Kind::Call { id, name, signature } => {
                if let Some(signature) = signature {
                    signed(signature, next, out);
                }
                json!({"type": "tool_use", "id": id, "name": name, "input": {}})
            }
        };
        let index = block_start(content, next, out);
        self.index = Some(index);
        index
    }
}

/// The signature of the call that comes next, in a thought before it.
fn signed(signature: &str, next: &mut u32, out: &mut Vec<u8>) {
    let index = block_start(empty_thought(), next, out);
    let signature = marks::signature_of_call(signature);
    block_delta(index, json!({"type": "signature_delta", "signature": signature}), out);
    event("content_block_stop", fields([("index", index.into())]), out);
}

fn empty_thought() -> Value {
    json!({"type": "thinking", "thinking": "", "signature": ""})
}

fn block_start(content: Value, next: &mut u32, out: &mut Vec<u8>) -> u32 {
    let index = *next;
    *next = next.saturating_add(1);
    event("content_block_start", fields([("index", index.into()), ("content_block", content)]), out);
    index
}

fn block_delta(index: u32, delta: Value, out: &mut Vec<u8>) {
    event("content_block_delta", fields([("index", index.into()), ("delta", delta)]), out);
}
