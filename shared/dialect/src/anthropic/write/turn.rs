//! Instructions and turns, as `system` and messages.

use serde_json::{Value, json};

use super::Out;
use super::block::blocks;
use crate::canon::{Facet, Part, Role, Turn, Unfit};

/// A message that is being written; the user's or the assistant's.
struct Message {
    role: Role,
    blocks: Vec<Value>,
}

impl Out<'_> {
    /// Puts the whole conversation. Adjacent turns of one speaker are one message, as the API reads them. Turns of the assistant
    /// that say nothing the API takes are left out.
    pub(super) fn conversation(&mut self, system: &[Part], turns: &[Turn]) -> Result<(), Unfit> {
        let mut instructions = blocks(system, self.losses)?;
        let mut messages: Vec<Message> = Vec::new();
        for turn in turns {
            let Turn { role, name, parts } = turn;
            if name.is_some() {
                self.meet(Facet::SpeakerName)?;
            }
            let said = blocks(parts, self.losses)?;
            if said.is_empty() && *role != Role::User {
                continue;
            }
            match (role, messages.last_mut()) {
                (Role::System, _any) => {
                    self.meet(Facet::SystemMidway)?;
                    instructions.extend(said);
                }
                (Role::User | Role::Assistant, Some(last)) if last.role == *role => last.blocks.extend(said),
                (Role::User | Role::Assistant, _other) => {
                    messages.push(Message { role: *role, blocks: said });
                }
            }
        }
        if let Some(Message { role: Role::Assistant, .. }) = messages.last() {
            self.meet(Facet::Prefill)?;
        }
        self.put_some("system", (!instructions.is_empty()).then(|| content(instructions)));
        if messages.is_empty() {
            return Err(Unfit::new("messages", "hold nothing but instructions; add what the user says"));
        }
        let messages = messages.into_iter().map(message).collect::<Result<Vec<_>, _>>()?;
        self.put("messages", messages);
        Ok(())
    }
}

fn message(message: Message) -> Result<Value, Unfit> {
    let Message { role, blocks } = message;
    if blocks.is_empty() {
        let mend = "hold a turn of the user without a visible character, which this model's API refuses; leave it out";
        return Err(Unfit::new("messages", mend));
    }
    Ok(match role {
        Role::Assistant => json!({"role": "assistant", "content": content(blocks)}),
        Role::User | Role::System => json!({"role": "user", "content": content(results_first(blocks))}),
    })
}

/// Results of tools stand at the start of their message.
fn results_first(blocks: Vec<Value>) -> Vec<Value> {
    let (mut first, then): (Vec<_>, Vec<_>) = blocks
        .into_iter()
        .partition(|block| block.get("type").and_then(Value::as_str) == Some("tool_result"));
    first.extend(then);
    first
}

/// One plain text is a string, which every server takes; anything more is a list.
pub(super) fn content(mut blocks: Vec<Value>) -> Value {
    if let [block] = blocks.as_mut_slice()
        && block.get("type").and_then(Value::as_str) == Some("text")
        && block.get("cache_control").is_none()
        && let Some(text) = block.get_mut("text")
    {
        return text.take();
    }
    blocks.into()
}
