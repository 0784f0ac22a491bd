//! A caller's request as a canonical call.

mod content;
mod options;
mod tools;

use super::names;
use crate::canon::{Call, Losses, Members, Unfit};

/// Fields that make another call of it.
const REFUSED: [(&str, &str); 1] =
    [("cachedContent", "is kept by its own provider only; send the contents themselves")];

/// Fields that only Google's own models heed.
const SPARE: [(&str, &str); 3] = [
    ("safetySettings", "the model's own settings hold"),
    ("modelArmorConfig", "the model's own settings hold"),
    ("store", "the answer does not depend on it"),
];

/// Reads a request. The model and whether to stream stand in its URL.
///
/// # Errors
/// [`Unfit`] names the field that is none of this API, or that no other API could carry.
pub fn read_call(model: &str, stream: bool, body: &[u8], losses: &mut Losses) -> Result<Call, Unfit> {
    read_body(model, stream, names::body(body)?, losses)
}

/// Reads the body of a request.
pub(super) fn read_body(
    model: &str,
    stream: bool,
    mut body: Members,
    losses: &mut Losses,
) -> Result<Call, Unfit> {
    for (name, mend) in REFUSED {
        if body.has(name) {
            return Err(Unfit::new(name, mend));
        }
    }
    let name = model.strip_prefix("models/").unwrap_or(model);
    let mut call = Call { model: name.to_owned(), stream, answers: 1, ..Call::default() };
    // The URL names the model; some clients repeat it.
    drop(body.take("model"));
    if let Some(content) = names::object(&mut body, "systemInstruction")? {
        call.system = content::instructions(content, losses)?;
    }
    content::turns(names::objects(&mut body, "contents")?, &mut call, losses)?;
    tools::tools(&mut body, &mut call, losses)?;
    if let Some(config) = names::object(&mut body, "generationConfig")? {
        options::generation(config, &mut call, losses)?;
    }
    if let Some(labels) = body.object("labels")? {
        call.metadata = labels.rest();
    }
    call.service_tier = body.text("serviceTier")?.map(|tier| tier.to_ascii_lowercase());
    for (name, became) in SPARE {
        if body.take(name).is_some() {
            losses.drop(body.path(name), became);
        }
    }
    body.finish(losses);
    Ok(call)
}
