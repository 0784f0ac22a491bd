//! All that a call asks beside its conversation.

use crate::canon::{
    Call, Effort, Format, Losses, Members, Sampling, Schema, Thinking, Tool, ToolChoice, Unfit,
};

/// Whether the object is marked as the end of what may be cached.
pub(super) fn mark(item: &mut Members, losses: &mut Losses) -> Result<bool, Unfit> {
    let Some(mut mark) = item.object("cache_control")? else { return Ok(false) };
    if mark.need_text("type")? != "ephemeral" {
        return Err(Unfit::new(mark.path("type"), "must be \"ephemeral\""));
    }
    if mark.text("ttl")?.is_some_and(|ttl| ttl != "5m") {
        losses.drop(mark.path("ttl"), "the provider decides how long it keeps the prompt");
    }
    mark.finish(losses);
    Ok(true)
}

/// Tools and the choice among them.
pub(super) fn tools(body: &mut Members, call: &mut Call, losses: &mut Losses) -> Result<(), Unfit> {
    for (path, item) in body.items("tools")? {
        call.tools.push(tool(Members::of(path, item)?, losses)?);
    }
    let Some(mut choice) = body.object("tool_choice")? else { return Ok(()) };
    call.tool_choice = Some(match choice.need_text("type")?.as_str() {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Any,
        "none" => ToolChoice::None,
        "tool" => ToolChoice::Named(vec![choice.need_text("name")?]),
        _other => {
            return Err(Unfit::new(choice.path("type"), "must be \"auto\", \"any\", \"tool\" or \"none\""));
        }
    });
    call.parallel_tools = choice.flag("disable_parallel_tool_use")?.map(|disabled| !disabled);
    choice.finish(losses);
    Ok(())
}

fn tool(mut item: Members, losses: &mut Losses) -> Result<Tool, Unfit> {
    match item.text("type")?.as_deref() {
        None | Some("custom") => {}
        Some(_built_in) => {
            let mend = "is a tool that only its own provider has; leave it out or ask that provider's model";
            return Err(Unfit::new(item.path("type"), mend));
        }
    }
    let schema = item.need("input_schema")?;
    if !schema.is_object() {
        return Err(Unfit::new(item.path("input_schema"), "must be an object"));
    }
    let tool = Tool {
        name: item.need_text("name")?,
        description: item.text("description")?,
        schema: Some(schema),
        strict: item.flag("strict")?,
        cache: mark(&mut item, losses)?,
    };
    item.finish(losses);
    Ok(tool)
}

/// How tokens are drawn, and where they end.
pub(super) fn sampling(body: &mut Members, call: &mut Call) -> Result<(), Unfit> {
    call.sampling = Sampling {
        temperature: body.number("temperature")?,
        top_p: body.number("top_p")?,
        top_k: body.number("top_k")?,
        ..Sampling::default()
    };
    call.stops = body.texts("stop_sequences")?;
    Ok(())
}

/// Thinking and the form of the answer.
pub(super) fn output(body: &mut Members, call: &mut Call, losses: &mut Losses) -> Result<(), Unfit> {
    call.thinking = match body.object("thinking")? {
        Some(thinking) => Some(self::thinking(thinking, losses)?),
        None => None,
    };
    // Before the API had `output_config`, the format stood alone.
    if let Some(format) = body.object("output_format")? {
        call.format = self::format(format, losses)?;
    }
    let Some(mut config) = body.object("output_config")? else { return Ok(()) };
    if let Some(format) = config.object("format")? {
        call.format = self::format(format, losses)?;
    }
    if let Some(word) = config.text("effort")? {
        let path = config.path("effort");
        let hard = effort(&path, &word, losses)?;
        match call.thinking {
            None | Some(Thinking::Adaptive) => call.thinking = Some(Thinking::Effort(hard)),
            Some(Thinking::Off | Thinking::Budget(_) | Thinking::Effort(_)) => {
                losses.drop(path, "`thinking` says how much to think");
            }
        }
    }
    config.finish(losses);
    Ok(())
}

fn thinking(mut thinking: Members, losses: &mut Losses) -> Result<Thinking, Unfit> {
    let read = match thinking.need_text("type")?.as_str() {
        "disabled" => Thinking::Off,
        "adaptive" => Thinking::Adaptive,
        "enabled" => {
            let budget = thinking.count("budget_tokens")?;
            Thinking::Budget(budget.ok_or_else(|| Unfit::new(thinking.path("budget_tokens"), "is missing"))?)
        }
        _other => {
            return Err(Unfit::new(
                thinking.path("type"),
                "must be \"enabled\", \"adaptive\" or \"disabled\"",
            ));
        }
    };
    if thinking.text("display")?.is_some_and(|display| display != "summarized") {
        losses.drop(thinking.path("display"), "thoughts are given as the model gives them");
    }
    thinking.finish(losses);
    Ok(read)
}

fn effort(path: &str, word: &str, losses: &mut Losses) -> Result<Effort, Unfit> {
    match word {
        "low" => Ok(Effort::Low),
        "medium" => Ok(Effort::Medium),
        "high" => Ok(Effort::High),
        "max" => Ok(Effort::Max),
        "xhigh" => {
            losses.drop(path, "the model thinks as hard as it can");
            Ok(Effort::Max)
        }
        _other => Err(Unfit::new(path, "must be \"low\", \"medium\", \"high\", \"xhigh\" or \"max\"")),
    }
}

fn format(mut format: Members, losses: &mut Losses) -> Result<Format, Unfit> {
    if format.need_text("type")? != "json_schema" {
        return Err(Unfit::new(format.path("type"), "must be \"json_schema\""));
    }
    let schema = format.need("schema")?;
    format.finish(losses);
    // The API promises that the answer follows the schema.
    Ok(Format::Schema(Schema { name: String::new(), description: None, schema, strict: Some(true) }))
}

/// Who asks, and for what class of service.
pub(super) fn notes(body: &mut Members, call: &mut Call, losses: &mut Losses) -> Result<(), Unfit> {
    if let Some(mut metadata) = body.object("metadata")? {
        call.user = metadata.text("user_id")?;
        metadata.finish(losses);
    }
    call.service_tier = body.text("service_tier")?;
    Ok(())
}
