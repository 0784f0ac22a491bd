//! A canonical call as a request to a target.

mod block;
mod options;
mod thinking;
mod turn;

use serde_json::{Map, Value};

use super::fidelity::fidelity;
use crate::canon::{Call, Facet, Format, Losses, Unfit};

/// The version from which on models are told to think by effort.
const FIRST_BY_EFFORT: (u8, u8) = (4, 6);

/// What the target's model is like, where the API's models differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The most tokens that it can answer with: the API demands a cap, and this is that of a call without one.
    pub max_tokens: Option<u64>,
    /// How it is told to think.
    pub thinks: Thinks,
}

/// How a model is told to think; one takes nothing of the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thinks {
    /// By effort, as models do since Claude Opus 4.6.
    #[default]
    ByEffort,
    /// Within a budget of tokens, as models before it do.
    ByBudget,
}

impl Thinks {
    /// How the model of this name is told, by the version in it. Servers of other models take a budget, if they take any.
    #[must_use]
    pub fn of(model: &str) -> Self {
        // Longer numbers are dates.
        let digits = model.split(|character: char| !character.is_ascii_digit());
        let mut version =
            digits.filter(|digits| digits.len() <= 2).filter_map(|digits| digits.parse::<u8>().ok());
        let version = version.next().map(|major| (major, version.next().unwrap_or(0)));
        let since = version.is_none_or(|version| version >= FIRST_BY_EFFORT);
        if since && model.contains("claude") { Self::ByEffort } else { Self::ByBudget }
    }
}

/// Writes a request for an answer. A call without a cap gets the model's own: it may then write as much as it could
/// elsewhere. Where that is not known the call is refused, since any other number would cut answers unasked.
///
/// # Errors
/// [`Unfit`] names what the API cannot express.
pub fn write_call(call: &Call, target: Target, losses: &mut Losses) -> Result<Vec<u8>, Unfit> {
    let max_tokens = call.max_tokens.or(target.max_tokens);
    let max_tokens = max_tokens.ok_or_else(|| {
        Unfit::new(
            "max_tokens",
            "is missing, and this model's API demands it; say how long the answer may be",
        )
    })?;
    let Call {
        model,
        stream,
        system,
        turns,
        tools,
        tool_choice,
        parallel_tools,
        max_tokens: _,
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
    let mut body = Out::of(model, losses);
    body.put("max_tokens", max_tokens);
    body.put_some("stream", stream.then_some(true));
    body.conversation(system, turns)?;
    body.tools(tools, tool_choice.as_ref(), *parallel_tools)?;
    body.thinking(*thinking, target.thinks, Some(max_tokens), tool_choice.as_ref())?;
    body.sampling(sampling)?;
    body.stops(stops)?;
    body.format(format)?;
    body.only_one(*answers, *logprobs)?;
    body.notes(user.as_deref(), metadata, service_tier.as_deref())?;
    Ok(body.bytes())
}

/// Writes a request to count a call's tokens. What the count does not depend on is left out, and is no loss.
///
/// # Errors
/// [`Unfit`] names what the API cannot express.
pub fn write_count(call: &Call, target: Target, losses: &mut Losses) -> Result<Vec<u8>, Unfit> {
    let Call {
        model,
        stream: _,
        system,
        turns,
        tools,
        tool_choice,
        parallel_tools,
        max_tokens: _,
        stops: _,
        sampling: _,
        thinking,
        format,
        answers: _,
        logprobs: _,
        user: _,
        metadata: _,
        service_tier: _,
    } = call;
    let mut body = Out::of(model, losses);
    body.conversation(system, turns)?;
    body.tools(tools, tool_choice.as_ref(), *parallel_tools)?;
    body.thinking(*thinking, target.thinks, None, tool_choice.as_ref())?;
    if matches!(format, Format::Schema(_)) {
        body.format(format)?;
    }
    Ok(body.bytes())
}

/// A request that is being written.
struct Out<'a> {
    fields: Map<String, Value>,
    /// `output_config`, which holds more than one of the call's facets.
    config: Map<String, Value>,
    /// Whether the model is told to think; other options are refused beside it.
    thinks: bool,
    losses: &'a mut Losses,
}

impl<'a> Out<'a> {
    fn of(model: &str, losses: &'a mut Losses) -> Self {
        let mut out = Self { fields: Map::new(), config: Map::new(), thinks: false, losses };
        out.put("model", model);
        out
    }

    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.fields.insert(name.to_owned(), value.into());
    }

    fn put_some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    fn meet(&mut self, facet: Facet) -> Result<bool, Unfit> {
        self.losses.meet(facet, fidelity(facet))
    }

    /// The field of a facet is not carried, for a reason that lies in this call.
    fn lose(&mut self, facet: Facet, became: &'static str) {
        self.losses.drop(self.losses.field(facet), became);
    }

    fn bytes(mut self) -> Vec<u8> {
        if !self.config.is_empty() {
            let config = std::mem::take(&mut self.config);
            self.put("output_config", config);
        }
        Value::Object(self.fields).to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_model_thinks_follows_from_its_name() {
        for name in ["claude-opus-4-6", "claude-sonnet-4-6-20260101", "claude-opus-5", "claude-latest"] {
            assert_eq!(Thinks::of(name), Thinks::ByEffort, "{name}");
        }
        for name in [
            "claude-3-7-sonnet-20250219",
            "claude-opus-4-20250514",
            "claude-haiku-4-5-20251001",
            "anthropic.claude-sonnet-4-5-20250929-v1:0",
            "qwen3-8b",
        ] {
            assert_eq!(Thinks::of(name), Thinks::ByBudget, "{name}");
        }
    }
}
