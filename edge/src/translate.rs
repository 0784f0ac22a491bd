//! Answers of targets that speak another API than their caller: read from the target's, written in the caller's, whole or
//! event by event. An answer in the caller's own API never comes here.

use bytes::Bytes;
use dialect::gemini::{self, Batch};
use dialect::openai::{BadReply, Encoding, write_embeddings};
use dialect::{Api, Form, Stamp, Target, Translator, Untold};
use wire::catalog::Operation;

use crate::convert::Call;
use crate::ingress::Arrival;

/// Longest event of a target, in bytes; egress lets none pass that is longer.
const MAX_EVENT: usize = 1 << 20;

/// Longest whole answer that is translated, in bytes; egress lets none pass that is longer.
pub(crate) const MAX_WHOLE: usize = 32 << 20;

/// How one answer is told to its caller.
#[derive(Clone, Debug)]
pub(crate) struct Telling {
    target: Target,
    operation: Operation,
    form: Form,
    encoding: Encoding,
    batch: Batch,
    stamp: Stamp,
}

impl Telling {
    /// Of the answer of a target to `call`, whose vectors are wanted in an `encoding`.
    pub(crate) fn of(target: Target, arrival: &Arrival, call: &Call, encoding: Encoding) -> Self {
        let form = call.form();
        let prefix = match form.api {
            Api::Openai => "chatcmpl-",
            Api::Anthropic => "msg_",
            Api::Gemini => "",
        };
        let stamp = Stamp {
            id: format!("{prefix}{}", arrival.request),
            created: arrival.at.as_millis() / 1_000,
            model: call.model().to_owned(),
        };
        Self { target, operation: call.operation(), form, encoding, batch: call.batch(), stamp }
    }

    /// A whole answer.
    ///
    /// # Errors
    /// [`BadReply`] when it is none.
    pub(crate) fn whole(&self, body: &[u8]) -> Result<Bytes, BadReply> {
        let told = match self.operation {
            Operation::Chat => self.form.api.write_answer(&self.target.read_answer(body)?, &self.stamp),
            Operation::Embeddings => {
                let vectors = self.target.read_embeddings(body)?;
                match self.form.api {
                    Api::Gemini => gemini::write_embeddings(&vectors, self.batch),
                    Api::Openai | Api::Anthropic => {
                        write_embeddings(&vectors, self.encoding, &self.stamp.model)
                    }
                }
            }
        };
        Ok(told.into())
    }

    /// A stream that is all at hand.
    ///
    /// # Errors
    /// [`Untold`] when it is none of its kind.
    pub(crate) fn at_once(&self, events: &Bytes) -> Result<Bytes, Untold> {
        let mut stream = self.stream();
        Ok([stream.push(events)?, stream.finish()?].concat().into())
    }

    /// A stream as it comes.
    pub(crate) fn stream(&self) -> Translator {
        Translator::new(self.target, self.form, &self.stamp, MAX_EVENT)
    }
}
