//! The messages of a request, as instructions and turns.

use serde_json::Value;

use super::piece;
use crate::canon::{Call, Items, Losses, Members, Part, Role, ToolCall, ToolResult, Turn, Unfit};
use crate::openai::chat::said;

/// Reads all messages, in order. Results of tools that follow one another become one turn.
pub(super) fn messages(items: Items, call: &mut Call, losses: &mut Losses) -> Result<(), Unfit> {
    if items.is_empty() {
        return Err(Unfit::new("messages", "is empty; send at least one message"));
    }
    for (path, item) in items {
        let mut message = Members::of(path, item)?;
        match message.need_text("role")?.as_str() {
            "system" | "developer" => system(&mut message, call, losses)?,
            "user" => user(&mut message, call, losses)?,
            "assistant" => assistant(&mut message, call, losses)?,
            "tool" => tool(&mut message, call, losses)?,
            other => return Err(unknown(&message, other)),
        }
        message.finish(losses);
    }
    Ok(())
}

fn unknown(message: &Members, role: &str) -> Unfit {
    let mend = "send system, developer, user, assistant or tool";
    Unfit::new(message.path("role"), format!("is \"{}\"; {mend}", role.escape_debug()))
}

fn system(message: &mut Members, call: &mut Call, losses: &mut Losses) -> Result<(), Unfit> {
    let parts = piece::texts(message, losses)?;
    let name = message.text("name")?;
    if call.turns.is_empty() && name.is_none() {
        call.system.extend(parts);
    } else {
        speak(call, Role::System, name, parts);
    }
    Ok(())
}

fn user(message: &mut Members, call: &mut Call, losses: &mut Losses) -> Result<(), Unfit> {
    let parts = piece::pieces(message, losses)?;
    let name = message.text("name")?;
    speak(call, Role::User, name, parts);
    Ok(())
}

fn assistant(message: &mut Members, call: &mut Call, losses: &mut Losses) -> Result<(), Unfit> {
    if message.has("audio") {
        return Err(Unfit::new(
            message.path("audio"),
            "is an earlier spoken answer; send its transcript as content",
        ));
    }
    if message.has("function_call") {
        return Err(Unfit::new(
            message.path("function_call"),
            "is the former name of `tool_calls`; send `tool_calls`",
        ));
    }
    let mut parts = said::thoughts(message)?;
    parts.extend(piece::texts(message, losses)?);
    let refusal = message.text("refusal")?.filter(|text| !text.is_empty());
    parts.extend(refusal.map(|text| Part::Refusal { text }));
    for (path, item) in message.items("tool_calls")? {
        parts.push(Part::ToolCall(tool_call(Members::of(path, item)?, losses)?));
    }
    let name = message.text("name")?;
    speak(call, Role::Assistant, name, parts);
    Ok(())
}

fn tool_call(mut item: Members, losses: &mut Losses) -> Result<ToolCall, Unfit> {
    function_only(&mut item)?;
    let id = item.need_text("id")?;
    let mut function =
        item.object("function")?.ok_or_else(|| Unfit::new(item.path("function"), "is missing"))?;
    let name = function.need_text("name")?;
    let place = function.path("arguments");
    let arguments = function.text("arguments")?.unwrap_or_default();
    let signature = said::take_signature(&mut item);
    function.finish(losses);
    item.finish(losses);
    Ok(ToolCall { id, name, arguments: arguments_of(&place, arguments)?, signature, cache: false })
}

/// Only functions are known to models of other APIs.
pub(super) fn function_only(item: &mut Members) -> Result<(), Unfit> {
    match item.text("type")?.as_deref() {
        None | Some("function") => Ok(()),
        Some(other) => {
            let other = other.escape_debug();
            Err(Unfit::new(
                item.path("type"),
                format!("is \"{other}\", which only its own provider has; send functions"),
            ))
        }
    }
}

/// No arguments at all are an empty object.
fn arguments_of(place: &str, arguments: String) -> Result<String, Unfit> {
    if arguments.trim().is_empty() {
        return Ok("{}".to_owned());
    }
    match serde_json::from_str(&arguments) {
        Ok(Value::Object(_)) => Ok(arguments),
        Ok(_other) => Err(Unfit::new(place, "must be the JSON of an object")),
        Err(error) => Err(Unfit::new(place, format!("is not valid JSON: {error}"))),
    }
}

fn tool(message: &mut Members, call: &mut Call, losses: &mut Losses) -> Result<(), Unfit> {
    let id = message.need_text("tool_call_id")?;
    let parts = piece::pieces(message, losses)?;
    // Some clients repeat the tool's name; the call has it.
    message.take("name");
    let name = called(call, &id).unwrap_or_default();
    let result = Part::ToolResult(ToolResult { id, name, parts, failed: None, cache: false });
    match call.turns.last_mut() {
        Some(Turn { role: Role::User, parts, .. }) if parts.iter().all(is_result) => parts.push(result),
        Some(_) | None => speak(call, Role::User, None, vec![result]),
    }
    Ok(())
}

const fn is_result(part: &Part) -> bool {
    matches!(part, Part::ToolResult(_))
}

/// The name of the tool that was called by this id, latest first.
fn called(call: &Call, id: &str) -> Option<String> {
    let parts = call.turns.iter().rev().flat_map(|turn| turn.parts.iter().rev());
    parts.into_iter().find_map(|part| match part {
        Part::ToolCall(call) if call.id == id => Some(call.name.clone()),
        Part::ToolCall(_)
        | Part::Text { .. }
        | Part::Media(_)
        | Part::ToolResult(_)
        | Part::Thought { .. }
        | Part::SealedThought { .. }
        | Part::Refusal { .. } => None,
    })
}

/// Adds a turn, unless it says nothing.
fn speak(call: &mut Call, role: Role, name: Option<String>, parts: Vec<Part>) {
    if !parts.is_empty() {
        call.turns.push(Turn { role, name, parts });
    }
}
