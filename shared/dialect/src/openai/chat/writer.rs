//! Canonical events as a caller's stream of chunks.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::answer::{Stamp, add_finish, usage_object};
use super::said;
use crate::canon::{Delta, Event, Opening, Stop, Usage};
use crate::openai::error_event;

/// Writes one stream.
#[derive(Debug)]
pub struct Writer {
    id: String,
    created: u64,
    model: String,
    /// Whether the caller asked for usage.
    include_usage: bool,
    usage: Option<Usage>,
    choices: BTreeMap<u32, Said>,
}

/// What a choice said so far.
#[derive(Debug, Default)]
struct Said {
    begun: bool,
    thoughts: usize,
    calls: u32,
    open: BTreeMap<u32, Open>,
}

/// A part that is open.
#[derive(Clone, Copy, Debug)]
enum Open {
    Text,
    Refusal,
    Thought { index: usize },
    Call { index: u32, empty: bool },
}

impl Writer {
    /// A writer for one stream.
    #[must_use]
    pub fn new(stamp: &Stamp<'_>, include_usage: bool) -> Self {
        Self {
            id: stamp.id.to_owned(),
            created: stamp.created,
            model: stamp.model.to_owned(),
            include_usage,
            usage: None,
            choices: BTreeMap::new(),
        }
    }

