//! Tools, sampling, the answer's form, and notes.

use serde_json::{Map, Number, Value, json};

use super::Out;
use super::block::marked;
use crate::canon::{Facet, Format, Sampling, Schema, Tool, ToolChoice, Unfit};

const NO_TOOL: &str = "asks for a call of a tool, and there is none; give `tools`";
const BLANK: &str = "texts without a visible character are left out: this API takes none";
const HOT: &str = "lowered to 1, the most that this API takes";
const THINKS: &str = "a model that thinks first draws as it does by itself";
const TIER: &str = "the provider has no such class";

impl Out<'_> {
    /// Puts tools and the choice among them.
    pub(super) fn tools(
        &mut self,
        tools: &[Tool],
        choice: Option<&ToolChoice>,
        parallel: Option<bool>,
    ) -> Result<(), Unfit> {
        let offered: Vec<&Tool> = match choice {
            Some(ToolChoice::Named(names)) if names.len() > 1 => {
                self.meet(Facet::ToolChoiceSeveral)?;
                tools.iter().filter(|tool| names.contains(&tool.name)).collect()
            }
            Some(_) | None => tools.iter().collect(),
        };
        if offered.is_empty() {
            return self.no_tools(choice);
        }
        self.meet(Facet::Tools)?;
        let tools = offered.into_iter().map(|tool| self.tool(tool)).collect::<Result<Vec<_>, _>>()?;
        self.put("tools", tools);
        self.choice(choice, parallel)
    }

    /// A choice among no tools is none, and the API refuses it.
    fn no_tools(&self, choice: Option<&ToolChoice>) -> Result<(), Unfit> {
        let facet = match choice {
            None | Some(ToolChoice::Auto | ToolChoice::None) => return Ok(()),
            Some(ToolChoice::Any) => Facet::ToolChoiceAny,
            Some(ToolChoice::Named(_)) => Facet::ToolChoiceNamed,
        };
        Err(Unfit::new(self.losses.field(facet), NO_TOOL))
    }

    fn tool(&mut self, tool: &Tool) -> Result<Value, Unfit> {
        let Tool { name, description, schema, strict, cache } = tool;
        let mut fields = Map::new();
        fields.insert("name".to_owned(), name.as_str().into());
        if let Some(description) = description {
            fields.insert("description".to_owned(), description.as_str().into());
        }
        fields.insert("input_schema".to_owned(), input_schema(schema.as_ref()));
        if let Some(strict) = strict
            && self.meet(Facet::ToolStrict)?
        {
            fields.insert("strict".to_owned(), (*strict).into());
        }
        marked(Value::Object(fields), *cache, self.losses)
    }

    fn choice(&mut self, choice: Option<&ToolChoice>, parallel: Option<bool>) -> Result<(), Unfit> {
        let mut written = match choice {
            None | Some(ToolChoice::Auto) => json!({"type": "auto"}),
            Some(ToolChoice::None) => {
                self.meet(Facet::ToolChoiceNone)?;
                json!({"type": "none"})
            }
            Some(ToolChoice::Any) => {
                self.meet(Facet::ToolChoiceAny)?;
                json!({"type": "any"})
            }
            Some(ToolChoice::Named(names)) => {
                self.meet(Facet::ToolChoiceNamed)?;
                match names.as_slice() {
                    [name] => json!({"type": "tool", "name": name}),
                    _several => json!({"type": "any"}),
                }
            }
        };
        // Where no tool may be called, how many at once is no question.
        let parallel = parallel.filter(|_any| choice != Some(&ToolChoice::None));
        if let (Some(parallel), Some(fields)) = (parallel, written.as_object_mut())
            && self.meet(Facet::ParallelTools)?
        {
            fields.insert("disable_parallel_tool_use".to_owned(), (!parallel).into());
        }
        if choice.is_some() || parallel.is_some() {
            self.put("tool_choice", written);
        }
        Ok(())
    }

    /// Puts how tokens are drawn; comes after what says whether the model thinks.
    pub(super) fn sampling(&mut self, sampling: &Sampling) -> Result<(), Unfit> {
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
        let temperature = temperature.clone().map(|number| self.cooled(number));
        // 1 is what the API does by itself, and some models refuse it beside a temperature.
        let top_p = top_p.clone().filter(|share| share.as_f64() != Some(1.0));
        self.drawn(Facet::Temperature, "temperature", temperature, |value| value >= 1.0)?;
        self.drawn(Facet::TopP, "top_p", top_p, |value| value >= 0.95)?;
        self.drawn(Facet::TopK, "top_k", top_k.clone(), |_value| false)?;
        for (facet, number, idle) in [
            (Facet::MinP, min_p, 0.0),
            (Facet::Seed, seed, f64::NAN),
            (Facet::FrequencyPenalty, frequency_penalty, 0.0),
            (Facet::PresencePenalty, presence_penalty, 0.0),
            (Facet::RepetitionPenalty, repetition_penalty, 1.0),
        ] {
            if number.as_ref().is_some_and(|number| number.as_f64() != Some(idle)) {
                self.meet(facet)?;
            }
        }
        if !logit_bias.is_empty() {
            self.meet(Facet::LogitBias)?;
        }
        Ok(())
    }

    /// The temperature within the API's range.
    fn cooled(&mut self, temperature: Number) -> Number {
        if temperature.as_f64().is_some_and(|value| value > 1.0) {
            self.lose(Facet::Temperature, HOT);
            return 1.into();
        }
        temperature
    }

    /// Puts a number, unless the model thinks and `beside` does not hold.
    fn drawn(
        &mut self,
        facet: Facet,
        name: &str,
        number: Option<Number>,
        beside: fn(f64) -> bool,
    ) -> Result<(), Unfit> {
        let Some(number) = number else { return Ok(()) };
        if self.thinks && !number.as_f64().is_some_and(beside) {
            self.lose(facet, THINKS);
        } else if self.meet(facet)? {
            self.put(name, number);
        }
        Ok(())
    }

    /// Puts the texts that end an answer.
    pub(super) fn stops(&mut self, stops: &[String]) -> Result<(), Unfit> {
        let visible: Vec<_> = stops.iter().filter(|text| !text.trim().is_empty()).collect();
        if visible.len() < stops.len() {
            self.lose(Facet::Stops, BLANK);
        }
        if !visible.is_empty() && self.meet(Facet::Stops)? {
            self.put("stop_sequences", json!(visible));
        }
        Ok(())
    }

    /// Puts what the answer's text must be.
    pub(super) fn format(&mut self, format: &Format) -> Result<(), Unfit> {
        match format {
            Format::Text => {}
            Format::Json => {
                self.meet(Facet::JsonObject)?;
            }
            Format::Schema(schema) => {
                if self.meet(Facet::JsonSchema)? {
                    let format = json!({"type": "json_schema", "schema": described(schema)});
                    self.config.insert("format".to_owned(), format);
                }
            }
        }
        Ok(())
    }

    /// What no call of this API can ask.
    pub(super) fn only_one(&mut self, answers: u32, logprobs: Option<u8>) -> Result<(), Unfit> {
        if answers > 1 {
            self.meet(Facet::Answers)?;
        }
        if logprobs.is_some() {
            self.meet(Facet::Logprobs)?;
        }
        Ok(())
    }

    /// Puts who asks, and for what class of service.
    pub(super) fn notes(
        &mut self,
        user: Option<&str>,
        metadata: &Map<String, Value>,
        tier: Option<&str>,
    ) -> Result<(), Unfit> {
        if let Some(user) = user
            && self.meet(Facet::User)?
        {
            self.put("metadata", json!({"user_id": user}));
        }
        if !metadata.is_empty() {
            self.meet(Facet::Metadata)?;
        }
        let tier = match tier {
            None => None,
            Some("auto") => Some("auto"),
            // What others call their default is the class without a priority.
            Some("standard_only" | "default" | "standard") => Some("standard_only"),
            Some(_other) => {
                self.lose(Facet::ServiceTier, TIER);
                None
            }
        };
        if let Some(tier) = tier
            && self.meet(Facet::ServiceTier)?
        {
            self.put("service_tier", tier);
        }
        Ok(())
    }
}

/// The API wants an object's schema, of tools without arguments too.
fn input_schema(schema: Option<&Value>) -> Value {
    let mut schema = schema.cloned().unwrap_or_else(|| json!({"properties": {}}));
    if let Some(fields) = schema.as_object_mut() {
        fields.entry("type").or_insert_with(|| "object".into());
    }
    schema
}

/// The schema with what it is for. Its name is a label that the model does not need; that it is strict, the API promises.
fn described(schema: &Schema) -> Value {
    let Schema { name: _, description, schema, strict: _ } = schema;
    let mut schema = schema.clone();
    if let (Some(description), Some(fields)) = (description, schema.as_object_mut()) {
        fields.entry("description").or_insert_with(|| description.as_str().into());
    }
    schema
}
