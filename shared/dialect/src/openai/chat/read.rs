//! A caller's request as a canonical call.

mod message;
mod options;
mod piece;

use serde_json::Value;

use crate::canon::{Call, Losses, Members, Unfit};
use crate::openai::{BadRequest, scan};

/// Fields that say how the answer is made and not what it is: a model of another API does without.
const SPARE: [&str; 7] = [
    "store",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "verbosity",
    "stream_options",
];

/// Fields that make another call of it.
const BUILT_IN: [(&str, &str); 4] = [
    (
        "web_search_options",
        "is a tool that only its own provider has; leave it out or ask that provider's model",
    ),
    ("audio", "asks for spoken answers, which this model cannot give; leave it out"),
    ("functions", "is the former name of `tools`; send `tools`"),
    ("function_call", "is the former name of `tool_choice`; send `tool_choice`"),
];

/// Reads a request.
///
/// # Errors
/// [`Unfit`] names the field that is no chat completion, or that no other API could carry.
pub fn read_call(body: &[u8], losses: &mut Losses) -> Result<Call, Unfit> {
    let mut body = Members::of("", whole(body)?)?;
    for (name, mend) in BUILT_IN {
        if body.has(name) {
            return Err(Unfit::new(name, mend));
        }
    }
    spoken(&mut body)?;
    let mut call = Call { model: body.need_text("model")?, ..Call::default() };
    call.stream = body.flag("stream")?.unwrap_or(false);
    message::messages(body.items("messages")?, &mut call, losses)?;
    options::tools(&mut body, &mut call, losses)?;
    options::limits(&mut body, &mut call)?;
    options::sampling(&mut body, &mut call)?;
    options::output(&mut body, &mut call, losses)?;
    options::notes(&mut body, &mut call)?;
    for name in SPARE {
        if body.take(name).is_some_and(|value| value != Value::Bool(false)) && name != "stream_options" {
            losses.drop(name, "the answer does not depend on it");
        }
    }
    body.finish(losses);
    Ok(call)
}

fn whole(body: &[u8]) -> Result<Value, Unfit> {
    let checked = scan::object(body, &["model"]).map_err(unfit)?;
    let _model = checked;
    serde_json::from_slice(body)
        .map_err(|error| Unfit::new("", format!("the body is not valid JSON: {error}")))
}

fn unfit(bad: BadRequest) -> Unfit {
    Unfit::new(bad.param.unwrap_or_default(), bad.message)
}

/// Answers in text alone are all that is carried over.
fn spoken(body: &mut Members) -> Result<(), Unfit> {
    let modalities = body.texts("modalities")?;
    match modalities.iter().any(|modality| modality != "text") {
        true => Err(Unfit::new(
            "modalities",
            "asks for more than text, which this model cannot give; send [\"text\"]",
        )),
        false => Ok(()),
    }
}
