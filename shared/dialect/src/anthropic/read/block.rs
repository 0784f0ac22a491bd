//! Content blocks as parts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::options::mark;
use crate::canon::{
    Items, Losses, Media, MediaKind, Members, Part, Source, ToolCall, ToolResult, Unfit, numbered,
};

const ITS_OWN: &str =
    "is a block that only its own provider knows; leave it out or ask that provider's model";

/// The blocks of a content; a text alone is one block.
pub(super) fn items(path: &str, content: Value) -> Result<Items, Unfit> {
    match content {
        Value::String(text) => Ok(vec![(path.to_owned(), json!({"type": "text", "text": text}))]),
        Value::Array(items) => Ok(numbered(path, items)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            Err(Unfit::new(path, "must be a string or an array of blocks"))
        }
    }
}

/// Texts alone, as instructions are.
pub(super) fn texts(path: &str, content: Value, losses: &mut Losses) -> Result<Vec<Part>, Unfit> {
    let mut parts = Vec::new();
    for (path, item) in items(path, content)? {
        let mut item = Members::of(path, item)?;
        if item.need_text("type")? != "text" {
            return Err(Unfit::new(item.path("type"), "must be \"text\""));
        }
        parts.extend(text(&mut item, losses)?);
        item.finish(losses);
    }
    Ok(parts)
}

/// Instructions in the middle of a message.
pub(super) fn instructions(mut item: Members, losses: &mut Losses) -> Result<Vec<Part>, Unfit> {
    let content = item.need("content")?;
    let mut parts = texts(&item.path("content"), content, losses)?;
    let marked = mark(&mut item, losses)?;
    if let Some(Part::Text { cache, .. }) = parts.last_mut() {
        *cache |= marked;
    }
    item.finish(losses);
    Ok(parts)
}

/// One block, whose type is taken; `None` when it says nothing.
pub(super) fn part(kind: &str, mut item: Members, losses: &mut Losses) -> Result<Option<Part>, Unfit> {
    let part = match kind {
        "text" => text(&mut item, losses)?,
        "image" => Some(Part::Media(image(&mut item, losses)?)),
        "document" => Some(Part::Media(document(&mut item, losses)?)),
        "tool_use" => Some(Part::ToolCall(tool_call(&mut item, losses)?)),
        "tool_result" => Some(Part::ToolResult(tool_result(&mut item, losses)?)),
        "thinking" => Some(thought(&mut item)?),
        "redacted_thinking" => Some(Part::SealedThought { data: item.need_text("data")? }),
        _other => return Err(Unfit::new(item.path("type"), ITS_OWN)),
    };
    item.finish(losses);
    Ok(part)
}

fn text(item: &mut Members, losses: &mut Losses) -> Result<Option<Part>, Unfit> {
    let text = item.need_text("text")?;
    let cache = mark(item, losses)?;
    Ok((!text.is_empty()).then_some(Part::Text { text, cache }))
}

fn thought(item: &mut Members) -> Result<Part, Unfit> {
    let text = item.text("thinking")?.unwrap_or_default();
    let signature = item.text("signature")?.filter(|signature| !signature.is_empty());
    Ok(Part::Thought { text, signature })
}

fn tool_call(item: &mut Members, losses: &mut Losses) -> Result<ToolCall, Unfit> {
    let input = item.take("input").unwrap_or_else(|| json!({}));
    if !input.is_object() {
        return Err(Unfit::new(item.path("input"), "must be an object"));
    }
    let id = item.need_text("id")?;
    if id.is_empty() {
        return Err(Unfit::new(item.path("id"), "is empty; its result could not name it"));
    }
    if item.take("caller").is_some_and(|caller| caller.get("type").and_then(Value::as_str) != Some("direct"))
    {
        return Err(Unfit::new(item.path("caller"), ITS_OWN));
    }
    Ok(ToolCall {
        id,
        name: item.need_text("name")?,
        arguments: input.to_string(),
        signature: None,
        cache: mark(item, losses)?,
    })
}

fn tool_result(item: &mut Members, losses: &mut Losses) -> Result<ToolResult, Unfit> {
    let mut parts = Vec::new();
    if let Some(content) = item.take("content") {
        for (path, inner) in items(&item.path("content"), content)? {
            let mut inner = Members::of(path, inner)?;
            match inner.need_text("type")?.as_str() {
                kind @ ("text" | "image" | "document") => parts.extend(part(kind, inner, losses)?),
                _other => return Err(Unfit::new(inner.path("type"), ITS_OWN)),
            }
        }
    }
    Ok(ToolResult {
        id: item.need_text("tool_use_id")?,
        name: String::new(),
        parts,
        failed: item.flag("is_error")?,
        cache: mark(item, losses)?,
    })
}

fn image(item: &mut Members, losses: &mut Losses) -> Result<Media, Unfit> {
    let (source, media_type) = source(item, losses)?;
    if matches!(source, Source::Text(_)) {
        return Err(Unfit::new(item.path("source"), "must hold an image"));
    }
    let cache = mark(item, losses)?;
    Ok(Media { kind: MediaKind::Image, source, media_type, name: None, detail: None, cache })
}

fn document(item: &mut Members, losses: &mut Losses) -> Result<Media, Unfit> {
    let (source, media_type) = source(item, losses)?;
    if let Some(mut citations) = item.object("citations")? {
        // Not to cite is what models of other APIs do by themselves.
        if citations.flag("enabled")? == Some(true) {
            losses.drop(citations.path("enabled"), "only its own provider cites");
        }
        citations.finish(losses);
    }
    let name = item.text("title")?;
    Ok(Media { kind: MediaKind::File, source, media_type, name, detail: None, cache: mark(item, losses)? })
}

fn source(item: &mut Members, losses: &mut Losses) -> Result<(Source, Option<String>), Unfit> {
    let mut source = item.object("source")?.ok_or_else(|| Unfit::new(item.path("source"), "is missing"))?;
    let media_type = source.text("media_type")?;
    let found = match source.need_text("type")?.as_str() {
        "base64" => Source::Bytes(bytes(&mut source)?.into()),
        "url" => Source::Url(source.need_text("url")?),
        "file" => Source::Stored(source.need_text("file_id")?),
        "text" => Source::Text(source.need_text("data")?),
        "content" => Source::Text(plain(&mut source, losses)?),
        _other => return Err(Unfit::new(source.path("type"), ITS_OWN)),
    };
    source.finish(losses);
    Ok((found, media_type))
}

fn bytes(source: &mut Members) -> Result<Vec<u8>, Unfit> {
    let data = source.need_text("data")?;
    STANDARD.decode(&data).map_err(|error| Unfit::new(source.path("data"), format!("is not base64: {error}")))
}

/// A document given as blocks, of which only texts are the same as plain text.
fn plain(source: &mut Members, losses: &mut Losses) -> Result<String, Unfit> {
    let content = source.need("content")?;
    let parts = texts(&source.path("content"), content, losses)?;
    let said = parts.iter().filter_map(|part| match part {
        Part::Text { text, .. } => Some(text.as_str()),
        Part::Media(_)
        | Part::ToolCall(_)
        | Part::ToolResult(_)
        | Part::Thought { .. }
        | Part::SealedThought { .. }
        | Part::Refusal { .. } => None,
    });
    Ok(said.collect::<Vec<_>>().join("\n"))
}
