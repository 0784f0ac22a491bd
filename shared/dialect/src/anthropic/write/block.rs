//! Parts as content blocks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::turn::content;
use crate::anthropic::fidelity::fidelity;
use crate::anthropic::marks;
use crate::canon::{Facet, Losses, Media, MediaKind, Part, Source, ToolCall, ToolResult, Unfit};

const UNKNOWN_FILE: &str = "is neither PDF nor plain text; send one of these";
const UNKNOWN_IMAGE: &str = "is an image of no known type; say its media type";
const TEXT_IMAGE: &str = "is text where an image is due";
const CALL_SIGNATURE: &str = "this API signs thoughts, not calls of tools";

fn meet(facet: Facet, losses: &mut Losses) -> Result<bool, Unfit> {
    losses.meet(facet, fidelity(facet))
}

/// The blocks of these parts, in order. The API refuses texts without a visible character; they are left out.
pub(super) fn blocks(parts: &[Part], losses: &mut Losses) -> Result<Vec<Value>, Unfit> {
    let mut blocks = Vec::with_capacity(parts.len());
    for part in parts {
        blocks.extend(block(part, losses)?);
    }
    Ok(blocks)
}

fn block(part: &Part, losses: &mut Losses) -> Result<Option<Value>, Unfit> {
    match part {
        Part::Text { text, cache: _ } if text.trim().is_empty() => Ok(None),
        Part::Text { text, cache } => {
            Ok(Some(marked(json!({"type": "text", "text": text}), *cache, losses)?))
        }
        Part::Media(media) => self::media(media, losses).map(Some),
        Part::ToolCall(call) => tool_call(call, losses).map(Some),
        Part::ToolResult(result) => tool_result(result, losses).map(Some),
        Part::Thought { text, signature } => thought(text, signature.as_deref(), losses),
        Part::SealedThought { data } => {
            let kept = meet(Facet::SealedThought, losses)?;
            Ok(kept.then(|| json!({"type": "redacted_thinking", "data": data})))
        }
        Part::Refusal { text } => {
            meet(Facet::Refusal, losses)?;
            Ok((!text.trim().is_empty()).then(|| json!({"type": "text", "text": text})))
        }
    }
}

