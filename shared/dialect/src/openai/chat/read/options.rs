//! All of a request but its messages.

use serde_json::Value;

use super::message::function_only;
use crate::canon::{Call, Effort, Format, Losses, Members, Schema, Thinking, Tool, ToolChoice, Unfit};

pub(super) fn tools(body: &mut Members, call: &mut Call, losses: &mut Losses) -> Result<(), Unfit> {
    for (path, item) in body.items("tools")? {
        call.tools.push(tool(Members::of(path, item)?, losses)?);
    }
    let place = body.path("tool_choice");
    if let Some(value) = body.take("tool_choice") {
        choice(&place, value, call)?;
    }
    call.parallel_tools = body.flag("parallel_tool_calls")?;
    Ok(())
}

fn tool(mut item: Members, losses: &mut Losses) -> Result<Tool, Unfit> {
    function_only(&mut item)?;
    let mut function =
        item.object("function")?.ok_or_else(|| Unfit::new(item.path("function"), "is missing"))?;
    let tool = Tool {
        name: function.need_text("name")?,
        description: function.text("description")?,
        schema: function.take("parameters"),
        strict: function.flag("strict")?,
        cache: false,
    };
    function.finish(losses);
    item.finish(losses);
    Ok(tool)
}

fn choice(place: &str, value: Value, call: &mut Call) -> Result<(), Unfit> {
    let word = |word: &str| match word {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "required" => Ok(ToolChoice::Any),
        _other => Err(Unfit::new(place, "must be none, auto, required, a function or allowed_tools")),
    };
    if let Value::String(text) = &value {
        call.tool_choice = Some(word(text)?);
        return Ok(());
    }
    let mut choice = Members::of(place, value)?;
    if let Some(mut allowed) = choice.object("allowed_tools")? {
        let mode = word(&allowed.need_text("mode")?)?;
        allow(names(&mut allowed)?, mode, call);
        return Ok(());
    }
    call.tool_choice = Some(ToolChoice::Named(vec![function_name(&mut choice)?]));
    Ok(())
}

fn function_name(item: &mut Members) -> Result<String, Unfit> {
    function_only(item)?;
    let mut function =
        item.object("function")?.ok_or_else(|| Unfit::new(item.path("function"), "is missing"))?;
    function.need_text("name")
}

fn names(allowed: &mut Members) -> Result<Vec<String>, Unfit> {
    let read = |(path, item)| function_name(&mut Members::of(path, item)?);
    let names: Vec<_> = allowed.items("tools")?.into_iter().map(read).collect::<Result<_, _>>()?;
    if names.is_empty() {
        return Err(Unfit::new(allowed.path("tools"), "is empty; name the tools that may be called"));
    }
    Ok(names)
}

/// Of the tools that were sent, only some may be called. Where the model decides, it is as if the others were not sent.
fn allow(names: Vec<String>, mode: ToolChoice, call: &mut Call) {
    call.tool_choice = Some(match mode {
        ToolChoice::Any => ToolChoice::Named(names),
        other @ (ToolChoice::Auto | ToolChoice::None | ToolChoice::Named(_)) => {
            call.tools.retain(|tool| names.contains(&tool.name));
            other
        }
    });
}

pub(super) fn limits(body: &mut Members, call: &mut Call) -> Result<(), Unfit> {
    let (old, new) = (body.count("max_tokens")?, body.count("max_completion_tokens")?);
    if old.is_some() && new.is_some() && old != new {
        return Err(Unfit::new("max_tokens", "differs from `max_completion_tokens`; send one of the two"));
    }
    call.max_tokens = new.or(old);
    call.answers = match body.count("n")? {
        None => 1,
        Some(n) => {
            u32::try_from(n).ok().filter(|n| *n > 0).ok_or_else(|| Unfit::new("n", "must be 1 or more"))?
        }
    };
    call.stops = match body.take("stop") {
        None => Vec::new(),
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(items)) => items.into_iter().map(stop).collect::<Result<_, _>>()?,
        Some(_other) => return Err(Unfit::new("stop", "must be a string or a list of strings")),
    };
    Ok(())
}

fn stop(item: Value) -> Result<String, Unfit> {
    match item {
        Value::String(text) => Ok(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(Unfit::new("stop", "must be a string or a list of strings"))
        }
    }
}

pub(super) fn sampling(body: &mut Members, call: &mut Call) -> Result<(), Unfit> {
    let sampling = &mut call.sampling;
    sampling.temperature = body.number("temperature")?;
    sampling.top_p = body.number("top_p")?;
    sampling.top_k = body.number("top_k")?;
    sampling.min_p = body.number("min_p")?;
    sampling.seed = body.number("seed")?;
    sampling.frequency_penalty = body.number("frequency_penalty")?;
    sampling.presence_penalty = body.number("presence_penalty")?;
    sampling.repetition_penalty = body.number("repetition_penalty")?;
    if let Some(bias) = body.object("logit_bias")? {
        sampling.logit_bias = bias.rest();
    }
    Ok(())
}

pub(super) fn output(body: &mut Members, call: &mut Call, losses: &mut Losses) -> Result<(), Unfit> {
    let place = body.path("reasoning_effort");
    call.thinking = body.text("reasoning_effort")?.map(|word| thinking(&place, &word)).transpose()?;
    if let Some(mut format) = body.object("response_format")? {
        call.format = self::format(&mut format, losses)?;
        format.finish(losses);
    }
    let top = body.count("top_logprobs")?;
    let wanted = body.flag("logprobs")?.unwrap_or(false);
    call.logprobs = match (wanted, top) {
        (false, None | Some(0)) => None,
        (false, Some(_)) => return Err(Unfit::new("top_logprobs", "needs `logprobs`: true")),
        (true, top) => {
            let top = u8::try_from(top.unwrap_or(0)).ok().filter(|top| *top <= 20);
            Some(top.ok_or_else(|| Unfit::new("top_logprobs", "must be 0 to 20"))?)
        }
    };
    Ok(())
}

fn thinking(place: &str, word: &str) -> Result<Thinking, Unfit> {
    Ok(match word {
        "none" => Thinking::Off,
        "minimal" => Thinking::Effort(Effort::Minimal),
        "low" => Thinking::Effort(Effort::Low),
        "medium" => Thinking::Effort(Effort::Medium),
        "high" => Thinking::Effort(Effort::High),
        "xhigh" | "max" => Thinking::Effort(Effort::Max),
        _other => return Err(Unfit::new(place, "must be none, minimal, low, medium, high or xhigh")),
    })
}

fn format(format: &mut Members, losses: &mut Losses) -> Result<Format, Unfit> {
    match format.need_text("type")?.as_str() {
        "text" => Ok(Format::Text),
        "json_object" => Ok(Format::Json),
        "json_schema" => {
            let mut inner = format
                .object("json_schema")?
                .ok_or_else(|| Unfit::new(format.path("json_schema"), "is missing"))?;
            let schema = Schema {
                name: inner.need_text("name")?,
                description: inner.text("description")?,
                schema: inner.need("schema")?,
                strict: inner.flag("strict")?,
            };
            inner.finish(losses);
            Ok(Format::Schema(schema))
        }
        _other => Err(Unfit::new(format.path("type"), "must be text, json_object or json_schema")),
    }
}

pub(super) fn notes(body: &mut Members, call: &mut Call) -> Result<(), Unfit> {
    call.user = body.text("user")?;
    if let Some(metadata) = body.object("metadata")? {
        call.metadata = metadata.rest();
    }
    call.service_tier = body.text("service_tier")?.filter(|tier| tier != "auto");
    Ok(())
}
