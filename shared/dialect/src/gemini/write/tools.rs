//! Tools, and how they may be called.

use serde_json::{Map, Value, json};

use crate::canon::{Facet, Losses, Tool, ToolChoice, Unfit};
use crate::gemini::fidelity::fidelity;
use crate::gemini::{Schemas, Target, schema};

/// The fields `tools` and `toolConfig`. A choice among no tools says nothing.
pub(super) fn tools(
    tools: &[Tool],
    choice: Option<&ToolChoice>,
    parallel: Option<bool>,
    target: Target,
    losses: &mut Losses,
) -> Result<Map<String, Value>, Unfit> {
    let mut fields = Map::new();
    if tools.is_empty() {
        return Ok(fields);
    }
    losses.meet(Facet::Tools, fidelity(Facet::Tools))?;
    let mut strict = false;
    let mut declared = Vec::new();
    for tool in tools {
        strict |= tool.strict == Some(true);
        declared.push(declaration(tool, target, losses)?);
    }
    fields.insert("tools".to_owned(), json!([{"functionDeclarations": declared}]));
    if let Some(calling) = calling(choice, strict, losses)? {
        fields.insert("toolConfig".to_owned(), json!({"functionCallingConfig": calling}));
    }
    if parallel == Some(false) {
        losses.meet(Facet::ParallelTools, fidelity(Facet::ParallelTools))?;
    }
    Ok(fields)
}

/// Having to call a tool holds it to its schema anyway.
fn calling(choice: Option<&ToolChoice>, strict: bool, losses: &mut Losses) -> Result<Option<Value>, Unfit> {
    if strict {
        losses.meet(Facet::ToolStrict, fidelity(Facet::ToolStrict))?;
    }
    let (facet, calling) = match choice {
        None | Some(ToolChoice::Auto) if strict => return Ok(Some(json!({"mode": "VALIDATED"}))),
        None => return Ok(None),
        Some(ToolChoice::Auto) => return Ok(Some(json!({"mode": "AUTO"}))),
        Some(ToolChoice::None) => (Facet::ToolChoiceNone, json!({"mode": "NONE"})),
        Some(ToolChoice::Any) => (Facet::ToolChoiceAny, json!({"mode": "ANY"})),
        Some(ToolChoice::Named(names)) => {
            let several = names.len() > 1;
            let facet = if several { Facet::ToolChoiceSeveral } else { Facet::ToolChoiceNamed };
            (facet, json!({"mode": "ANY", "allowedFunctionNames": names}))
        }
    };
    Ok(losses.meet(facet, fidelity(facet))?.then_some(calling))
}

fn declaration(tool: &Tool, target: Target, losses: &mut Losses) -> Result<Value, Unfit> {
    let Tool { name, description, schema, strict: _, cache } = tool;
    if *cache {
        losses.meet(Facet::CacheMark, fidelity(Facet::CacheMark))?;
    }
    let mut declared = Map::new();
    declared.insert("name".to_owned(), name.as_str().into());
    declared.extend(description.as_ref().map(|text| ("description".to_owned(), text.as_str().into())));
    match (schema, target.schemas) {
        (None, _) => {}
        (Some(schema), Schemas::Json) => {
            declared.insert("parametersJsonSchema".to_owned(), schema.clone());
        }
        (Some(schema), Schemas::Subset) => {
            let place = format!("{}.{name}", losses.field(Facet::Tools));
            let subset = schema::to_subset(schema, &place, losses)?;
            // An object without properties is refused there; without parameters the function takes none.
            let some =
                subset.get("properties").and_then(Value::as_object).is_some_and(|list| !list.is_empty());
            if some || subset.get("anyOf").is_some() {
                declared.insert("parameters".to_owned(), subset);
            }
        }
    }
    Ok(Value::Object(declared))
}
