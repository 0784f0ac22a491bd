//! What bounds a call's input tokens before anyone counted them.
//!
//! A byte-level BPE never yields more tokens than bytes, and the JSON text of a message is longer than what it says
//! plus what a chat template wraps around it. Media break that: an image by URL is a few bytes and many tokens. What bounds
//! them is the model's to say; what says nothing has no bound.

use std::borrow::Cow;

use base::Tokens;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::BadRequest;
use super::ask::wrong;
use super::sound::{self, Sounds};

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
    /// Parts of sound.
    pub sounds: Sounds,
    /// File parts.
    pub files: usize,
    /// How many of the body's bytes all of these take.
    pub media_bytes: usize,
    /// Whether tools are offered.
    pub tools: bool,
    /// The part of the call that has no bound at any model, when one has none: parts that are not known, searches
    /// at the provider.
    pub unbounded: Option<&'static str>,
}

/// What a tokenizer counted of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Bytes of the body that are counted.
    pub bytes: usize,
    /// Tokens of them.
    pub tokens: Tokens,
    /// Tokens that all other bytes may come to beyond their number, where the tokenizer rewrites texts before it cuts them.
    pub grown: Tokens,
}

/// What media come to at most at a model, where that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Media {
    /// One image.
    pub image: Option<Tokens>,
    /// All sound of the call.
    pub sounds: Option<Tokens>,
    /// One file.
    pub file: Option<Tokens>,
}

impl Facts {
    /// The most input tokens that the call can have at a model: what was counted, and a token for each other byte, which is
    /// more than the template puts around each message.
    ///
    /// # Errors
    /// The part that has no bound.
    pub fn token_bound(&self, counted: Counted, media: Media) -> Result<Tokens, &'static str> {
        if let Some(part) = self.unbounded {
            return Err(part);
        }
        let media = self.media(media)?;
        let rest = wide(self.bytes.saturating_sub(counted.bytes).saturating_sub(self.media_bytes));
        // Templates print tool schemas indented, at most about twice as long as they came.
        let rest = if self.tools { rest.saturating_mul(2).saturating_add(TOOL_TEMPLATE) } else { rest };
        let counted = counted.tokens.saturating_add(counted.grown);
        Ok(counted.saturating_add(media).saturating_add(Tokens(rest.saturating_add(TEMPLATE))))
    }

    /// The most that all media come to.
    ///
    /// # Errors
    /// The part that has no bound.
    pub fn media(&self, most: Media) -> Result<Tokens, &'static str> {
        let each = |parts: usize, most: Option<Tokens>| match (parts, most) {
            (0, _) => Some(0),
            (parts, most) => Some(most?.0.saturating_mul(wide(parts))),
        };
        let images = each(self.images, most.image).ok_or("image_url")?;
        let files = each(self.files, most.file).ok_or("file")?;
        // Of these the most of all is told.
        let sounds = each(self.sounds.parts.min(1), most.sounds).ok_or("input_audio")?;
        Ok(Tokens(images.saturating_add(sounds).saturating_add(files)))
    }
}

fn wide(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
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
    for raw in parts.iter().filter(|part| part.get().starts_with('{')) {
        let part: Part<'_> = serde_json::from_str(raw.get()).map_err(bad)?;
        match part.kind.as_deref() {
            Some("text" | "refusal") => {}
            Some("image_url") => {
                facts.images += 1;
                facts.media_bytes += raw.get().len();
            }
            Some("input_audio") => {
                facts.sounds = facts.sounds.and(sound::of_part(raw.get()));
                facts.media_bytes += raw.get().len();
            }
            Some("file") => {
                facts.files += 1;
                facts.media_bytes += raw.get().len();
            }
            Some(_) | None => facts.unbounded = Some("content part"),
        }
    }
    Ok(())
}
