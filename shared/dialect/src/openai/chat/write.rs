//! A canonical call as a request to a target.

mod message;

use serde_json::{Map, Value, json};

use super::fidelity::fidelity;
use crate::canon::{
    Call, Effort, Facet, Format, Losses, Sampling, Schema, Thinking, Tool, ToolChoice, Unfit,
};

/// Below so many tokens of thinking, little effort comes nearest; and some effort below so many: a fifth and a half of 32,768, a
/// usual cap.
const LITTLE: u64 = 6_554;
const SOME: u64 = 16_384;

/// The field in which a target takes the output cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CapField {
    /// `max_tokens`, which all compatible servers know.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's reasoning models demand.
    MaxCompletionTokens,
}

/// Writes a request. A stream's usage is always asked for.
///
/// # Errors
/// [`Unfit`] names what the API cannot express.
pub fn write_call(call: &Call, cap: CapField, losses: &mut Losses) -> Result<Vec<u8>, Unfit> {
    let Call {
        model,
        stream,
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
    let messages = message::messages(system, turns, losses)?;
    let mut body = Out { fields: Map::new(), losses };
    body.put("model", model.as_str());
    body.put("messages", messages);
    if *stream {
        body.put("stream", true);
        body.put("stream_options", json!({"include_usage": true}));
    }
    body.tools(tools, tool_choice.as_ref(), *parallel_tools)?;
    let field = match cap {
        CapField::MaxTokens => "max_tokens",
        CapField::MaxCompletionTokens => "max_completion_tokens",
    };
    body.put_some(field, *max_tokens);
    let stops = (!stops.is_empty()).then(|| json!(stops));
    body.facet(Facet::Stops, "stop", stops)?;
    body.sampling(sampling)?;
    body.thinking(*thinking)?;
    body.format(format)?;
    body.facet(Facet::Answers, "n", (*answers > 1).then_some(*answers))?;
    body.logprobs(*logprobs)?;
    body.facet(Facet::User, "user", user.clone())?;
    body.facet(Facet::Metadata, "metadata", (!metadata.is_empty()).then(|| metadata.clone()))?;
    body.facet(Facet::ServiceTier, "service_tier", service_tier.clone())?;
    Ok(Value::Object(body.fields).to_string().into_bytes())
}

/// A request that is being written.
struct Out<'a> {
    fields: Map<String, Value>,
    losses: &'a mut Losses,
}

