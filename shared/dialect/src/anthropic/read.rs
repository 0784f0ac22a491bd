//! A caller's request as a canonical call.

mod block;
mod options;
mod turn;

use serde_json::Value;

use crate::canon::{Call, Losses, Members, Unfit};
use crate::openai::scan;

/// Fields that make another call of it, which no other API could serve.
const BUILT_IN: [(&str, &str); 3] = [
    ("mcp_servers", "are connected to by their own provider only; leave it out or ask that provider's model"),
    ("container", "runs at its own provider only; leave it out or ask that provider's model"),
    (
        "inference_geo",
        "names a place that only its own provider knows; leave it out or ask that provider's model",
    ),
];

/// Reads a request for an answer.
///
/// # Errors
/// [`Unfit`] names the field that is not of this API, or that no other API could carry.
pub fn read_call(body: &[u8], losses: &mut Losses) -> Result<Call, Unfit> {
    let mut body = whole(body)?;
    let max_tokens = body.count("max_tokens")?;
    let max_tokens = max_tokens.ok_or_else(|| Unfit::new("max_tokens", "is missing"))?;
    if max_tokens == 0 {
        return Err(Unfit::new(
            "max_tokens",
            "asks for no answer, which only its own provider serves; ask for 1 or more",
        ));
    }
    let stream = body.flag("stream")?.unwrap_or(false);
    let call = Call { max_tokens: Some(max_tokens), stream, ..Call::default() };
    read(body, call, losses)
}

/// Reads a request to count a call's tokens: the call without what its count does not depend on.
///
/// # Errors
/// [`Unfit`], as [`read_call`].
pub fn read_count(body: &[u8], losses: &mut Losses) -> Result<Call, Unfit> {
    read(whole(body)?, Call::default(), losses)
}

fn whole(body: &[u8]) -> Result<Members, Unfit> {
    let _model = scan::object(body, &["model"])
        .map_err(|bad| Unfit::new(bad.param.unwrap_or_default(), bad.message))?;
    let body: Value = serde_json::from_slice(body)
        .map_err(|error| Unfit::new("", format!("the body is not valid JSON: {error}")))?;
    Members::of("", body)
}

fn read(mut body: Members, mut call: Call, losses: &mut Losses) -> Result<Call, Unfit> {
    for (name, mend) in BUILT_IN {
        if body.has(name) {
            return Err(Unfit::new(name, mend));
        }
    }
    call.model = body.need_text("model")?;
    if let Some(system) = body.take("system") {
        call.system = block::texts(&body.path("system"), system, losses)?;
    }
    call.turns = turn::turns(body.items("messages")?, losses)?;
    if options::mark(&mut body, losses)? {
        turn::mark_last(&mut call.turns);
    }
    options::tools(&mut body, &mut call, losses)?;
    options::sampling(&mut body, &mut call)?;
    options::output(&mut body, &mut call, losses)?;
    options::notes(&mut body, &mut call, losses)?;
    body.finish(losses);
    Ok(call)
}