    /// Writes what an event says, as whole events.
    pub fn write(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Start { id, model, created } => self.start(id, model, *created),
            Event::Open { choice, part, opening } => self.open(*choice, *part, opening, out),
            Event::Piece { choice, part, delta } => self.piece(*choice, *part, delta, out),
            Event::Close { choice, part } => self.close(*choice, *part, out),
            Event::Logprobs { choice, logprobs } => self.logprobs(*choice, logprobs, out),
            Event::Stop { choice, stop } => self.stop(*choice, stop, out),
            Event::Usage(usage) => self.usage = Some(*usage),
            Event::Ping => out.extend_from_slice(b": ping\n\n"),
            Event::End => self.end(out),
        }
    }

    /// Ends the stream in failure. No end mark follows: it would say that the answer is whole.
    pub fn fail(&mut self, code: base::Code, message: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(&error_event(code, message));
    }

    fn start(&mut self, id: &str, model: &str, created: Option<u64>) {
        if !id.is_empty() {
            id.clone_into(&mut self.id);
        }
        if !model.is_empty() {
            model.clone_into(&mut self.model);
        }
        self.created = created.unwrap_or(self.created);
    }

    fn open(&mut self, choice: u32, part: u32, opening: &Opening, out: &mut Vec<u8>) {
        let said = self.choices.entry(choice).or_default();
        let mut delta = Map::new();
        let open = match opening {
            Opening::Text => Open::Text,
            Opening::Refusal => Open::Refusal,
            Opening::Thought => Open::Thought { index: said.next_thought() },
            Opening::SealedThought(data) => {
                let index = said.next_thought();
                said::add_sealed(&mut delta, index, data);
                Open::Thought { index }
            }
            Opening::ToolCall { id, name, signature } => {
                let index = said.calls;
                said.calls = said.calls.saturating_add(1);
                let function = json!({"name": name, "arguments": ""});
                let mut call = json!({"index": index, "id": id, "type": "function", "function": function});
                said::add_signature(&mut call, signature.as_deref());
                delta.insert("tool_calls".to_owned(), json!([call]));
                Open::Call { index, empty: true }
            }
        };
        said.open.insert(part, open);
        if !delta.is_empty() {
            self.delta(choice, delta, out);
        }
    }

    fn piece(&mut self, choice: u32, part: u32, piece: &Delta, out: &mut Vec<u8>) {
        let Some(open) = self.choices.entry(choice).or_default().open.get_mut(&part) else { return };
        let mut delta = Map::new();
        match (open, piece) {
            (Open::Text, Delta::Text(text)) => {
                delta.insert("content".to_owned(), text.as_str().into());
            }
            (Open::Refusal, Delta::Text(text)) => {
                delta.insert("refusal".to_owned(), text.as_str().into());
            }
            (Open::Thought { index }, Delta::Text(text)) => said::add_thought(&mut delta, *index, text, None),
            (Open::Thought { index }, Delta::Signature(signature)) => {
                said::add_thought(&mut delta, *index, "", Some(signature));
            }
            (Open::Call { index, empty }, Delta::Arguments(text)) => {
                *empty &= text.is_empty();
                delta.insert("tool_calls".to_owned(), more_arguments(*index, text));
            }
            (Open::Text | Open::Refusal | Open::Thought { .. } | Open::Call { .. }, _other_kind) => return,
        }
        self.delta(choice, delta, out);
    }

    fn close(&mut self, choice: u32, part: u32, out: &mut Vec<u8>) {
        let open = self.choices.entry(choice).or_default().open.remove(&part);
        if let Some(Open::Call { index, empty: true }) = open {
            let mut delta = Map::new();
            delta.insert("tool_calls".to_owned(), more_arguments(index, "{}"));
            self.delta(choice, delta, out);
        }
    }

    fn logprobs(&mut self, choice: u32, logprobs: &Value, out: &mut Vec<u8>) {
        self.begin(choice, out);
        self.chunk(
            &json!([{"index": choice, "delta": {}, "logprobs": logprobs, "finish_reason": null}]),
            out,
        );
    }

    fn stop(&mut self, choice: u32, stop: &Stop, out: &mut Vec<u8>) {
        self.begin(choice, out);
        let mut object = Map::new();
        object.insert("index".to_owned(), choice.into());
        object.insert("delta".to_owned(), json!({}));
        add_finish(&mut object, Some(stop));
        self.chunk(&json!([object]), out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.include_usage
            && let Some(usage) = &self.usage
        {
            let usage = usage_object(usage);
            let mut chunk = self.envelope();
            chunk.insert("choices".to_owned(), json!([]));
            chunk.insert("usage".to_owned(), usage);
            event(&chunk, out);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }

    /// Says once who speaks.
    fn begin(&mut self, choice: u32, out: &mut Vec<u8>) {
        let said = self.choices.entry(choice).or_default();
        if !std::mem::replace(&mut said.begun, true) {
            let delta = json!({"role": "assistant", "content": ""});
            self.chunk(&json!([{"index": choice, "delta": delta, "finish_reason": null}]), out);
        }
    }

    fn delta(&mut self, choice: u32, delta: Map<String, Value>, out: &mut Vec<u8>) {
        self.begin(choice, out);
        self.chunk(&json!([{"index": choice, "delta": delta, "finish_reason": null}]), out);
    }

    fn chunk(&self, choices: &Value, out: &mut Vec<u8>) {
        let mut chunk = self.envelope();
        chunk.insert("choices".to_owned(), choices.clone());
        if self.include_usage {
            chunk.insert("usage".to_owned(), Value::Null);
        }
        event(&chunk, out);
    }

    fn envelope(&self) -> Map<String, Value> {
        let mut chunk = Map::new();
        chunk.insert("id".to_owned(), self.id.as_str().into());
        chunk.insert("object".to_owned(), "chat.completion.chunk".into());
        chunk.insert("created".to_owned(), self.created.into());
        chunk.insert("model".to_owned(), self.model.as_str().into());
        chunk
    }
}

impl Said {
    const fn next_thought(&mut self) -> usize {
        let index = self.thoughts;
        self.thoughts = self.thoughts.saturating_add(1);
        index
    }
}

fn more_arguments(index: u32, text: &str) -> Value {
    json!([{"index": index, "function": {"arguments": text}}])
}

fn event(chunk: &Map<String, Value>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    // Texts and numbers only: writing them cannot fail.
    serde_json::to_writer(&mut *out, chunk).ok();
    out.extend_from_slice(b"\n\n");
}
