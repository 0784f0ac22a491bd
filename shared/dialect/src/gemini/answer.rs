//! Whole answers, read from a target and written to a caller.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::chunk::{self, Chunk, Ids, Step, is_error};
use super::error::upstream_error;
use super::{finish, logprobs, media, piece, usage};
use crate::canon::{Answer, Choice, Part, Stop, ToolCall, Usage};
use crate::openai::BadReply;

/// What a caller is told where the target did not say it.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// Names the answer.
    pub id: &'a str,
    /// The model, as the caller named it.
    pub model: &'a str,
}

/// Reads a target's answer. A prompt that was held back is an answer without words, ended by the filter.
///
/// # Errors
/// [`BadReply`] when it is no answer.
pub fn read_answer(body: &[u8]) -> Result<Answer, BadReply> {
    let payload: Value = serde_json::from_slice(body).map_err(|_not_json| BadReply::Malformed)?;
    if is_error(&payload) {
        return Err(BadReply::Error(upstream_error(body).unwrap_or_default()));
    }
    let chunk = chunk::read(payload).map_err(|_other_shape| BadReply::Malformed)?;
    let empty = |choice: &Choice| choice.parts.is_empty() && choice.stop.is_none();
    let answer = whole(chunk);
    if answer.choices.iter().all(empty) { Err(BadReply::Empty) } else { Ok(answer) }
}

fn whole(chunk: Chunk) -> Answer {
    let Chunk { id, model, usage, candidates } = chunk;
    let mut choices: BTreeMap<u32, Choice> = BTreeMap::new();
    for candidate in candidates {
        let ids = Ids::of(&id, candidate.index);
        let parts = parts(candidate.steps, ids);
        let called = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
        let stop = chunk::stop(candidate.reason.as_deref(), called);
        choices.insert(candidate.index, Choice { parts, stop, logprobs: candidate.logprobs });
    }
    let choices = choices.into_values().collect();
    Answer { id, model, created: None, choices, usage, service_tier: None }
}

fn parts(steps: Vec<Step>, mut ids: Ids) -> Vec<Part> {
    let mut parts = Vec::new();
    for step in steps {
        match (step, parts.last_mut()) {
            (Step::Text(more), Some(Part::Text { text, .. })) => text.push_str(&more),
            (Step::Text(text), _) => parts.push(Part::text(text)),
            (Step::Thought(more), Some(Part::Thought { text, signature: None })) => text.push_str(&more),
            (Step::Thought(text), _) => parts.push(Part::Thought { text, signature: None }),
            (Step::Signed(proof), Some(Part::Thought { signature: signature @ None, .. })) => {
                *signature = Some(proof);
            }
            (Step::Signed(proof) | Step::Sealed(proof), _) => {
                parts.push(Part::Thought { text: String::new(), signature: Some(proof) });
            }
            (Step::Call(call), _) => parts.push(Part::ToolCall(ToolCall {
                id: ids.name(call.id),
                name: call.name,
                arguments: call.arguments,
                signature: call.signature,
                cache: false,
            })),
            (Step::Media(media), _) => parts.push(Part::Media(media)),
        }
    }
    parts
}

/// Writes an answer for a caller.
#[must_use]
pub fn write_answer(answer: &Answer, stamp: &Stamp<'_>) -> Vec<u8> {
    let Answer { id, model, created: _, choices, usage, service_tier: _ } = answer;
    let candidates = (0_u32..).zip(choices).map(|(index, choice)| candidate(index, choice));
    let candidates = candidates.collect();
    let id = if id.is_empty() { stamp.id } else { id };
    let model = if model.is_empty() { stamp.model } else { model };
    response(candidates, usage.as_ref(), id, model).to_string().into_bytes()
}

/// A response of these candidates.
pub(super) fn response(candidates: Vec<Value>, used: Option<&Usage>, id: &str, model: &str) -> Value {
    let mut fields = Map::new();
    fields.insert("candidates".to_owned(), candidates.into());
    fields.extend(used.map(|used| ("usageMetadata".to_owned(), usage::write(used))));
    fields.insert("modelVersion".to_owned(), model.into());
    fields.insert("responseId".to_owned(), id.into());
    Value::Object(fields)
}

fn candidate(index: u32, choice: &Choice) -> Value {
    let Choice { parts, stop, logprobs } = choice;
    let (parts, malformed) = said(parts);
    let mut fields = content(index, parts);
    add_finish(&mut fields, stop.as_ref(), malformed.as_deref());
    let logprobs = logprobs.as_ref().and_then(logprobs::write);
    fields.extend(logprobs.map(|logprobs| ("logprobsResult".to_owned(), logprobs)));
    Value::Object(fields)
}

/// A candidate that says these parts. Clients look at the first part unasked, so that there is always one.
pub(super) fn content(index: u32, mut parts: Vec<Value>) -> Map<String, Value> {
    if parts.is_empty() {
        parts.push(piece::text(""));
    }
    let mut fields = Map::new();
    fields.insert("content".to_owned(), json!({"parts": parts, "role": "model"}));
    fields.insert("index".to_owned(), index.into());
    fields
}

/// Adds why it ended. `malformed`: arguments of a call that could not be written.
pub(super) fn add_finish(fields: &mut Map<String, Value>, stop: Option<&Stop>, malformed: Option<&str>) {
    let (reason, detail) = match (stop, malformed) {
        (None, _) => return,
        (Some(_), Some(arguments)) => (finish::MALFORMED_CALL, Some(arguments)),
        (Some(stop), None) => finish::write(stop),
    };
    fields.insert("finishReason".to_owned(), reason.into());
    fields.extend(detail.map(|detail| ("finishMessage".to_owned(), detail.into())));
}

/// The parts, and the arguments of a call that are no JSON object.
fn said(parts: &[Part]) -> (Vec<Value>, Option<String>) {
    let (mut said, mut malformed) = (Vec::new(), None);
    for part in parts {
        match part {
            Part::Text { text, cache: _ } | Part::Refusal { text } => said.push(piece::text(text)),
            Part::Thought { text, signature } => piece::add_thought(&mut said, text, signature.as_deref()),
            Part::ToolCall(ToolCall { id, name, arguments, signature, cache: _ }) => {
                match piece::call(Some(id), name, arguments) {
                    Some(call) => said.push(piece::signed(call, signature.as_deref())),
                    None => malformed = Some(arguments.clone()),
                }
            }
            Part::Media(media) => said.extend(media::told(media)),
            // What only another provider can read, and what no model says.
            Part::SealedThought { .. } | Part::ToolResult(_) => {}
        }
    }
    (said, malformed)
}
