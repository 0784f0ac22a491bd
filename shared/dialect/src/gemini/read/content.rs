//! Instructions and contents, as turns.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use crate::canon::{Call, Losses, Members, Part, Role, ToolCall, ToolResult, Turn, Unfit};
use crate::gemini::{chunk, media, names};

/// Parts of tools that only Google runs.
const BUILT_IN: [&str; 4] = ["executableCode", "codeExecutionResult", "toolCall", "toolResponse"];

/// The calls of a conversation so far. Ids are made for those that have none; results find their call by id, or by name
/// in the order of the calls.
#[derive(Debug, Default)]
struct Calls {
    /// Each call's id, and whether a result came.
    made: Vec<(String, bool)>,
    /// The place of the latest call of an id.
    by_id: BTreeMap<String, usize>,
    /// The places of calls of a name, the first first.
    by_name: BTreeMap<String, VecDeque<usize>>,
}

/// The texts of a system instruction.
pub(super) fn instructions(mut content: Members, losses: &mut Losses) -> Result<Vec<Part>, Unfit> {
    drop(content.take("role"));
    let mut texts = Vec::new();
    for mut part in names::objects(&mut content, "parts")? {
        let text = part.need_text("text")?;
        part.finish(losses);
        texts.push(Part::text(text));
    }
    content.finish(losses);
    Ok(texts)
}

/// Reads all contents, in order.
pub(super) fn turns(contents: Vec<Members>, call: &mut Call, losses: &mut Losses) -> Result<(), Unfit> {
    if contents.is_empty() {
        return Err(Unfit::new("contents", "is empty; send at least one content"));
    }
    let mut calls = Calls::default();
    for (number, content) in contents.into_iter().enumerate() {
        let turn = turn(number, content, &mut calls, losses)?;
        if !turn.parts.is_empty() {
            call.turns.push(turn);
        }
    }
    if call.turns.is_empty() {
        return Err(Unfit::new("contents", "say nothing; send at least one part with a text or data"));
    }
    Ok(())
}

fn turn(number: usize, mut content: Members, calls: &mut Calls, losses: &mut Losses) -> Result<Turn, Unfit> {
    let role = match content.text("role")?.as_deref() {
        None | Some("" | "user" | "function" | "tool") => Role::User,
        Some("model") => Role::Assistant,
        Some(_other) => return Err(Unfit::new(content.path("role"), "must be user or model")),
    };
    let mut parts = Vec::new();
    for (index, mut part) in names::objects(&mut content, "parts")?.into_iter().enumerate() {
        if let Some(name) = BUILT_IN.into_iter().find(|name| part.has(name)) {
            let mend = "is of a tool that only its own provider has; leave it out";
            return Err(Unfit::new(part.path(name), mend));
        }
        match role {
            Role::Assistant => {
                model(&format!("call_{number}_{index}"), &mut part, calls, &mut parts, losses)?;
            }
            Role::User | Role::System => user(&mut part, calls, &mut parts, losses)?,
        }
        part.finish(losses);
    }
    content.finish(losses);
    Ok(Turn { role, name: None, parts })
}

fn model(
    id: &str,
    part: &mut Members,
    calls: &mut Calls,
    parts: &mut Vec<Part>,
    losses: &mut Losses,
) -> Result<(), Unfit> {
    let thought = part.flag("thought")?.unwrap_or(false);
    let signature = part.text("thoughtSignature")?.filter(|signature| !signature.is_empty());
    if let Some(call) = names::object(part, "functionCall")? {
        parts.push(Part::ToolCall(calls.call(id, call, signature, losses)?));
        return Ok(());
    }
    let text = part.text("text")?.filter(|text| !text.is_empty());
    match (text, thought) {
        (Some(text), true) => {
            parts.push(Part::Thought { text, signature });
            return Ok(());
        }
        (Some(text), false) => parts.push(Part::text(text)),
        (None, _) => data(part, parts, losses)?,
    }
    let sealed = |proof| Part::Thought { text: String::new(), signature: Some(proof) };
    parts.extend(signature.map(sealed));
    Ok(())
}

