//! A canonical call as a request to a target, and what is guessed of its model from the model's name.

use super::Target;
use crate::canon::{Call, Embed, Losses, Unfit};
use crate::openai::chat::CapField;
use crate::{anthropic, gemini, openai};

impl Target {
    /// Writes a conversation. `most`: the most tokens that the model answers with, for a call that says nothing of it.
    ///
    /// # Errors
    /// [`Unfit`] names what the API cannot express.
    pub fn write_call(self, call: &Call, most: Option<u64>, losses: &mut Losses) -> Result<Vec<u8>, Unfit> {
        match self {
            Self::Openai => openai::chat::write_call(call, CapField::default(), losses),
            Self::Anthropic => {
                let thinks = anthropic::Thinks::of(&call.model);
                anthropic::write_call(call, anthropic::Target { max_tokens: most, thinks }, losses)
            }
            Self::Gemini => gemini::write_call(call, gemini::Target::of(&call.model), losses),
        }
    }

    /// Writes texts to be embedded.
    ///
    /// # Errors
    /// [`Unfit`] names what the API cannot express; Anthropic's has no embeddings.
    pub fn write_embeddings_call(self, embed: &Embed, losses: &mut Losses) -> Result<Vec<u8>, Unfit> {
        match self {
            Self::Openai => Ok(openai::write_embeddings_call(embed, losses)),
            Self::Anthropic => {
                Err(Unfit::new("model", "speaks an API without embeddings; name one that embeds"))
            }
            Self::Gemini => gemini::write_embeddings_call(embed, losses),
        }
    }
}
