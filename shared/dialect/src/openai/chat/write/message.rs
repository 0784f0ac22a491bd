//! Instructions and turns, as messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::canon::{Facet, Losses, Media, MediaKind, Part, Role, Source, ToolCall, ToolResult, Turn, Unfit};
use crate::openai::chat::fidelity::fidelity;

/// All messages, in order.
pub(super) fn messages(system: &[Part], turns: &[Turn], losses: &mut Losses) -> Result<Vec<Value>, Unfit> {
    let mut messages = Vec::new();
    if !system.is_empty() {
        messages.push(json!({"role": "system", "content": content(system, losses)?}));
    }
    let last = turns.len().saturating_sub(1);
    for (index, turn) in turns.iter().enumerate() {
        match turn.role {
            Role::System => {
                meet(Facet::SystemMidway, losses)?;
                messages.push(named(
                    turn,
                    json!({"role": "system", "content": content(&turn.parts, losses)?}),
                    losses,
                )?);
            }
            Role::User => user(turn, &mut messages, losses)?,
            Role::Assistant => {
                if index == last {
                    meet(Facet::Prefill, losses)?;
                }
                let message = assistant(turn, losses)?;
                messages.push(named(turn, message, losses)?);
            }
        }
    }
    Ok(messages)
}

fn meet(facet: Facet, losses: &mut Losses) -> Result<bool, Unfit> {
    losses.meet(facet, fidelity(facet))
}

fn named(turn: &Turn, mut message: Value, losses: &mut Losses) -> Result<Value, Unfit> {
    if let (Some(name), Some(fields)) = (&turn.name, message.as_object_mut())
        && meet(Facet::SpeakerName, losses)?
    {
        fields.insert("name".to_owned(), name.as_str().into());
    }
    Ok(message)
}

/// Results of tools come first, each a message; then their media, then what the user says.
fn user(turn: &Turn, messages: &mut Vec<Value>, losses: &mut Losses) -> Result<(), Unfit> {
    let mut rest = Vec::new();
    for part in &turn.parts {
        match part {
            Part::ToolResult(result) => messages.push(tool(result, &mut rest, losses)?),
            Part::Text { .. }
            | Part::Media(_)
            | Part::ToolCall(_)
            | Part::Thought { .. }
            | Part::SealedThought { .. }
            | Part::Refusal { .. } => rest.push(part.clone()),
        }
    }
    if !rest.is_empty() {
        messages.push(named(turn, json!({"role": "user", "content": content(&rest, losses)?}), losses)?);
    }
    Ok(())
}

fn tool(result: &ToolResult, rest: &mut Vec<Part>, losses: &mut Losses) -> Result<Value, Unfit> {
    let ToolResult { id, name: _, parts, failed, cache } = result;
    if *cache {
        meet(Facet::CacheMark, losses)?;
    }
    let mut text = String::new();
    if *failed == Some(true) && meet(Facet::ToolFailed, losses)? {
        text.push_str("error: ");
    }
    let mut texts = 0_usize;
    for part in parts {
        if let Part::Text { text: said, cache: _ } = part {
            if texts > 0 {
                text.push('\n');
            }
            text.push_str(said);
            texts += 1;
        } else if meet(Facet::ToolResultMedia, losses)? {
            rest.push(part.clone());
        }
    }
    if texts == 0 && texts < parts.len() {
        text.push_str("(in the next message)");
    }
    Ok(json!({"role": "tool", "tool_call_id": id, "content": text}))
}

fn assistant(turn: &Turn, losses: &mut Losses) -> Result<Value, Unfit> {
    let (mut said, mut calls, mut refusals) = (Vec::new(), Vec::new(), String::new());
    for part in &turn.parts {
        match part {
            Part::Text { .. } | Part::Media(_) => said.push(part.clone()),
            Part::ToolCall(call) => calls.push(tool_call(call, losses)?),
            Part::Refusal { text } => {
                meet(Facet::Refusal, losses)?;
                refusals.push_str(text);
            }
            Part::Thought { signature: Some(_), .. } => {
                meet(Facet::ThoughtSignature, losses)?;
            }
            Part::Thought { signature: None, .. } => {
                meet(Facet::ThoughtText, losses)?;
            }
            Part::SealedThought { .. } => {
                meet(Facet::SealedThought, losses)?;
            }
            Part::ToolResult(_) => {
                return Err(Unfit::new("messages", "hold a tool's result in a turn of the assistant"));
            }
        }
    }
    let mut message = Map::new();
    message.insert("role".to_owned(), "assistant".into());
    let content = if said.is_empty() { Value::Null } else { content(&said, losses)? };
    message.insert("content".to_owned(), content);
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.into());
    }
    if !refusals.is_empty() {
        message.insert("refusal".to_owned(), refusals.into());
    }
    Ok(Value::Object(message))
}

