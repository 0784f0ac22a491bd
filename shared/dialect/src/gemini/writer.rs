//! Canonical events as a caller's stream of responses.
//!
//! A call of a tool is written when its arguments are whole: this API has no pieces of them. Reasons to end are held
//! back until the end came, because nothing else says here that an answer is whole.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::answer::{Stamp, add_finish, content, response};
use super::{error_body, logprobs, piece};
use crate::canon::{Delta, Event, Opening, Stop, Usage};

/// How responses are strung together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// As server-sent events, for `alt=sse`.
    #[default]
    Sse,
    /// As one JSON array, for all others.
    Array,
}

/// Writes one stream.
#[derive(Debug)]
pub struct Writer {
    framing: Framing,
    id: String,
    model: String,
    /// Whether the array was opened.
    begun: bool,
    usage: Option<Usage>,
    choices: BTreeMap<u32, Said>,
}

/// What a choice said so far.
#[derive(Debug, Default)]
struct Said {
    open: BTreeMap<u32, Open>,
    stop: Option<Stop>,
    /// Arguments of a call that are no JSON object.
    malformed: Option<String>,
}

/// A part that is open.
#[derive(Debug)]
enum Open {
    Text,
    Thought { said: bool, proof: String },
    Call(Call),
}

/// A call whose arguments are not whole yet.
#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    signature: Option<String>,
    arguments: String,
}

impl Writer {
    /// A writer for one stream.
    #[must_use]
    pub fn new(stamp: &Stamp<'_>, framing: Framing) -> Self {
        Self {
            framing,
            id: stamp.id.to_owned(),
            model: stamp.model.to_owned(),
            begun: false,
            usage: None,
            choices: BTreeMap::new(),
        }
    }

    /// Writes what an event says, as whole events or elements.
    pub fn write(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Start { id, model, created: _ } => self.start(id, model),
            Event::Open { choice, part, opening } => self.open(*choice, *part, opening),
            Event::Piece { choice, part, delta } => self.piece(*choice, *part, delta, out),
            Event::Close { choice, part } => self.close(*choice, *part, out),
            Event::Logprobs { choice, logprobs } => self.logprobs(*choice, logprobs, out),
            Event::Stop { choice, stop } => self.choice(*choice).stop = Some(stop.clone()),
            Event::Usage(usage) => self.usage = Some(*usage),
            Event::Ping => self.ping(out),
            Event::End => self.end(out),
        }
    }

    /// Ends the stream in failure.
    pub fn fail(&mut self, code: base::Code, message: &str, out: &mut Vec<u8>) {
        self.frame(&error_body(code, message, None, None), out);
        self.finish(out);
    }

    fn start(&mut self, id: &str, model: &str) {
        if !id.is_empty() {
            id.clone_into(&mut self.id);
        }
        if !model.is_empty() {
            model.clone_into(&mut self.model);
        }
    }

    fn choice(&mut self, choice: u32) -> &mut Said {
        self.choices.entry(choice).or_default()
    }

    fn open(&mut self, choice: u32, part: u32, opening: &Opening) {
        let said = self.choice(choice);
        let open = match opening {
            Opening::Text | Opening::Refusal => Open::Text,
            Opening::Thought => Open::Thought { said: false, proof: String::new() },
            Opening::ToolCall { id, name, signature } => {
                let (id, name, signature) = (id.clone(), name.clone(), signature.clone());
                Open::Call(Call { id, name, signature, arguments: String::new() })
            }
            // Only another provider could read them.
            Opening::SealedThought(_data) => return,
        };
        said.open.insert(part, open);
    }

    fn piece(&mut self, choice: u32, part: u32, delta: &Delta, out: &mut Vec<u8>) {
        let Some(open) = self.choice(choice).open.get_mut(&part) else { return };
        let part = match (open, delta) {
            (_any, Delta::Text(text)) if text.is_empty() => return,
            (Open::Text, Delta::Text(text)) => piece::text(text),
            (Open::Thought { said, .. }, Delta::Text(text)) => {
                *said = true;
                piece::thought(text)
            }
            (Open::Thought { proof, .. }, Delta::Signature(more)) => {
                proof.push_str(more);
                return;
            }
            (Open::Call(call), Delta::Arguments(more)) => {
                call.arguments.push_str(more);
                return;
            }
            (Open::Text | Open::Thought { .. } | Open::Call(_), _other_kind) => return,
        };
        self.candidate(content(choice, vec![part]), out);
    }

    fn close(&mut self, choice: u32, part: u32, out: &mut Vec<u8>) {
        let said = self.choice(choice);
        let part = match said.open.remove(&part) {
            None | Some(Open::Text) => return,
            Some(Open::Thought { proof, .. }) if proof.is_empty() => return,
            Some(Open::Thought { said, proof }) => {
                let part = if said { piece::thought("") } else { piece::text("") };
                piece::signed(part, Some(&proof))
            }
            Some(Open::Call(Call { id, name, signature, arguments })) => {
                let Some(part) = piece::call(Some(&id), &name, &arguments) else {
                    said.malformed = Some(arguments);
                    return;
                };
                piece::signed(part, signature.as_deref())
            }
        };
        self.candidate(content(choice, vec![part]), out);
    }

    fn logprobs(&mut self, choice: u32, logprobs: &Value, out: &mut Vec<u8>) {
        if let Some(result) = logprobs::write(logprobs) {
            let mut fields = content(choice, Vec::new());
            fields.insert("logprobsResult".to_owned(), result);
            self.candidate(fields, out);
        }
    }

    fn ping(&mut self, out: &mut Vec<u8>) {
        match self.framing {
            Framing::Sse => out.extend_from_slice(b": ping\n\n"),
            // A blank between elements is a part of no value.
            Framing::Array => out.push(b'\n'),
        }
    }

    /// The last response tells why all choices ended, and what was used.
    fn end(&mut self, out: &mut Vec<u8>) {
        let mut candidates = Vec::new();
        for (choice, said) in &self.choices {
            let mut fields = content(*choice, Vec::new());
            add_finish(&mut fields, said.stop.as_ref(), said.malformed.as_deref());
            candidates.push(Value::Object(fields));
        }
        let last = response(candidates, self.usage.as_ref(), &self.id, &self.model);
        self.frame(last.to_string().as_bytes(), out);
        self.finish(out);
    }

    fn candidate(&mut self, fields: Map<String, Value>, out: &mut Vec<u8>) {
        let chunk = response(vec![Value::Object(fields)], None, &self.id, &self.model);
        self.frame(chunk.to_string().as_bytes(), out);
    }

    fn frame(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        let (before, after): (&[u8], &[u8]) = match (self.framing, self.begun) {
            (Framing::Sse, _) => (b"data: ", b"\n\n"),
            (Framing::Array, false) => (b"[", b""),
            (Framing::Array, true) => (b",\r\n", b""),
        };
        self.begun = true;
        out.extend_from_slice(before);
        out.extend_from_slice(payload);
        out.extend_from_slice(after);
    }

    fn finish(&self, out: &mut Vec<u8>) {
        match self.framing {
            Framing::Sse => {}
            Framing::Array => out.extend_from_slice(b"]"),
        }
    }
}