/// The block, marked as the end of what may be cached where it is.
pub(super) fn marked(mut block: Value, cache: bool, losses: &mut Losses) -> Result<Value, Unfit> {
    if cache
        && meet(Facet::CacheMark, losses)?
        && let Some(fields) = block.as_object_mut()
    {
        fields.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
    Ok(block)
}

fn thought(text: &str, signature: Option<&str>, losses: &mut Losses) -> Result<Option<Value>, Unfit> {
    match signature {
        Some(signature) => {
            let kept = meet(Facet::ThoughtSignature, losses)?;
            let block = json!({"type": "thinking", "thinking": text, "signature": signature});
            Ok(kept.then_some(block))
        }
        None => {
            meet(Facet::ThoughtText, losses)?;
            Ok(None)
        }
    }
}

fn tool_call(call: &ToolCall, losses: &mut Losses) -> Result<Value, Unfit> {
    let ToolCall { id, name, arguments, signature, cache } = call;
    if signature.is_some() {
        losses.drop(losses.field(Facet::ThoughtSignature), CALL_SIGNATURE);
    }
    let block =
        json!({"type": "tool_use", "id": marks::id(id), "name": name, "input": input(name, arguments)?});
    marked(block, *cache, losses)
}

/// No arguments are an empty object.
fn input(name: &str, arguments: &str) -> Result<Value, Unfit> {
    if arguments.trim().is_empty() {
        return Ok(json!({}));
    }
    let object = serde_json::from_str::<Map<String, Value>>(arguments);
    object.map(Value::Object).map_err(|_other| {
        Unfit::new(
            "messages",
            format!("hold a call of `{name}` whose arguments are not the JSON of an object"),
        )
    })
}

fn tool_result(result: &ToolResult, losses: &mut Losses) -> Result<Value, Unfit> {
    let ToolResult { id, name: _, parts, failed, cache } = result;
    if parts.iter().any(|part| matches!(part, Part::Media(_))) {
        meet(Facet::ToolResultMedia, losses)?;
    }
    let given = content(blocks(parts, losses)?);
    let mut block = json!({"type": "tool_result", "tool_use_id": marks::id(id), "content": given});
    if let (Some(failed), Some(fields)) = (failed, block.as_object_mut())
        && meet(Facet::ToolFailed, losses)?
    {
        fields.insert("is_error".to_owned(), (*failed).into());
    }
    marked(block, *cache, losses)
}

fn media(media: &Media, losses: &mut Losses) -> Result<Value, Unfit> {
    let Media { kind, source, media_type, name, detail, cache } = media;
    if detail.is_some() {
        meet(Facet::ImageDetail, losses)?;
    }
    let facet = facet(*kind, source);
    meet(facet, losses)?;
    let (block, source) = match kind {
        MediaKind::Image => ("image", image(source, media_type.as_deref(), losses)?),
        MediaKind::File | MediaKind::Audio | MediaKind::Video => {
            ("document", document(source, media_type.as_deref(), losses)?)
        }
    };
    let mut block = json!({"type": block, "source": source});
    if let (Some(name), MediaKind::File, Some(fields)) = (name, kind, block.as_object_mut()) {
        fields.insert("title".to_owned(), name.as_str().into());
    }
    marked(block, *cache, losses)
}

const fn facet(kind: MediaKind, source: &Source) -> Facet {
    match (kind, source) {
        (MediaKind::Audio, _) => Facet::Audio,
        (MediaKind::Video, _) => Facet::Video,
        (MediaKind::Image | MediaKind::File, Source::Stored(_)) => Facet::StoredMedia,
        (MediaKind::Image, Source::Url(_)) => Facet::ImageUrl,
        (MediaKind::Image, Source::Bytes(_) | Source::Text(_)) => Facet::ImageBytes,
        (MediaKind::File, Source::Url(_)) => Facet::FileUrl,
        (MediaKind::File, Source::Bytes(_)) => Facet::FileBytes,
        (MediaKind::File, Source::Text(_)) => Facet::FileText,
    }
}

fn image(source: &Source, media_type: Option<&str>, losses: &Losses) -> Result<Value, Unfit> {
    let unfit = |mend| Unfit::new(losses.field(Facet::ImageBytes), mend);
    match source {
        Source::Bytes(bytes) => {
            let said = media_type.map(str::to_ascii_lowercase);
            let known = said.or_else(|| image_type(bytes).map(str::to_owned));
            let media_type = known.ok_or_else(|| unfit(UNKNOWN_IMAGE))?;
            Ok(json!({"type": "base64", "media_type": media_type, "data": STANDARD.encode(bytes)}))
        }
        Source::Url(url) => Ok(json!({"type": "url", "url": url})),
        Source::Stored(id) => Ok(json!({"type": "file", "file_id": id})),
        Source::Text(_) => Err(unfit(TEXT_IMAGE)),
    }
}

/// What an image's first bytes say that it is.
fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _other => None,
    }
}

fn document(source: &Source, media_type: Option<&str>, losses: &Losses) -> Result<Value, Unfit> {
    match source {
        Source::Bytes(bytes) => {
            let read = document_bytes(bytes, media_type.map(str::to_ascii_lowercase).as_deref());
            read.ok_or_else(|| Unfit::new(losses.field(Facet::FileBytes), UNKNOWN_FILE))
        }
        Source::Url(url) => Ok(json!({"type": "url", "url": url})),
        Source::Stored(id) => Ok(json!({"type": "file", "file_id": id})),
        Source::Text(text) => Ok(plain(text)),
    }
}

/// PDF and plain text are all that the API reads.
fn document_bytes(bytes: &[u8], media_type: Option<&str>) -> Option<Value> {
    let (pdf, text) = match media_type {
        Some(media_type) => (media_type == "application/pdf", media_type.starts_with("text/")),
        None => (bytes.starts_with(b"%PDF"), true),
    };
    if pdf {
        let data = STANDARD.encode(bytes);
        return Some(json!({"type": "base64", "media_type": "application/pdf", "data": data}));
    }
    std::str::from_utf8(bytes).ok().filter(|_said| text).map(plain)
}

fn plain(text: &str) -> Value {
    json!({"type": "text", "media_type": "text/plain", "data": text})
}
