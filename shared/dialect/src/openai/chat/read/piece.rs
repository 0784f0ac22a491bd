//! The content of a message: a text, or a list of parts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::canon::{Losses, Media, MediaKind, Members, Part, Source, Unfit};

/// Content that may hold media.
pub(super) fn pieces(message: &mut Members, losses: &mut Losses) -> Result<Vec<Part>, Unfit> {
    content(message, losses, piece)
}

/// Content that is text alone. Blank texts are left out: other APIs refuse them.
pub(super) fn texts(message: &mut Members, losses: &mut Losses) -> Result<Vec<Part>, Unfit> {
    let parts = content(message, losses, |part, kind| match kind {
        "text" | "refusal" => piece(part, kind),
        other => Err(unknown(part, other)),
    })?;
    let blank = |part: &Part| matches!(part, Part::Text { text, .. } if text.trim().is_empty());
    Ok(parts.into_iter().filter(|part| !blank(part)).collect())
}

type Piece = fn(&mut Members, &str) -> Result<Part, Unfit>;

fn content(message: &mut Members, losses: &mut Losses, piece: Piece) -> Result<Vec<Part>, Unfit> {
    let place = message.path("content");
    match message.take("content") {
        None => Ok(Vec::new()),
        Some(Value::String(text)) if text.is_empty() => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![Part::text(text)]),
        Some(Value::Array(items)) => {
            let read = |(index, item)| {
                let mut part = Members::of(format!("{place}[{index}]"), item)?;
                let kind = part.need_text("type")?;
                let read = piece(&mut part, &kind)?;
                part.finish(losses);
                Ok(read)
            };
            items.into_iter().enumerate().map(read).collect()
        }
        Some(_other) => Err(Unfit::new(place, "must be a string or a list of parts")),
    }
}

fn piece(part: &mut Members, kind: &str) -> Result<Part, Unfit> {
    match kind {
        "text" => part.need_text("text").map(Part::text),
        "refusal" => part.need_text("refusal").map(|text| Part::Refusal { text }),
        "image_url" => image(part).map(Part::Media),
        "input_audio" => audio(part).map(Part::Media),
        "file" => file(part).map(Part::Media),
        other => Err(unknown(part, other)),
    }
}

fn unknown(part: &Members, kind: &str) -> Unfit {
    let mend = "send text, image_url, input_audio or file where the role allows it";
    Unfit::new(part.path("type"), format!("is \"{}\"; {mend}", kind.escape_debug()))
}

fn needed(part: &mut Members, name: &str) -> Result<Members, Unfit> {
    part.object(name)?.ok_or_else(|| Unfit::new(part.path(name), "is missing"))
}

fn image(part: &mut Members) -> Result<Media, Unfit> {
    let mut image = needed(part, "image_url")?;
    let place = image.path("url");
    let url = image.need_text("url")?;
    let detail = image.text("detail")?;
    let (source, media_type) = match data_url(&place, &url)? {
        Some((media_type, bytes)) => (Source::Bytes(bytes.into()), Some(media_type)),
        None => (Source::Url(url), None),
    };
    Ok(Media { kind: MediaKind::Image, source, media_type, name: None, detail, cache: false })
}

fn audio(part: &mut Members) -> Result<Media, Unfit> {
    let mut audio = needed(part, "input_audio")?;
    let place = audio.path("data");
    let bytes = decoded(&place, &audio.need_text("data")?)?;
    let media_type = match audio.need_text("format")?.as_str() {
        "mp3" => "audio/mpeg".to_owned(),
        other => format!("audio/{other}"),
    };
    let source = Source::Bytes(bytes.into());
    Ok(Media {
        kind: MediaKind::Audio,
        source,
        media_type: Some(media_type),
        name: None,
        detail: None,
        cache: false,
    })
}

fn file(part: &mut Members) -> Result<Media, Unfit> {
    let mut file = needed(part, "file")?;
    let place = file.path("file_data");
    let name = file.text("filename")?;
    let (source, media_type) = match (file.text("file_data")?, file.text("file_id")?) {
        (Some(data), _) => match data_url(&place, &data)? {
            Some((media_type, bytes)) => (Source::Bytes(bytes.into()), Some(media_type)),
            None => (Source::Bytes(decoded(&place, &data)?.into()), None),
        },
        (None, Some(id)) => (Source::Stored(id), None),
        (None, None) => return Err(Unfit::new(place, "is missing")),
    };
    Ok(Media { kind: MediaKind::File, source, media_type, name, detail: None, cache: false })
}

/// The media type, in lower case, and the bytes of a data URL (RFC 2397); `None` when it is another URL.
fn data_url(place: &str, url: &str) -> Result<Option<(String, Vec<u8>)>, Unfit> {
    let Some((scheme, rest)) = url.split_at_checked(5) else { return Ok(None) };
    if !scheme.eq_ignore_ascii_case("data:") {
        return Ok(None);
    }
    let broken = || Unfit::new(place, "is no data URL in base64; send data:MEDIA/TYPE;base64,BYTES");
    let (head, data) = rest.split_once(',').ok_or_else(broken)?;
    let mut words = head.split(';');
    let media_type = words.next().filter(|media_type| media_type.contains('/')).ok_or_else(broken)?;
    if !words.next_back().is_some_and(|last| last.eq_ignore_ascii_case("base64")) {
        return Err(broken());
    }
    Ok(Some((media_type.to_ascii_lowercase(), decoded(place, data)?)))
}

fn decoded(place: &str, data: &str) -> Result<Vec<u8>, Unfit> {
    STANDARD.decode(data.trim()).map_err(|error| Unfit::new(place, format!("is not base64: {error}")))
}
