//! The `generationConfig` of a request.

use serde_json::{Map, Number, Value, json};

use crate::canon::{Effort, Facet, Format, Losses, Sampling, Schema, Thinking, Unfit};
use crate::gemini::fidelity::fidelity;
use crate::gemini::{Line, Schemas, Target, schema};

/// Most texts that end an answer which the API takes (its reference of `GenerationConfig`).
const MOST_STOPS: usize = 5;

/// A configuration that is being written.
pub(super) struct Config<'a> {
    target: Target,
    fields: Map<String, Value>,
    losses: &'a mut Losses,
}

impl<'a> Config<'a> {
    pub(super) fn new(target: Target, losses: &'a mut Losses) -> Self {
        Self { target, fields: Map::new(), losses }
    }

    pub(super) fn fields(self) -> Map<String, Value> {
        self.fields
    }

    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.fields.insert(name.to_owned(), value.into());
    }

    /// Puts a field that is a facet, where the call has it.
    fn facet(&mut self, facet: Facet, name: &str, value: Option<impl Into<Value>>) -> Result<(), Unfit> {
        match value {
            Some(value) if self.losses.meet(facet, fidelity(facet))? => self.put(name, value),
            Some(_) | None => {}
        }
        Ok(())
    }

    pub(super) fn limits(
        &mut self,
        max_tokens: Option<u64>,
        stops: &[String],
        answers: u32,
    ) -> Result<(), Unfit> {
        if let Some(most) = max_tokens {
            self.put("maxOutputTokens", most);
        }
        // An empty text ends nothing.
        let stops: Vec<_> = stops.iter().filter(|stop| !stop.is_empty()).cloned().collect();
        if stops.len() > MOST_STOPS {
            let field = self.losses.field(Facet::Stops);
            return Err(Unfit::new(field, "holds more than 5 texts, which this model's API does not take"));
        }
        self.facet(Facet::Stops, "stopSequences", (!stops.is_empty()).then_some(stops))?;
        self.facet(Facet::Answers, "candidateCount", (answers > 1).then_some(answers))
    }

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
        self.facet(Facet::Temperature, "temperature", temperature.clone())?;
        self.facet(Facet::TopP, "topP", top_p.clone())?;
        self.facet(Facet::TopK, "topK", top_k.clone())?;
        self.facet(Facet::MinP, "minP", min_p.clone())?;
        self.facet(Facet::Seed, "seed", seed.as_ref().map(folded))?;
        self.facet(Facet::FrequencyPenalty, "frequencyPenalty", frequency_penalty.clone())?;
        self.facet(Facet::PresencePenalty, "presencePenalty", presence_penalty.clone())?;
        self.facet(Facet::RepetitionPenalty, "repetitionPenalty", repetition_penalty.clone())?;
        let bias = (!logit_bias.is_empty()).then(|| logit_bias.clone());
        self.facet(Facet::LogitBias, "logitBias", bias)
    }

    /// Whoever says how much to think sees the thoughts, as other APIs show them.
    pub(super) fn thinking(&mut self, thinking: Option<Thinking>) -> Result<(), Unfit> {
        let Some(thinking) = thinking else { return Ok(()) };
        let (facet, config) = match (thinking, self.target.line) {
            (Thinking::Off, Line::Budgets) => (Facet::ThinkingOff, json!({"thinkingBudget": 0})),
            (Thinking::Off, Line::Levels | Line::TwoLevels) => {
                let least = level(Effort::Minimal, self.target.line);
                (Facet::ThinkingOff, json!({"thinkingLevel": least}))
            }
            (Thinking::Adaptive, _) => {
                (Facet::ThinkingAdaptive, json!({"thinkingBudget": -1, "includeThoughts": true}))
            }
            (Thinking::Budget(tokens), _) => {
                (Facet::ThinkingBudget, json!({"thinkingBudget": tokens, "includeThoughts": true}))
            }
            (Thinking::Effort(effort), line @ (Line::Levels | Line::TwoLevels)) => {
                let level = level(effort, line);
                (Facet::ThinkingEffort, json!({"thinkingLevel": level, "includeThoughts": true}))
            }
            (Thinking::Effort(effort), Line::Budgets) => {
                (Facet::ThinkingEffort, json!({"thinkingBudget": tokens(effort), "includeThoughts": true}))
            }
        };
        self.facet(facet, "thinkingConfig", Some(config))
    }

    pub(super) fn format(&mut self, format: &Format) -> Result<(), Unfit> {
        match format {
            Format::Text => Ok(()),
            Format::Json => self.facet(Facet::JsonObject, "responseMimeType", Some("application/json")),
            Format::Schema(schema) => self.schema(schema),
        }
    }

    /// A schema always binds here. Its name is a label that no model reads.
    fn schema(&mut self, schema: &Schema) -> Result<(), Unfit> {
        let Schema { name: _, description, schema, strict: _ } = schema;
        let mut schema = schema.clone();
        if let (Some(fields), Some(description)) = (schema.as_object_mut(), description) {
            fields.entry("description").or_insert_with(|| description.as_str().into());
        }
        self.facet(Facet::JsonSchema, "responseMimeType", Some("application/json"))?;
        match self.target.schemas {
            Schemas::Json => self.put("responseJsonSchema", schema),
            Schemas::Subset => {
                let place = self.losses.field(Facet::JsonSchema);
                let subset = schema::to_subset(&schema, place, self.losses)?;
                self.put("responseSchema", subset);
            }
        }
        Ok(())
    }

    pub(super) fn logprobs(&mut self, top: Option<u8>) -> Result<(), Unfit> {
        let Some(top) = top else { return Ok(()) };
        self.facet(Facet::Logprobs, "responseLogprobs", Some(true))?;
        self.facet(Facet::Logprobs, "logprobs", (top > 0).then_some(top))
    }
}

/// A seed of 32 bits, which is all the API takes: any other is folded, the same one always the same way.
fn folded(seed: &Number) -> Value {
    let fits = seed.as_i64().filter(|seed| i32::try_from(*seed).is_ok());
    match (fits, seed.as_i64(), seed.as_u64()) {
        (Some(seed), _, _) => seed.into(),
        (None, Some(seed), _) => seed.rem_euclid(1 << 31).into(),
        (None, None, Some(seed)) => (seed % (1 << 31)).into(),
        (None, None, None) => Value::Number(seed.clone()),
    }
}

fn level(effort: Effort, line: Line) -> &'static str {
    let two = line == Line::TwoLevels;
    match effort {
        Effort::Minimal if two => "LOW",
        Effort::Minimal => "MINIMAL",
        Effort::Low => "LOW",
        Effort::Medium if two => "HIGH",
        Effort::Medium => "MEDIUM",
        Effort::High | Effort::Max => "HIGH",
    }
}

/// The budgets that Google's own door for OpenAI's clients gives to efforts; the last is the most that all models of
/// this line take.
const fn tokens(effort: Effort) -> i64 {
    match effort {
        Effort::Minimal | Effort::Low => 1_024,
        Effort::Medium => 8_192,
        Effort::High | Effort::Max => 24_576,
    }
}
