//! A canonical call as a request to a target.

mod config;
mod contents;
mod tools;

use serde_json::{Map, Value, json};

use super::Target;
use super::fidelity::fidelity;
use crate::canon::{Call, Facet, Losses, Unfit};

/// Writes a request. The model and whether to stream stand in its URL.
///
/// # Errors
/// [`Unfit`] names what the API cannot express.
pub fn write_call(call: &Call, target: Target, losses: &mut Losses) -> Result<Vec<u8>, Unfit> {
    Ok(Value::Object(write_body(call, target, losses)?).to_string().into_bytes())
}

/// Writes the body of a request.
pub(super) fn write_body(
    call: &Call,
    target: Target,
    losses: &mut Losses,
) -> Result<Map<String, Value>, Unfit> {
    let Call {
        model: _,
        stream: _,
        system,
        turns,
        tools,
        tool_choice,
        parallel_tools,
        max_tokens,
        stops,
        sampling,
        thinking,
        format,
        answers,
        logprobs,
        user,
        metadata,
        service_tier,
    } = call;
    let mut body = Map::new();
    let (instructions, contents) = contents::contents(system, turns, target, losses)?;
    if !instructions.is_empty() {
        body.insert("systemInstruction".to_owned(), json!({"parts": instructions}));
    }
    body.insert("contents".to_owned(), contents);
    body.extend(tools::tools(tools, tool_choice.as_ref(), *parallel_tools, target, losses)?);
    let mut config = config::Config::new(target, losses);
    config.limits(*max_tokens, stops, *answers)?;
    config.sampling(sampling)?;
    config.thinking(*thinking)?;
    config.format(format)?;
    config.logprobs(*logprobs)?;
    let config = config.fields();
    if !config.is_empty() {
        body.insert("generationConfig".to_owned(), config.into());
    }
    let notes = [user.is_some(), !metadata.is_empty(), service_tier.is_some()];
    for (facet, given) in [Facet::User, Facet::Metadata, Facet::ServiceTier].into_iter().zip(notes) {
        if given {
            losses.meet(facet, fidelity(facet))?;
        }
    }
    Ok(body)
}