fn user(
    part: &mut Members,
    calls: &mut Calls,
    parts: &mut Vec<Part>,
    losses: &mut Losses,
) -> Result<(), Unfit> {
    if let Some(response) = names::object(part, "functionResponse")? {
        parts.push(Part::ToolResult(calls.result(response, losses)?));
    } else if let Some(text) = part.text("text")? {
        parts.extend((!text.is_empty()).then(|| Part::text(text)));
    } else {
        data(part, parts, losses)?;
    }
    Ok(())
}

fn data(part: &mut Members, parts: &mut Vec<Part>, losses: &mut Losses) -> Result<(), Unfit> {
    if let Some(mut data) = names::object(part, "inlineData")? {
        parts.push(Part::Media(media::inline(&mut data)?));
        data.finish(losses);
    } else if let Some(mut data) = names::object(part, "fileData")? {
        parts.push(Part::Media(media::file(&mut data)?));
        data.finish(losses);
    }
    Ok(())
}

impl Calls {
    fn call(
        &mut self,
        made: &str,
        mut call: Members,
        signature: Option<String>,
        losses: &mut Losses,
    ) -> Result<ToolCall, Unfit> {
        let given = call.text("id")?.filter(|id| !id.is_empty());
        let id = given.unwrap_or_else(|| made.to_owned());
        let name = call.need_text("name")?;
        let arguments = chunk::arguments(&mut call)?;
        call.finish(losses);
        let place = self.made.len();
        self.made.push((id.clone(), false));
        self.by_id.insert(id.clone(), place);
        self.by_name.entry(name.clone()).or_default().push_back(place);
        Ok(ToolCall { id, name, arguments, signature, cache: false })
    }

    fn result(&mut self, mut response: Members, losses: &mut Losses) -> Result<ToolResult, Unfit> {
        let (id, name) = (response.text("id")?, response.need_text("name")?);
        let Some(id) = self.answered(id.as_deref(), &name) else {
            return Err(Unfit::new(response.place(), "answers no call before it; send the call, too"));
        };
        let (text, failed) = match response.object("response")? {
            Some(object) => said(object.rest().into_iter().collect()),
            None => (String::new(), None),
        };
        let mut parts = Vec::new();
        for mut part in names::objects(&mut response, "parts")? {
            data(&mut part, &mut parts, losses)?;
            part.finish(losses);
        }
        if parts.is_empty() || !text.is_empty() {
            parts.insert(0, Part::text(text));
        }
        response.finish(losses);
        Ok(ToolResult { id, name, parts, failed, cache: false })
    }

    /// The call that a result is for: the latest of that id, else the first of that name that waits for one.
    fn answered(&mut self, id: Option<&str>, name: &str) -> Option<String> {
        let place = match id.and_then(|id| self.by_id.get(id)) {
            Some(place) => *place,
            None => self.waiting(name)?,
        };
        let (id, done) = self.made.get_mut(place)?;
        *done = true;
        Some(id.clone())
    }

    fn waiting(&mut self, name: &str) -> Option<usize> {
        let places = self.by_name.get_mut(name)?;
        let done = |place: usize| self.made.get(place).is_none_or(|(_id, done)| *done);
        while let Some(place) = places.pop_front() {
            if !done(place) {
                return Some(place);
            }
        }
        None
    }
}

/// What a tool gave, and whether it failed. Google's documentation gives a response two keys of its own, `output` and
/// `error`; any other object is the output as a whole.
fn said(mut fields: Vec<(String, Value)>) -> (String, Option<bool>) {
    let failed = match fields.as_slice() {
        [(key, _value)] if key == "error" => Some(Some(true)),
        [(key, _value)] if key == "output" => Some(None),
        _other => None,
    };
    match (failed, fields.pop()) {
        (Some(failed), Some((_key, value))) => (plain(value), failed),
        (_whole, last) => (Value::Object(fields.into_iter().chain(last).collect()).to_string(), None),
    }
}

fn plain(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
