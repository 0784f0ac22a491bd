//! Messages as turns.

use std::collections::BTreeMap;
use std::mem;

use serde_json::Value;

use super::block;
use crate::anthropic::marks;
use crate::canon::{Items, Losses, Members, Part, Role, Turn, Unfit};

/// All turns, in order. A text that is empty says nothing and is left out, and so is the last message when it is the
/// assistant's and says nothing.
pub(super) fn turns(messages: Items, losses: &mut Losses) -> Result<Vec<Turn>, Unfit> {
    let last = messages.len().saturating_sub(1);
    let (mut turns, mut tools) = (Vec::new(), BTreeMap::new());
    for (index, (path, message)) in messages.into_iter().enumerate() {
        let before = turns.len();
        let mut message = Members::of(path, message)?;
        let role = role(&mut message)?;
        let content = message.need("content")?;
        said(role, &message.path("content"), content, &mut turns, losses)?;
        if turns.len() == before && (role != Role::Assistant || index < last) {
            return Err(Unfit::new(message.path("content"), "says nothing; leave the message out"));
        }
        message.finish(losses);
        for turn in turns.iter_mut().skip(before) {
            turn.parts.iter_mut().for_each(|part| name_result(part, &mut tools));
        }
    }
    match turns.is_empty() {
        true => Err(Unfit::new("messages", "hold no message; send at least one")),
        false => Ok(turns),
    }
}

fn role(message: &mut Members) -> Result<Role, Unfit> {
    match message.need_text("role")?.as_str() {
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        "system" => Ok(Role::System),
        _other => Err(Unfit::new(message.path("role"), "must be \"user\", \"assistant\" or \"system\"")),
    }
}

/// Instructions among what the user says are a turn of their own.
fn said(
    role: Role,
    path: &str,
    content: Value,
    turns: &mut Vec<Turn>,
    losses: &mut Losses,
) -> Result<(), Unfit> {
    let mut parts = Vec::new();
    for (path, item) in block::items(path, content)? {
        let mut item = Members::of(path, item)?;
        let kind = item.need_text("type")?;
        if kind == "mid_conv_system" {
            add(role, mem::take(&mut parts), turns);
            add(Role::System, block::instructions(item, losses)?, turns);
        } else {
            parts.extend(block::part(&kind, item, losses)?);
        }
    }
    add(role, parts, turns);
    Ok(())
}

fn add(role: Role, parts: Vec<Part>, turns: &mut Vec<Turn>) {
    let parts = rejoined(parts);
    if !parts.is_empty() {
        turns.push(Turn { role, name: None, parts });
    }
}

/// Gives calls the signatures that were put before them.
fn rejoined(parts: Vec<Part>) -> Vec<Part> {
    let mut joined = Vec::with_capacity(parts.len());
    let mut waiting: Option<String> = None;
    for mut part in parts {
        if let Part::Thought { signature: Some(signature), .. } = &part
            && let Some(of_call) = marks::call_of_signature(signature)
        {
            waiting = Some(of_call.to_owned());
            continue;
        }
        if let Part::ToolCall(call) = &mut part {
            call.signature = waiting.take();
        }
        joined.push(part);
    }
    joined
}

/// Results name their call by its id alone.
fn name_result(part: &mut Part, tools: &mut BTreeMap<String, String>) {
    match part {
        Part::ToolCall(call) => {
            tools.insert(call.id.clone(), call.name.clone());
        }
        Part::ToolResult(result) => {
            result.name = tools.get(&result.id).cloned().unwrap_or_default();
        }
        Part::Text { .. }
        | Part::Media(_)
        | Part::Thought { .. }
        | Part::SealedThought { .. }
        | Part::Refusal { .. } => {}
    }
}

/// Marks the end of the conversation, as the field of the whole body does.
pub(super) fn mark_last(turns: &mut [Turn]) {
    let mut parts = turns.iter_mut().rev().flat_map(|turn| turn.parts.iter_mut().rev());
    if let Some(mark) = parts.find_map(mark_of) {
        *mark = true;
    }
}

const fn mark_of(part: &mut Part) -> Option<&mut bool> {
    match part {
        Part::Text { cache, .. } => Some(cache),
        Part::Media(media) => Some(&mut media.cache),
        Part::ToolCall(call) => Some(&mut call.cache),
        Part::ToolResult(result) => Some(&mut result.cache),
        Part::Thought { .. } | Part::SealedThought { .. } | Part::Refusal { .. } => None,
    }
}