impl Out<'_> {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.fields.insert(name.to_owned(), value.into());
    }

    fn put_some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    /// Puts a field that is a facet, where the call has it.
    fn facet(&mut self, facet: Facet, name: &str, value: Option<impl Into<Value>>) -> Result<(), Unfit> {
        match value {
            Some(value) if self.losses.meet(facet, fidelity(facet))? => self.put(name, value),
            Some(_) | None => {}
        }
        Ok(())
    }

    fn tools(
        &mut self,
        tools: &[Tool],
        choice: Option<&ToolChoice>,
        parallel: Option<bool>,
    ) -> Result<(), Unfit> {
        let mut offered: Vec<&Tool> = tools.iter().collect();
        if let Some(ToolChoice::Named(names)) = choice
            && names.len() > 1
        {
            self.losses.meet(Facet::ToolChoiceSeveral, fidelity(Facet::ToolChoiceSeveral))?;
            offered.retain(|tool| names.contains(&tool.name));
        }
        let tools = offered.into_iter().map(|tool| self.tool(tool)).collect::<Result<Vec<_>, _>>()?;
        // Servers refuse a choice among no tools.
        if tools.is_empty() {
            return Ok(());
        }
        self.facet(Facet::Tools, "tools", Some(tools))?;
        match choice {
            None => {}
            Some(ToolChoice::Auto) => self.put("tool_choice", "auto"),
            Some(ToolChoice::None) => self.facet(Facet::ToolChoiceNone, "tool_choice", Some("none"))?,
            Some(ToolChoice::Any) => self.facet(Facet::ToolChoiceAny, "tool_choice", Some("required"))?,
            Some(ToolChoice::Named(names)) => self.named(names)?,
        }
        self.facet(Facet::ParallelTools, "parallel_tool_calls", parallel)
    }

    fn named(&mut self, names: &[String]) -> Result<(), Unfit> {
        let choice = match names {
            [name] => json!({"type": "function", "function": {"name": name}}),
            _several => "required".into(),
        };
        self.facet(Facet::ToolChoiceNamed, "tool_choice", Some(choice))
    }

    fn tool(&mut self, tool: &Tool) -> Result<Value, Unfit> {
        let Tool { name, description, schema, strict, cache } = tool;
        let mut function = Map::new();
        function.insert("name".to_owned(), name.as_str().into());
        if let Some(description) = description {
            function.insert("description".to_owned(), description.as_str().into());
        }
        if let Some(schema) = schema {
            function.insert("parameters".to_owned(), schema.clone());
        }
        if let Some(strict) = strict
            && self.losses.meet(Facet::ToolStrict, fidelity(Facet::ToolStrict))?
        {
            function.insert("strict".to_owned(), (*strict).into());
        }
        if *cache {
            self.losses.meet(Facet::CacheMark, fidelity(Facet::CacheMark))?;
        }
        Ok(json!({"type": "function", "function": function}))
    }

    fn sampling(&mut self, sampling: &Sampling) -> Result<(), Unfit> {
        let Sampling {
            temperature,
            top_p,
            top_k,
            min_p,
            seed,
            frequency_penalty,
            presence_penalty,
            repetition_penalty,
            logit_bias,
        } = sampling;
        self.facet(Facet::Temperature, "temperature", temperature.clone())?;
        self.facet(Facet::TopP, "top_p", top_p.clone())?;
        self.facet(Facet::TopK, "top_k", top_k.clone())?;
        self.facet(Facet::MinP, "min_p", min_p.clone())?;
        self.facet(Facet::Seed, "seed", seed.clone())?;
        self.facet(Facet::FrequencyPenalty, "frequency_penalty", frequency_penalty.clone())?;
        self.facet(Facet::PresencePenalty, "presence_penalty", presence_penalty.clone())?;
        self.facet(Facet::RepetitionPenalty, "repetition_penalty", repetition_penalty.clone())?;
        self.facet(Facet::LogitBias, "logit_bias", (!logit_bias.is_empty()).then(|| logit_bias.clone()))
    }

    fn thinking(&mut self, thinking: Option<Thinking>) -> Result<(), Unfit> {
        let (facet, effort) = match thinking {
            None => return Ok(()),
            Some(Thinking::Off) => (Facet::ThinkingOff, "none"),
            Some(Thinking::Adaptive) => (Facet::ThinkingAdaptive, "medium"),
            Some(Thinking::Effort(effort)) => (Facet::ThinkingEffort, word(effort)),
            Some(Thinking::Budget(..LITTLE)) => (Facet::ThinkingBudget, "low"),
            Some(Thinking::Budget(LITTLE..SOME)) => (Facet::ThinkingBudget, "medium"),
            Some(Thinking::Budget(SOME..)) => (Facet::ThinkingBudget, "high"),
        };
        self.facet(facet, "reasoning_effort", Some(effort))
    }

    fn format(&mut self, format: &Format) -> Result<(), Unfit> {
        match format {
            Format::Text => Ok(()),
            Format::Json => {
                self.facet(Facet::JsonObject, "response_format", Some(json!({"type": "json_object"})))
            }
            Format::Schema(schema) => {
                self.facet(Facet::JsonSchema, "response_format", Some(by_schema(schema)))
            }
        }
    }

    fn logprobs(&mut self, top: Option<u8>) -> Result<(), Unfit> {
        let Some(top) = top else { return Ok(()) };
        self.facet(Facet::Logprobs, "logprobs", Some(true))?;
        self.facet(Facet::Logprobs, "top_logprobs", (top > 0).then_some(top))
    }
}

const fn word(effort: Effort) -> &'static str {
    match effort {
        Effort::Minimal => "minimal",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::Max => "xhigh",
    }
}

fn by_schema(schema: &Schema) -> Value {
    let Schema { name, description, schema, strict } = schema;
    let name = if name.is_empty() { "answer" } else { name };
    let mut inner = json!({"name": name, "schema": schema});
    if let Some(inner) = inner.as_object_mut() {
        if let Some(description) = description {
            inner.insert("description".to_owned(), description.as_str().into());
        }
        if let Some(strict) = strict {
            inner.insert("strict".to_owned(), (*strict).into());
        }
    }
    json!({"type": "json_schema", "json_schema": inner})
}
