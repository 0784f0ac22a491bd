//! The APIs that callers speak: which doors lead to and from the canonical call, answer and stream of each.

use base::Code;
use bytes::Bytes;

use crate::canon::{Answer, Call, Event, Losses, Unfit};
use crate::sse::{Data, Judged, Splitter, read_event};
use crate::{Reader, Target, anthropic, openai};

/// An API that callers speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Api {
    /// OpenAI's.
    #[default]
    Openai,
    /// Anthropic's.
    Anthropic,
}

/// What a caller is told where the target did not say it.
#[derive(Clone, Debug)]
pub struct Stamp {
    /// Names the answer.
    pub id: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// The model, as the caller named it.
    pub model: String,
}

impl Api {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Openai, Self::Anthropic];

    /// Its name in records, metrics and documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
        }
    }

    /// Nothing was lost yet of a call in this API.
    #[must_use]
    pub const fn losses(self) -> Losses {
        Losses::of(match self {
            Self::Openai => openai::chat::field,
            Self::Anthropic => anthropic::field,
        })
    }

    /// Reads a conversation.
    ///
    /// # Errors
    /// [`Unfit`] names the field at fault.
    pub fn read_call(self, body: &[u8], losses: &mut Losses) -> Result<Call, Unfit> {
        match self {
            Self::Openai => openai::chat::read_call(body, losses),
            Self::Anthropic => anthropic::read_call(body, losses),
        }
    }

    /// Writes an answer.
    #[must_use]
    pub fn write_answer(self, answer: &Answer, stamp: &Stamp) -> Vec<u8> {
        match self {
            Self::Openai => openai::chat::write_answer(answer, &stamp.openai()),
            Self::Anthropic => anthropic::write_answer(answer, &stamp.anthropic()),
        }
    }

    /// An error as a body.
    #[must_use]
    pub fn error_body(self, code: Code, message: &str, param: Option<&str>) -> Bytes {
        match self {
            Self::Openai => openai::error_body(code, message, param),
            Self::Anthropic => anthropic::error_body(code, message, param),
        }
    }

    /// An error as the last event of a stream of which nothing was written yet.
    #[must_use]
    pub fn error_event(self, code: Code, message: &str) -> Bytes {
        match self {
            Self::Openai => openai::error_event(code, message),
            Self::Anthropic => anthropic::error_event(code, message),
        }
    }
}

impl Stamp {
    fn openai(&self) -> openai::chat::Stamp<'_> {
        openai::chat::Stamp { id: &self.id, created: self.created, model: &self.model }
    }

    fn anthropic(&self) -> anthropic::Stamp<'_> {
        anthropic::Stamp { id: &self.id, model: &self.model }
    }
}

/// A target's stream as the stream of its caller's API, as it comes.
#[derive(Debug)]
pub struct Translator {
    splitter: Splitter,
    reader: Reader,
    writer: Writer,
    events: Vec<Event>,
    broken: bool,
}

#[derive(Debug)]
enum Writer {
    Openai(openai::chat::Writer),
    Anthropic(anthropic::Writer),
}

impl Translator {
    /// Of one stream; `include_usage`: whether its caller asked for usage, where that is asked for; `max_event`: the longest
    /// event in bytes.
    #[must_use]
    pub fn new((target, api): (Target, Api), stamp: &Stamp, include_usage: bool, max_event: usize) -> Self {
        let writer = match api {
            Api::Openai => Writer::Openai(openai::chat::Writer::new(&stamp.openai(), include_usage)),
            Api::Anthropic => Writer::Anthropic(anthropic::Writer::new(&stamp.anthropic())),
        };
        let (splitter, reader) = (Splitter::new(max_event), Reader::of(target));
        Self { splitter, reader, writer, events: Vec::new(), broken: false }
    }

    /// What the next bytes of the target's stream are to the caller: whole events, or nothing yet.
    ///
    /// # Errors
    /// [`Untold`] when they are no stream of this kind. Nothing more is to be read then.
    pub fn push(&mut self, bytes: &Bytes) -> Result<Bytes, Untold> {
        let Self { splitter, reader, events, broken, .. } = self;
        let read = |event: &[u8]| {
            let event = read_event(event);
            let read = match event.data {
                Data::Absent => Ok(()),
                Data::One(data) => reader.read(event.kind, data, events),
                Data::Many(lines) => reader.read(event.kind, &lines.join(&b'\n'), events),
            };
            *broken |= read.is_err();
            Judged::Drop
        };
        let split = splitter.push(bytes, read, drop);
        self.broken |= split.is_err();
        self.told()
    }

    /// The target's stream is whole: what is left to tell.
    ///
    /// # Errors
    /// [`Untold`] when it is not.
    pub fn finish(&mut self) -> Result<Bytes, Untold> {
        self.broken |= self.reader.close(&mut self.events).is_err();
        self.told()
    }

    /// The error that ends a stream in failure.
    #[must_use]
    pub fn fail(&mut self, code: Code, message: &str) -> Bytes {
        let mut out = Vec::new();
        match &mut self.writer {
            Writer::Openai(writer) => writer.fail(code, message, &mut out),
            Writer::Anthropic(writer) => writer.fail(code, message, &mut out),
        }
        out.into()
    }

    fn told(&mut self) -> Result<Bytes, Untold> {
        let mut out = Vec::new();
        for event in self.events.drain(..) {
            match &mut self.writer {
                Writer::Openai(writer) => writer.write(&event, &mut out),
                Writer::Anthropic(writer) => writer.write(&event, &mut out),
            }
        }
        if self.broken { Err(Untold { before: out.into() }) } else { Ok(out.into()) }
    }
}

/// A target's stream that cannot be told on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the target's stream is none of its kind")]
pub struct Untold {
    /// What could be.
    pub before: Bytes,
}