fn tool_call(call: &ToolCall, losses: &mut Losses) -> Result<Value, Unfit> {
    let ToolCall { id, name, arguments, signature, cache } = call;
    if signature.is_some() {
        meet(Facet::ThoughtSignature, losses)?;
    }
    if *cache {
        meet(Facet::CacheMark, losses)?;
    }
    Ok(json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}))
}

/// One text is a string, which every server takes; anything more is a list.
fn content(parts: &[Part], losses: &mut Losses) -> Result<Value, Unfit> {
    if let [Part::Text { text, cache: false }] = parts {
        return Ok(text.as_str().into());
    }
    let pieces = parts.iter().map(|part| piece(part, losses)).collect::<Result<Vec<_>, _>>()?;
    Ok(pieces.into())
}

fn piece(part: &Part, losses: &mut Losses) -> Result<Value, Unfit> {
    match part {
        Part::Text { text, cache } => {
            if *cache {
                meet(Facet::CacheMark, losses)?;
            }
            Ok(json!({"type": "text", "text": text}))
        }
        Part::Media(media) => self::media(media, losses),
        Part::Refusal { text } => Ok(json!({"type": "text", "text": text})),
        Part::ToolCall(_) | Part::ToolResult(_) | Part::Thought { .. } | Part::SealedThought { .. } => {
            Err(Unfit::new("messages", "hold a part that its speaker cannot say"))
        }
    }
}

fn media(media: &Media, losses: &mut Losses) -> Result<Value, Unfit> {
    if media.cache {
        meet(Facet::CacheMark, losses)?;
    }
    let facet = needs(media);
    if !meet(facet, losses)? {
        return Err(Unfit::new("messages", "hold media that this API does not take"));
    }
    match media.kind {
        MediaKind::Image => image(media, losses),
        MediaKind::Audio => audio(media),
        MediaKind::File | MediaKind::Video => Ok(file(media)),
    }
}

const fn needs(media: &Media) -> Facet {
    match (media.kind, &media.source) {
        (_, Source::Stored(_)) => Facet::StoredMedia,
        (MediaKind::Image, Source::Url(_)) => Facet::ImageUrl,
        (MediaKind::Image, Source::Bytes(_) | Source::Text(_)) => Facet::ImageBytes,
        (MediaKind::Audio, Source::Bytes(_) | Source::Text(_) | Source::Url(_)) => Facet::Audio,
        (MediaKind::Video, Source::Bytes(_) | Source::Text(_) | Source::Url(_)) => Facet::Video,
        (MediaKind::File, Source::Bytes(_)) => Facet::FileBytes,
        (MediaKind::File, Source::Text(_)) => Facet::FileText,
        (MediaKind::File, Source::Url(_)) => Facet::FileUrl,
    }
}

fn image(media: &Media, losses: &mut Losses) -> Result<Value, Unfit> {
    let mut url = json!({"url": address(media, "image/png")});
    if let (Some(detail), Some(fields)) = (&media.detail, url.as_object_mut())
        && meet(Facet::ImageDetail, losses)?
    {
        fields.insert("detail".to_owned(), detail.as_str().into());
    }
    Ok(json!({"type": "image_url", "image_url": url}))
}

/// Its address, or its bytes as one (RFC 2397).
fn address(media: &Media, otherwise: &str) -> String {
    let media_type = media.media_type.as_deref().unwrap_or(otherwise);
    match &media.source {
        Source::Url(url) | Source::Stored(url) => url.clone(),
        Source::Bytes(bytes) => format!("data:{media_type};base64,{}", STANDARD.encode(bytes)),
        Source::Text(text) => format!("data:{media_type};base64,{}", STANDARD.encode(text)),
    }
}

fn audio(media: &Media) -> Result<Value, Unfit> {
    let format = match media.media_type.as_deref() {
        Some("audio/wav" | "audio/x-wav" | "audio/wave") => "wav",
        Some("audio/mpeg" | "audio/mp3") => "mp3",
        Some(_) | None => {
            return Err(Unfit::new("messages", "hold sound that is neither WAV nor MP3; send one of these"));
        }
    };
    match &media.source {
        Source::Bytes(bytes) => Ok(
            json!({"type": "input_audio", "input_audio": {"data": STANDARD.encode(bytes), "format": format}}),
        ),
        Source::Url(_) | Source::Stored(_) | Source::Text(_) => {
            Err(Unfit::new("messages", "hold the address of a sound; send its bytes"))
        }
    }
}

fn file(media: &Media) -> Value {
    if let Source::Text(text) = &media.source {
        let title = media.name.as_deref().map(|name| format!("{name}:\n")).unwrap_or_default();
        return json!({"type": "text", "text": format!("{title}{text}")});
    }
    let name = media.name.as_deref().unwrap_or("document");
    json!({"type": "file", "file": {"filename": name, "file_data": address(media, "application/pdf")}})
}
