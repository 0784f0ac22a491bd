//! The APIs that callers speak: which doors lead to and from the canonical call, answer and stream of each.

use std::time::Duration;

use base::Code;
use bytes::Bytes;

use crate::canon::{Answer, Call, Event, Losses, Unfit};
use crate::gemini::Framing;
use crate::sse::{Data, Judged, Splitter, read_event};
use crate::{Reader, Target, anthropic, gemini, openai};

/// An API that callers speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Api {
    /// OpenAI's.
    #[default]
    Openai,
    /// Anthropic's.
    Anthropic,
    /// Google's.
    Gemini,
}

/// In which form a caller is told of its call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// The API.
    pub api: Api,
    /// How a stream is strung together; events but for callers of Gemini's API that want an array.
    pub framing: Framing,
    /// Whether usage was asked for, where that is asked for.
    pub include_usage: bool,
}

/// What a call's URL says of it, in APIs where it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place<'a> {
    /// The model.
    pub model: &'a str,
    /// Whether the answer shall be a stream.
    pub stream: bool,
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
    pub const ALL: [Self; 3] = [Self::Openai, Self::Anthropic, Self::Gemini];

    /// Its name in records, metrics and documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// Nothing was lost yet of a call in this API.
    #[must_use]
    pub const fn losses(self) -> Losses {
        Losses::of(match self {
            Self::Openai => openai::chat::field,
            Self::Anthropic => anthropic::field,
            Self::Gemini => gemini::field,
        })
    }

    /// Reads a conversation; `place`: what its URL says of it, where that is not in the body.
    ///
    /// # Errors
    /// [`Unfit`] names the field at fault.
    pub fn read_call(self, place: Place<'_>, body: &[u8], losses: &mut Losses) -> Result<Call, Unfit> {
        match self {
            Self::Openai => openai::chat::read_call(body, losses),
            Self::Anthropic => anthropic::read_call(body, losses),
            Self::Gemini => gemini::read_call(place.model, place.stream, body, losses),
        }
    }

    /// Reads a conversation whose tokens are to be counted. OpenAI's API counts none: it is read as a call.
    ///
    /// # Errors
    /// [`Unfit`] names the field at fault.
    pub fn read_count(self, model: &str, body: &[u8], losses: &mut Losses) -> Result<Call, Unfit> {
        match self {
            Self::Openai => openai::chat::read_call(body, losses),
            Self::Anthropic => anthropic::read_count(body, losses),
            Self::Gemini => gemini::read_count(model, body, losses),
        }
    }

    /// Writes how many tokens a conversation has.
    #[must_use]
    pub fn write_counted(self, tokens: u64) -> Vec<u8> {
        match self {
            Self::Openai | Self::Anthropic => anthropic::write_counted(tokens),
            Self::Gemini => gemini::write_counted(tokens),
        }
    }

    /// Writes an answer.
    #[must_use]
    pub fn write_answer(self, answer: &Answer, stamp: &Stamp) -> Vec<u8> {
        match self {
            Self::Openai => openai::chat::write_answer(answer, &stamp.openai()),
            Self::Anthropic => anthropic::write_answer(answer, &stamp.anthropic()),
            Self::Gemini => gemini::write_answer(answer, &stamp.gemini()),
        }
    }

    /// An error as a body. `param`: the field at fault; `retry`: when the same call may pass, where bodies tell it.
    #[must_use]
    pub fn error_body(
        self,
        code: Code,
        message: &str,
        param: Option<&str>,
        retry: Option<Duration>,
    ) -> Bytes {
        match self {
            Self::Openai => openai::error_body(code, message, param),
            Self::Anthropic => anthropic::error_body(code, message, param),
            Self::Gemini => gemini::error_body(code, message, param, retry),
        }
    }
}

impl Form {
    /// An error as the last event of a stream of which nothing was written yet.
    #[must_use]
    pub fn error_event(self, code: Code, message: &str) -> Bytes {
        match self.api {
            Api::Openai => openai::error_event(code, message),
            Api::Anthropic => anthropic::error_event(code, message),
            Api::Gemini => {
                let (mut out, stamp) = (Vec::new(), gemini::Stamp { id: "", model: "" });
                gemini::Writer::new(&stamp, self.framing).fail(code, message, &mut out);
                out.into()
            }
        }
    }

    /// Says nothing in a stream, between whole events, so that its connection is not taken for dead.
    #[must_use]
    pub const fn keep_alive(self) -> Bytes {
        Bytes::from_static(match self.api {
            // Comments of an event stream (WHATWG HTML §9.2.6): parsers pass over them.
            Api::Openai | Api::Anthropic => b": keep-alive\n\n",
            // Google's own clients take any line that is not blank for a response.
            Api::Gemini => b"\n",
        })
    }

    /// The media type of a stream.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self.framing {
            Framing::Sse => "text/event-stream",
            Framing::Array => "application/json",
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

    fn gemini(&self) -> gemini::Stamp<'_> {
        gemini::Stamp { id: &self.id, model: &self.model }
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
    Gemini(gemini::Writer),
}

impl Translator {
    /// Of one stream of `target`, told in `form`; `max_event`: the longest event in bytes.
    #[must_use]
    pub fn new(target: Target, form: Form, stamp: &Stamp, max_event: usize) -> Self {
        let writer = match form.api {
            Api::Openai => Writer::Openai(openai::chat::Writer::new(&stamp.openai(), form.include_usage)),
            Api::Anthropic => Writer::Anthropic(anthropic::Writer::new(&stamp.anthropic())),
            Api::Gemini => Writer::Gemini(gemini::Writer::new(&stamp.gemini(), form.framing)),
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
            Writer::Gemini(writer) => writer.fail(code, message, &mut out),
        }
        out.into()
    }

    fn told(&mut self) -> Result<Bytes, Untold> {
        let mut out = Vec::new();
        for event in self.events.drain(..) {
            match &mut self.writer {
                Writer::Openai(writer) => writer.write(&event, &mut out),
                Writer::Anthropic(writer) => writer.write(&event, &mut out),
                Writer::Gemini(writer) => writer.write(&event, &mut out),
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
