//! One `GenerateContentResponse`: a whole answer, or a piece of a stream. Both are read here, so that they say the
//! same.

use serde_json::Value;

use super::{finish, logprobs, media, names, usage};
use crate::canon::{Media, Members, Stop, Unfit, Usage};

/// Most choices of one answer that are followed.
const MOST_CHOICES: u32 = 128;

/// What a response says.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) usage: Option<Usage>,
    pub(super) candidates: Vec<Candidate>,
}

/// What one candidate says.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) index: u32,
    pub(super) steps: Vec<Step>,
    /// Why it ended, in this API's words.
    pub(super) reason: Option<String>,
    /// Probabilities in OpenAI's shape.
    pub(super) logprobs: Option<Value>,
}

/// What a part does to the answer.
#[derive(Debug)]
pub(super) enum Step {
    /// Text goes on, or begins.
    Text(String),
    /// Thoughts go on, or begin.
    Thought(String),
    /// The thoughts that were open are signed.
    Signed(String),
    /// What came so far is signed, thoughts or not.
    Sealed(String),
    /// A tool is called.
    Call(Call),
    /// Media, which no stream of another API carries.
    Media(Media),
}

/// A call of a tool.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) signature: Option<String>,
}

/// Whether a payload is an error and no response.
pub(super) fn is_error(payload: &Value) -> bool {
    let one = payload.as_array().and_then(|items| items.first()).unwrap_or(payload);
    one.get("error").is_some_and(|error| !error.is_null())
}

/// Reads a response.
pub(super) fn read(payload: Value) -> Result<Chunk, Unfit> {
    let mut body = names::open("", payload)?;
    let mut candidates = Vec::new();
    for (position, item) in (0_u64..).zip(names::objects(&mut body, "candidates")?) {
        candidates.push(candidate(item, position)?);
    }
    if candidates.is_empty() && blocked(&mut body)? {
        let reason = Some("SAFETY".to_owned());
        candidates.push(Candidate { index: 0, steps: Vec::new(), reason, logprobs: None });
    }
    Ok(Chunk {
        id: body.text("responseId")?.unwrap_or_default(),
        model: body.text("modelVersion")?.unwrap_or_default(),
        usage: body.take("usageMetadata").as_ref().and_then(usage::read),
        candidates,
    })
}

/// Whether the prompt was held back: there are no candidates then.
fn blocked(body: &mut Members) -> Result<bool, Unfit> {
    let Some(mut feedback) = names::object(body, "promptFeedback")? else { return Ok(false) };
    let reason = feedback.text("blockReason")?.unwrap_or_default();
    Ok(!matches!(reason.as_str(), "" | "BLOCK_REASON_UNSPECIFIED" | "BLOCKED_REASON_UNSPECIFIED"))
}

/// A zero is left out of this JSON, so that the first candidate has no index.
fn candidate(mut item: Members, position: u64) -> Result<Candidate, Unfit> {
    let place = item.path("index");
    let index = u32::try_from(item.count("index")?.unwrap_or(position)).ok();
    let index = index.filter(|index| *index < MOST_CHOICES);
    let index = index.ok_or_else(|| Unfit::new(place, "is senseless"))?;
    let mut steps = Vec::new();
    if let Some(mut content) = names::object(&mut item, "content")? {
        for mut part in names::objects(&mut content, "parts")? {
            read_part(&mut part, &mut steps)?;
        }
    }
    let reason = item.text("finishReason")?.filter(|reason| finish::read(reason, false).is_some());
    let logprobs = item.take("logprobsResult").as_ref().and_then(logprobs::read);
    Ok(Candidate { index, steps, reason, logprobs })
}

/// Parts of tools that only Google runs are passed over: nobody asks for them through another API.
fn read_part(part: &mut Members, steps: &mut Vec<Step>) -> Result<(), Unfit> {
    let thought = part.flag("thought")?.unwrap_or(false);
    let signature = part.text("thoughtSignature")?.filter(|signature| !signature.is_empty());
    if let Some(call) = names::object(part, "functionCall")? {
        steps.push(Step::Call(read_call(call, signature)?));
        return Ok(());
    }
    if let Some(text) = part.text("text")?.filter(|text| !text.is_empty()) {
        steps.push(if thought { Step::Thought(text) } else { Step::Text(text) });
    } else if let Some(mut data) = names::object(part, "inlineData")? {
        steps.push(Step::Media(media::inline(&mut data)?));
    }
    steps.extend(signature.map(if thought { Step::Signed } else { Step::Sealed }));
    Ok(())
}

fn read_call(mut call: Members, signature: Option<String>) -> Result<Call, Unfit> {
    let id = call.text("id")?.filter(|id| !id.is_empty());
    let name = call.need_text("name")?;
    Ok(Call { id, name, arguments: arguments(&mut call)?, signature })
}

/// The `args` of a call, as text.
pub(super) fn arguments(call: &mut Members) -> Result<String, Unfit> {
    Ok(match call.object("args")? {
        Some(args) => Value::Object(args.rest()).to_string(),
        None => "{}".to_owned(),
    })
}

/// Names the calls of one choice that have no id. The names differ from answer to answer, so that a conversation holds
/// each once, and are of letters that every API takes.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    prefix: String,
    next: u32,
}

impl Ids {
    /// Longest piece of an answer's id that is taken into a name; OpenAI allows 40 letters in all.
    const LONGEST: usize = 24;

    pub(super) fn of(answer: &str, choice: u32) -> Self {
        let plain =
            answer.chars().filter(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_'));
        let mut prefix = "call_".to_owned();
        prefix.extend(plain.take(Self::LONGEST));
        if prefix.len() > "call_".len() {
            prefix.push('_');
        }
        if choice > 0 {
            prefix.push_str(&format!("{choice}_"));
        }
        Self { prefix, next: 0 }
    }

    pub(super) fn name(&mut self, given: Option<String>) -> String {
        let number = self.next;
        self.next = number.saturating_add(1);
        given.unwrap_or_else(|| format!("{}{number}", self.prefix))
    }
}

/// Why a choice ended.
pub(super) fn stop(reason: Option<&str>, called: bool) -> Option<Stop> {
    reason.and_then(|reason| finish::read(reason, called))
}
