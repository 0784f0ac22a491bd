//! What bounds a call's input tokens before anyone counted them.
//!
//! A byte-level BPE never yields more tokens than bytes, and the JSON text of a message is longer than what it says
//! plus what a chat template wraps around it. Media break that: an image by URL is a few bytes and many tokens.

use std::borrow::Cow;

use base::Tokens;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::BadRequest;
use super::ask::wrong;

/// Tokens that a template may add to a call: a default system prompt, dates, the generation prompt.
const TEMPLATE: u64 = 256;

/// Tokens that a template may add when tools are given, its explanation of how to call them.
const TOOL_TEMPLATE: u64 = 1024;

/// What bounds the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Length of the body in bytes.
    pub bytes: usize,
    /// Messages.
    pub messages: usize,
    /// Image parts.
    pub images: usize,
    /// Whether tools are offered.
    pub tools: bool,
    /// The part of the call that has no bound, when one has none: media other than text, searches at the provider.
    pub unbounded: Option<&'static str>,
}

impl Facts {
    /// The most input tokens that the call can have.
    ///
    /// # Errors
    /// The part that has no bound.
    pub fn token_bound(&self) -> Result<Tokens, &'static str> {
        if let Some(part) = self.unbounded {
            return Err(part);
        }
        let bytes = u64::try_from(self.bytes).unwrap_or(u64::MAX);
        // Templates print tool schemas indented, at most about twice as long as they came.
        let text = if self.tools { bytes.saturating_mul(2).saturating_add(TOOL_TEMPLATE) } else { bytes };
        Ok(Tokens(text.saturating_add(TEMPLATE)))
    }
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

/// Facts of a chat call with these `messages` in a body of `bytes` bytes.
pub(super) fn of_messages(bytes: usize, messages: &RawValue) -> Result<Facts, BadRequest> {
    if !messages.get().starts_with('[') {
        return Err(wrong("messages", "an array of messages", messages));
    }
    let list: Vec<Message<'_>> = serde_json::from_str(messages.get())
        .map_err(|_wrong_type| BadRequest::field("messages", "must hold objects only".to_owned()))?;
    if list.is_empty() {
        return Err(BadRequest::field("messages", "is empty; send at least one message".to_owned()));
    }
    let mut facts = Facts { bytes, messages: list.len(), ..Facts::default() };
    for content in list.iter().filter_map(|message| message.content) {
        if content.get().starts_with('[') {
            count_parts(content, &mut facts)?;
        }
    }
    Ok(facts)
}

fn count_parts(content: &RawValue, facts: &mut Facts) -> Result<(), BadRequest> {
    let bad = |_wrong_type| BadRequest::field("messages", "has a `content` that cannot be read".to_owned());
    let parts: Vec<&RawValue> = serde_json::from_str(content.get()).map_err(bad)?;
    for part in parts.iter().filter(|part| part.get().starts_with('{')) {
        let part: Part<'_> = serde_json::from_str(part.get()).map_err(bad)?;
        match part.kind.as_deref() {
            Some("text" | "refusal") => {}
            Some("image_url") => {
                facts.images += 1;
                facts.unbounded = Some("image_url");
            }
            Some("input_audio") => facts.unbounded = Some("input_audio"),
            Some("file") => facts.unbounded = Some("file"),
            Some(_) | None => facts.unbounded = Some("content part"),
        }
    }
    Ok(())
}
