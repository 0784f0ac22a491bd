//! Instructions and turns, as contents. Turns of one speaker that follow one another become one.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::canon::{Facet, Losses, Part, Role, ToolCall, ToolResult, Turn, Unfit};
use crate::gemini::fidelity::fidelity;
use crate::gemini::{Line, Target, media, piece};

/// What stands for the signature of a call that another model made: Google's documentation of thought signatures gives
/// this word for it.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// The parts of the system instruction, and the contents.
pub(super) fn contents(
    system: &[Part],
    turns: &[Turn],
    target: Target,
    losses: &mut Losses,
) -> Result<(Vec<Value>, Value), Unfit> {
    let mut writing = Writing { target, losses, calls: BTreeMap::new(), made: 0, contents: Vec::new() };
    let mut instructions = writing.instructions(system)?;
    let last = turns.len().saturating_sub(1);
    for (index, turn) in turns.iter().enumerate() {
        if turn.name.is_some() {
            writing.meet(Facet::SpeakerName)?;
        }
        match turn.role {
            Role::System => {
                writing.meet(Facet::SystemMidway)?;
                instructions.extend(writing.instructions(&turn.parts)?);
            }
            Role::User => writing.user(&turn.parts)?,
            Role::Assistant => {
                if index == last {
                    writing.meet(Facet::Prefill)?;
                }
                writing.model(&turn.parts)?;
            }
        }
    }
    if writing.contents.is_empty() {
        let field = writing.losses.field(Facet::SystemMidway);
        return Err(Unfit::new(field, "are instructions only; add a message of the user"));
    }
    let contents = writing.contents.into_iter();
    let contents = contents.map(|content| json!({"role": content.role, "parts": content.parts()}));
    Ok((instructions, contents.collect()))
}

struct Writing<'a> {
    target: Target,
    losses: &'a mut Losses,
    /// The place among all calls, and the name, of each call so far.
    calls: BTreeMap<String, (usize, String)>,
    /// How many calls there are so far.
    made: usize,
    contents: Vec<Content>,
}

/// One content. Results of tools come first, in the order of their calls.
struct Content {
    role: &'static str,
    results: Vec<(usize, Value)>,
    rest: Vec<Value>,
}

impl Content {
    fn parts(mut self) -> Vec<Value> {
        self.results.sort_by_key(|(place, _result)| *place);
        self.results.into_iter().map(|(_place, result)| result).chain(self.rest).collect()
    }
}

