//! Tools, and how they may be called.

use crate::canon::{Call, Losses, Members, Tool, ToolChoice, Unfit};
use crate::gemini::{names, schema};

/// Reads the tools and the choice among them.
pub(super) fn tools(body: &mut Members, call: &mut Call, losses: &mut Losses) -> Result<(), Unfit> {
    for mut tool in names::objects(body, "tools")? {
        for declared in names::objects(&mut tool, "functionDeclarations")? {
            call.tools.push(function(declared, losses)?);
        }
        let place = tool.place().to_owned();
        if let Some((name, _built_in)) = tool.rest().into_iter().find(|(_name, value)| !value.is_null()) {
            let mend = "is a tool that only its own provider has; leave it out";
            return Err(Unfit::new(format!("{place}.{name}"), mend));
        }
    }
    if let Some(mut config) = names::object(body, "toolConfig")? {
        if let Some(calling) = names::object(&mut config, "functionCallingConfig")? {
            choice(calling, call, losses)?;
        }
        config.finish(losses);
    }
    Ok(())
}

fn function(mut declared: Members, losses: &mut Losses) -> Result<Tool, Unfit> {
    let place = declared.path("parameters");
    let subset = declared.take("parameters");
    let subset = subset.map(|subset| schema::from_subset(subset, &place, losses)).transpose()?;
    let schema = declared.take("parametersJsonSchema");
    if schema.is_some() && subset.is_some() {
        return Err(Unfit::new(place, "and `parametersJsonSchema` are both there; send one of the two"));
    }
    let tool = Tool {
        name: declared.need_text("name")?,
        description: declared.text("description")?,
        schema: schema.or(subset),
        strict: None,
        cache: false,
    };
    declared.finish(losses);
    Ok(tool)
}

fn choice(mut calling: Members, call: &mut Call, losses: &mut Losses) -> Result<(), Unfit> {
    let names = calling.texts("allowedFunctionNames")?;
    let place = calling.path("mode");
    match calling.text("mode")?.as_deref() {
        None | Some("MODE_UNSPECIFIED") => {}
        Some("AUTO") => call.tool_choice = Some(ToolChoice::Auto),
        Some("NONE") => call.tool_choice = Some(ToolChoice::None),
        Some("ANY") if names.is_empty() => call.tool_choice = Some(ToolChoice::Any),
        Some("ANY") => {
            call.tool_choice = Some(ToolChoice::Named(names));
            calling.finish(losses);
            return Ok(());
        }
        Some("VALIDATED") => {
            call.tool_choice = Some(ToolChoice::Auto);
            call.tools.iter_mut().for_each(|tool| tool.strict = Some(true));
        }
        Some(_other) => return Err(Unfit::new(place, "must be AUTO, ANY, NONE or VALIDATED")),
    }
    // Where the model decides, it is as if the other functions were not sent.
    if !names.is_empty() {
        call.tools.retain(|tool| names.contains(&tool.name));
    }
    calling.finish(losses);
    Ok(())
}
