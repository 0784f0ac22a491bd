//! A call of another API than OpenAI's: read once into the canonical call, of which its form as an OpenAI call is made once.
//! What counts, bounds and routes calls looks at that form; a target of OpenAI's API is sent it, patched.

use std::collections::BTreeSet;

use bytes::Bytes;
use dialect::canon::{self, Embed, Losses, Unfit};
use dialect::gemini::{self, Batch};
use dialect::{Place, Target};
use edge_core::bound::Bound;
use wire::catalog::{Feature, Model};

use crate::ingress::{Asks, Verb};

/// What its caller said.
#[derive(Debug)]
pub(super) struct Foreign {
    said: Said,
    /// What was lost when it was read.
    read: Losses,
    /// The same, and what its form as an OpenAI call lacks.
    formed: Losses,
    /// Its body, which keeps the room that its form takes as much of.
    body: Bytes,
}

#[derive(Debug)]
enum Said {
    Chat(Box<canon::Call>),
    Embed(Embed),
}

impl Foreign {
    /// Reads a call, and gives its form as an OpenAI call.
    ///
    /// # Errors
    /// [`Unfit`] names the field at fault, as its caller does.
    pub(super) fn read(asks: &Asks, body: Bytes) -> Result<(Self, Bytes), Unfit> {
        let api = asks.form.api;
        let mut read = api.losses();
        let place = Place { model: &asks.model, stream: asks.verb == Verb::Stream };
        let said = match asks.verb {
            Verb::Answer | Verb::Stream => Said::Chat(Box::new(api.read_call(place, &body, &mut read)?)),
            Verb::Count => Said::Chat(Box::new(api.read_count(&asks.model, &body, &mut read)?)),
            Verb::Embed => {
                Said::Embed(gemini::read_embeddings_call(&asks.model, Batch::One, &body, &mut read)?)
            }
            Verb::EmbedBatch => {
                Said::Embed(gemini::read_embeddings_call(&asks.model, Batch::Many, &body, &mut read)?)
            }
        };
        let mut formed = read.clone();
        let form = match &said {
            Said::Chat(call) => Target::Openai.write_call(call, None, &mut formed)?,
            Said::Embed(embed) => Target::Openai.write_embeddings_call(embed, &mut formed)?,
        };
        Ok((Self { said, read, formed, body }, form.into()))
    }

    /// Length of its body in bytes.
    pub(super) const fn len(&self) -> usize {
        self.body.len()
    }

    /// What a target of OpenAI's API does not get of it.
    pub(super) const fn lost(&self) -> &Losses {
        &self.formed
    }

    /// The call as a target of another API than OpenAI's is sent it, and what that does not get of it.
    ///
    /// # Errors
    /// [`Unfit`] names what the target's API cannot express, as the caller does.
    pub(super) fn written(
        &self,
        target: Target,
        (model, bound): (&Model, &Bound),
        off: &BTreeSet<Feature>,
    ) -> Result<(Bytes, Losses), Unfit> {
        let mut losses = self.read.clone();
        let name = model.upstream_name().to_owned();
        let body = match &self.said {
            Said::Chat(call) => {
                let mut call = canon::Call { model: name, ..(**call).clone() };
                leave_out(&mut call, off);
                if let Some(cap) = bound.wire_cap {
                    call.max_tokens = Some(call.max_tokens.map_or(cap.0, |most| most.min(cap.0)));
                }
                target.write_call(&call, model.output_cap.map(|most| most.0), &mut losses)?
            }
            Said::Embed(embed) => {
                let embed = Embed { model: name, ..embed.clone() };
                target.write_embeddings_call(&embed, &mut losses)?
            }
        };
        Ok((body.into(), losses))
    }
}

/// Leaves out the features that are off.
fn leave_out(call: &mut canon::Call, off: &BTreeSet<Feature>) {
    for feature in off {
        match feature {
            Feature::Tools => {
                call.tools.clear();
                (call.tool_choice, call.parallel_tools) = (None, None);
            }
            Feature::Choices => call.answers = 1,
            Feature::Reasoning => call.thinking = None,
            // A call that has them needs them.
            Feature::Images | Feature::Audio => {}
        }
    }
}
