//! Answers of targets that speak another API than their caller: read from the target's, written in the caller's, whole or
//! event by event. An answer in the caller's own API never comes here.

use bytes::Bytes;
use dialect::openai::{BadReply, Encoding, write_embeddings};
use dialect::{Api, Stamp, Target, Translator, Untold};
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
    encoding: Encoding,
    include_usage: bool,
    stamp: Stamp,
}

impl Telling {
    /// Of the answer of a target to `call`, whose vectors are wanted in an `encoding`.
    pub(crate) fn of(target: Target, arrival: &Arrival, call: &Call, encoding: Encoding) -> Self {
        let stamp = Stamp {
            id: format!("chatcmpl-{}", arrival.request),
            created: arrival.at.as_millis() / 1_000,
            model: call.model().to_owned(),
        };
        Self { target, operation: call.operation(), encoding, include_usage: call.include_usage(), stamp }
    }

    /// A whole answer.
    ///
    /// # Errors
    /// [`BadReply`] when it is none.
    pub(crate) fn whole(&self, body: &[u8]) -> Result<Bytes, BadReply> {
        let told = match self.operation {
            Operation::Chat => Api::Openai.write_answer(&self.target.read_answer(body)?, &self.stamp),
            Operation::Embeddings => {
                write_embeddings(&self.target.read_embeddings(body)?, self.encoding, &self.stamp.model)
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
        Translator::new((self.target, Api::Openai), &self.stamp, self.include_usage, MAX_EVENT)
    }
}