impl Writing<'_> {
    fn meet(&mut self, facet: Facet) -> Result<bool, Unfit> {
        self.losses.meet(facet, fidelity(facet))
    }

    fn cached(&mut self, cache: bool) -> Result<(), Unfit> {
        if cache {
            self.meet(Facet::CacheMark)?;
        }
        Ok(())
    }

    /// The content that a speaker goes on with.
    fn content(&mut self, role: &'static str) -> &mut Content {
        if self.contents.last().is_none_or(|content| content.role != role) {
            self.contents.push(Content { role, results: Vec::new(), rest: Vec::new() });
        }
        let last = self.contents.len().saturating_sub(1);
        #[expect(clippy::indexing_slicing, reason = "one was pushed where there was none")]
        &mut self.contents[last]
    }

    /// Instructions are texts.
    fn instructions(&mut self, parts: &[Part]) -> Result<Vec<Value>, Unfit> {
        let mut texts = Vec::new();
        for part in parts {
            let Part::Text { text, cache } = part else {
                let facet = if let Part::Media(media) = part { media::facet(media) } else { Facet::Tools };
                let message = "stands among the instructions, which are texts alone for this model's API";
                return Err(Unfit::new(self.losses.field(facet), message));
            };
            self.cached(*cache)?;
            texts.push(piece::text(text));
        }
        Ok(texts)
    }

    fn user(&mut self, parts: &[Part]) -> Result<(), Unfit> {
        for part in parts {
            match part {
                Part::Text { text, cache } => {
                    self.cached(*cache)?;
                    // An empty text beside other parts is refused there.
                    if !text.is_empty() || parts.len() == 1 {
                        self.content("user").rest.push(piece::text(text));
                    }
                }
                Part::Media(media) => {
                    let part = media::write(media, self.losses)?;
                    self.content("user").rest.push(part);
                }
                Part::ToolResult(result) => self.result(result)?,
                Part::ToolCall(_)
                | Part::Thought { .. }
                | Part::SealedThought { .. }
                | Part::Refusal { .. } => return Err(self.misplaced()),
            }
        }
        Ok(())
    }

    fn misplaced(&self) -> Unfit {
        Unfit::new(self.losses.field(Facet::Tools), "hold a part that its speaker cannot say")
    }

    fn result(&mut self, result: &ToolResult) -> Result<(), Unfit> {
        let ToolResult { id, name, parts, failed, cache } = result;
        self.cached(*cache)?;
        if *failed == Some(true) {
            self.meet(Facet::ToolFailed)?;
        }
        let known = self.calls.get(id);
        let place = known.map_or(usize::MAX, |(place, _name)| *place);
        let name = known.map_or(name, |(_place, name)| name);
        if name.is_empty() {
            let field = self.losses.field(Facet::Tools);
            return Err(Unfit::new(field, format!("have a result for `{id}`, which no call before it has")));
        }
        let key = if *failed == Some(true) { "error" } else { "output" };
        let mut response = Map::new();
        if !self.target.no_ids {
            response.insert("id".to_owned(), id.as_str().into());
        }
        response.insert("name".to_owned(), name.as_str().into());
        let (text, beside) = self.given(parts)?;
        response.insert("response".to_owned(), json!({key: text}));
        let content = self.content("user");
        content.results.push((place, json!({"functionResponse": response})));
        content.rest.extend(beside);
        Ok(())
    }

    /// What a tool gave: its texts, and its media, which stand beside the result.
    fn given(&mut self, parts: &[Part]) -> Result<(String, Vec<Value>), Unfit> {
        let (mut texts, mut beside) = (Vec::new(), Vec::new());
        for part in parts {
            match part {
                Part::Text { text, cache } => {
                    self.cached(*cache)?;
                    texts.push(text.as_str());
                }
                Part::Media(media) => {
                    self.meet(Facet::ToolResultMedia)?;
                    beside.push(media::write(media, self.losses)?);
                }
                Part::ToolCall(_)
                | Part::ToolResult(_)
                | Part::Thought { .. }
                | Part::SealedThought { .. }
                | Part::Refusal { .. } => return Err(self.misplaced()),
            }
        }
        Ok((texts.join("\n"), beside))
    }

    fn model(&mut self, parts: &[Part]) -> Result<(), Unfit> {
        let mut said = Vec::new();
        let mut called = false;
        for part in parts {
            match part {
                Part::Text { text, cache } => {
                    self.cached(*cache)?;
                    if !text.is_empty() {
                        said.push(piece::text(text));
                    }
                }
                Part::Media(media) => said.push(media::write(media, self.losses)?),
                Part::ToolCall(call) => {
                    said.push(self.call(call, !called)?);
                    called = true;
                }
                Part::Thought { text, signature } => {
                    let signed = signature.is_some();
                    let facet = if signed { Facet::ThoughtSignature } else { Facet::ThoughtText };
                    if self.meet(facet)? {
                        piece::add_thought(&mut said, text, signature.as_deref());
                    }
                }
                Part::SealedThought { data: _ } => {
                    self.meet(Facet::SealedThought)?;
                }
                Part::Refusal { text } => {
                    if self.meet(Facet::Refusal)? {
                        said.push(piece::text(text));
                    }
                }
                Part::ToolResult(_) => return Err(self.misplaced()),
            }
        }
        if !said.is_empty() {
            self.content("model").rest.extend(said);
        }
        Ok(())
    }

    /// Of the calls of a turn only the first is signed.
    fn call(&mut self, call: &ToolCall, first: bool) -> Result<Value, Unfit> {
        let ToolCall { id, name, arguments, signature, cache } = call;
        self.cached(*cache)?;
        if signature.is_some() {
            self.meet(Facet::ThoughtSignature)?;
        }
        self.calls.insert(id.clone(), (self.made, name.clone()));
        self.made += 1;
        let given = Some(id.as_str()).filter(|_id| !self.target.no_ids);
        let Some(part) = piece::call(given, name, arguments) else {
            let field = self.losses.field(Facet::Tools);
            let message = format!("have a call of `{name}` whose arguments are no JSON object");
            return Err(Unfit::new(field, message));
        };
        let unsigned = (first && self.target.line != Line::Budgets).then_some(UNSIGNED);
        Ok(piece::signed(part, signature.as_deref().or(unsigned)))
    }
}
