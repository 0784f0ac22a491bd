//! Answers of the other kind than was asked for, by way of the canonical answer and stream.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{Reader, Target};
use crate::canon::{Answer, Event, Gather, spread};
use crate::openai::{BadReply, StreamFault};
use crate::sse::{Data, Judged, Splitter, read_event};
use crate::{anthropic, gemini, openai};

impl Target {
    /// Whether a body is a stream, whatever it is labelled.
    #[must_use]
    pub fn is_stream(self, body: &[u8]) -> bool {
        // A server that does not know `alt=sse` strings its responses together as a JSON array.
        openai::is_stream(body) || (self == Self::Gemini && body.trim_ascii_start().starts_with(b"["))
    }

    /// A stream as one answer of the same API.
    ///
    /// # Errors
    /// [`BadReply`] when it holds none, is not whole, or holds an error.
    pub fn whole_of_stream(self, stream: &[u8]) -> Result<Bytes, BadReply> {
        match self {
            Self::Openai => openai::whole_of_stream(stream).ok_or(BadReply::Malformed),
            Self::Anthropic => {
                let stamp = anthropic::Stamp { id: "", model: "" };
                Ok(anthropic::write_answer(&self.gathered(stream)?, &stamp).into())
            }
            Self::Gemini => {
                let stamp = gemini::Stamp { id: "", model: "" };
                Ok(gemini::write_answer(&self.gathered(stream)?, &stamp).into())
            }
        }
    }

    /// One answer as a stream of the same API, its usage only where it was asked for, if it can be; `None` when it is none.
    #[must_use]
    pub fn stream_of_whole(self, body: &[u8], with_usage: bool) -> Option<Bytes> {
        let mut out = Vec::new();
        match self {
            Self::Openai => return openai::stream_of_whole(body, with_usage),
            Self::Anthropic => {
                let mut writer = anthropic::Writer::new(&anthropic::Stamp { id: "", model: "" });
                self.events(body)?.iter().for_each(|event| writer.write(event, &mut out));
            }
            Self::Gemini => {
                let stamp = gemini::Stamp { id: "", model: "" };
                let mut writer = gemini::Writer::new(&stamp, gemini::Framing::Sse);
                self.events(body)?.iter().for_each(|event| writer.write(event, &mut out));
            }
        }
        Some(out.into())
    }

    fn events(self, body: &[u8]) -> Option<Vec<Event>> {
        self.read_answer(body).ok().map(|answer| spread(&answer))
    }

    fn gathered(self, stream: &[u8]) -> Result<Answer, BadReply> {
        let (mut reader, mut events) = (Reader::of(self), Vec::new());
        let mut read = |kind: Option<&[u8]>, data: &[u8]| reader.read(kind, data, &mut events);
        let mut fault = Ok(());
        if openai::is_stream(stream) {
            let each = |event: &[u8]| {
                let event = read_event(event);
                let judged = match event.data {
                    Data::Absent => Ok(()),
                    Data::One(data) => read(event.kind, data),
                    Data::Many(lines) => read(event.kind, &lines.join(&b'\n')),
                };
                match judged {
                    Ok(()) => Judged::Drop,
                    Err(found) => {
                        fault = Err(found);
                        Judged::Stop
                    }
                }
            };
            let whole = [stream, b"\n\n"].concat().into();
            let split = Splitter::new(stream.len().saturating_add(2)).push(&whole, each, drop);
            split.map_err(|_too_long| BadReply::Malformed)?;
        } else {
            let items: Vec<&RawValue> =
                serde_json::from_slice(stream).map_err(|_not_json| BadReply::Malformed)?;
            fault = items.iter().try_for_each(|item| read(None, item.get().as_bytes()));
        }
        fault.and_then(|()| reader.close(&mut events)).map_err(bad)?;
        let mut gather = Gather::default();
        for event in events {
            gather.add(event).map_err(|_out_of_order| BadReply::Malformed)?;
        }
        Ok(gather.answer())
    }
}

fn bad(fault: StreamFault) -> BadReply {
    match fault {
        StreamFault::Error(error) => BadReply::Error(error),
        StreamFault::Malformed | StreamFault::Cut => BadReply::Malformed,
    }
}
