//! The `generationConfig` of a request.

use crate::canon::{Call, Effort, Format, Losses, Members, Schema, Thinking, Unfit};
use crate::gemini::{names, schema};

/// Reads how the answer shall be made.
pub(super) fn generation(mut config: Members, call: &mut Call, losses: &mut Losses) -> Result<(), Unfit> {
    spoken(&mut config)?;
    limits(&mut config, call)?;
    sampling(&mut config, call)?;
    call.format = format(&mut config, losses)?;
    call.logprobs = logprobs(&mut config)?;
    if let Some(mut thinking) = names::object(&mut config, "thinkingConfig")? {
        call.thinking = self::thinking(&mut thinking)?;
        thinking.finish(losses);
    }
    config.finish(losses);
    Ok(())
}

/// Answers in text alone are all that is carried over.
fn spoken(config: &mut Members) -> Result<(), Unfit> {
    let modalities = config.texts("responseModalities")?;
    if modalities.iter().any(|modality| modality != "TEXT") {
        let mend = "asks for more than text, which this model cannot give; send [\"TEXT\"]";
        return Err(Unfit::new(config.path("responseModalities"), mend));
    }
    Ok(())
}

fn limits(config: &mut Members, call: &mut Call) -> Result<(), Unfit> {
    call.max_tokens = config.count("maxOutputTokens")?;
    call.stops = config.texts("stopSequences")?;
    let place = config.path("candidateCount");
    call.answers = match config.count("candidateCount")? {
        None => 1,
        Some(count) => u32::try_from(count)
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| Unfit::new(place, "must be 1 or more"))?,
    };
    Ok(())
}

fn sampling(config: &mut Members, call: &mut Call) -> Result<(), Unfit> {
    let sampling = &mut call.sampling;
    sampling.temperature = config.number("temperature")?;
    sampling.top_p = config.number("topP")?;
    sampling.top_k = config.number("topK")?;
    sampling.seed = config.number("seed")?;
    sampling.frequency_penalty = config.number("frequencyPenalty")?;
    sampling.presence_penalty = config.number("presencePenalty")?;
    Ok(())
}

fn format(config: &mut Members, losses: &mut Losses) -> Result<Format, Unfit> {
    let place = config.path("responseSchema");
    let subset = config.take("responseSchema");
    let subset = subset.map(|subset| schema::from_subset(subset, &place, losses)).transpose()?;
    let given = [config.take("responseJsonSchema"), config.take("_responseJsonSchema"), subset];
    let mut given = given.into_iter().flatten();
    let schema = given.next();
    if given.next().is_some() {
        return Err(Unfit::new(place, "and `responseJsonSchema` are both there; send one of the two"));
    }
    let kind = config.path("responseMimeType");
    match (config.text("responseMimeType")?.as_deref(), schema) {
        (None | Some("" | "text/plain"), None) => Ok(Format::Text),
        (None | Some("" | "text/plain"), Some(_schema)) => {
            Err(Unfit::new(kind, "must be application/json where there is a schema"))
        }
        (Some("application/json"), None) => Ok(Format::Json),
        (Some("application/json"), Some(schema)) => {
            let strict = Some(true);
            Ok(Format::Schema(Schema { name: String::new(), description: None, schema, strict }))
        }
        (Some(_other), _) => Err(Unfit::new(kind, "must be text/plain or application/json")),
    }
}

fn logprobs(config: &mut Members) -> Result<Option<u8>, Unfit> {
    let place = config.path("logprobs");
    let top = config.count("logprobs")?;
    let top = u8::try_from(top.unwrap_or(0)).ok().filter(|top| *top <= 20);
    let top = top.ok_or_else(|| Unfit::new(place, "must be 0 to 20"))?;
    Ok(config.flag("responseLogprobs")?.unwrap_or(false).then_some(top))
}

/// Whether thoughts are shown is not carried over by itself: whoever asks to see them wants the model to think.
fn thinking(config: &mut Members) -> Result<Option<Thinking>, Unfit> {
    let shown = config.flag("includeThoughts")?.unwrap_or(false);
    let (level, budget) = (config.path("thinkingLevel"), config.path("thinkingBudget"));
    let effort = match config.text("thinkingLevel")?.map(|level| level.to_ascii_uppercase()).as_deref() {
        None | Some("THINKING_LEVEL_UNSPECIFIED") => None,
        Some("MINIMAL") => Some(Effort::Minimal),
        Some("LOW") => Some(Effort::Low),
        Some("MEDIUM") => Some(Effort::Medium),
        Some("HIGH") => Some(Effort::High),
        Some(_other) => return Err(Unfit::new(level, "must be MINIMAL, LOW, MEDIUM or HIGH")),
    };
    let tokens = match config.number("thinkingBudget")? {
        None => None,
        Some(number) => match (number.as_i64(), number.as_u64()) {
            (Some(-1), _) => Some(Thinking::Adaptive),
            (_, Some(0)) => Some(Thinking::Off),
            (_, Some(tokens)) => Some(Thinking::Budget(tokens)),
            (_, None) => return Err(Unfit::new(budget, "must be -1, 0 or a number of tokens")),
        },
    };
    match (effort, tokens) {
        (Some(_), Some(_)) => {
            Err(Unfit::new(budget, "and `thinkingLevel` are both there; send one of the two"))
        }
        (Some(effort), None) => Ok(Some(Thinking::Effort(effort))),
        (None, Some(tokens)) => Ok(Some(tokens)),
        (None, None) => Ok(shown.then_some(Thinking::Adaptive)),
    }
}
