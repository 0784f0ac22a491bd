//! Media: bytes in the call, or an address that the provider fetches or knows.

use serde_json::{Map, Value, json};

use super::blob;
use super::fidelity::fidelity;
use crate::canon::{Facet, Losses, Media, MediaKind, Members, Source, Unfit};

/// Where Google keeps files itself.
const STORES: [&str; 3] = ["gs://", "https://generativelanguage.googleapis.com/", "files/"];

/// Reads an `inlineData`.
pub(super) fn inline(data: &mut Members) -> Result<Media, Unfit> {
    let media_type = data.text("mimeType")?.filter(|kind| !kind.is_empty());
    let place = data.path("data");
    let bytes = blob::decode(&data.need_text("data")?)
        .ok_or_else(|| Unfit::new(place, "is no base64; send the bytes alone, without `data:`"))?;
    let text = media_type.as_deref().is_some_and(|kind| kind.starts_with("text/"));
    let source = match std::str::from_utf8(&bytes) {
        Ok(said) if text => Source::Text(said.to_owned()),
        Ok(_) | Err(_) => Source::Bytes(bytes),
    };
    named(data, source, media_type)
}

/// Reads a `fileData`.
pub(super) fn file(data: &mut Members) -> Result<Media, Unfit> {
    let media_type = data.text("mimeType")?.filter(|kind| !kind.is_empty());
    let uri = data.need_text("fileUri")?;
    let stored = STORES.iter().any(|store| uri.starts_with(store));
    named(data, if stored { Source::Stored(uri) } else { Source::Url(uri) }, media_type)
}

fn named(data: &mut Members, source: Source, media_type: Option<String>) -> Result<Media, Unfit> {
    let kind = kind(media_type.as_deref());
    Ok(Media { kind, source, media_type, name: data.text("displayName")?, detail: None, cache: false })
}

fn kind(media_type: Option<&str>) -> MediaKind {
    match media_type.and_then(|kind| kind.split('/').next()) {
        Some("image") => MediaKind::Image,
        Some("audio") => MediaKind::Audio,
        Some("video") => MediaKind::Video,
        Some(_) | None => MediaKind::File,
    }
}

/// Writes media as a part.
pub(super) fn write(media: &Media, losses: &mut Losses) -> Result<Value, Unfit> {
    let Media { kind: _, source, media_type, name, detail, cache } = media;
    let facet = facet(media);
    losses.meet(facet, fidelity(facet))?;
    if *cache {
        losses.meet(Facet::CacheMark, fidelity(Facet::CacheMark))?;
    }
    if detail.as_deref().is_some_and(|detail| detail != "auto") {
        losses.meet(Facet::ImageDetail, fidelity(Facet::ImageDetail))?;
    }
    if name.is_some() {
        losses.drop(losses.field(facet), "without its name");
    }
    let known = media_type.as_deref();
    let data = match source {
        Source::Bytes(bytes) => (known.or_else(|| sniffed(bytes)), blob::encode(bytes)),
        Source::Text(text) => (known.or(Some("text/plain")), blob::encode(text.as_bytes())),
        Source::Url(uri) | Source::Stored(uri) => return Ok(at(uri, known)),
    };
    match data {
        (Some(kind), data) => Ok(json!({"inlineData": {"mimeType": kind, "data": data}})),
        (None, _data) => Err(Unfit::new(losses.field(facet), "has no media type; say it, as in `image/png`")),
    }
}

fn at(uri: &str, media_type: Option<&str>) -> Value {
    let mut data = Map::new();
    data.insert("fileUri".to_owned(), uri.into());
    data.extend(media_type.map(|kind| ("mimeType".to_owned(), kind.into())));
    json!({"fileData": data})
}

/// Writes media as an answer's part, where there are bytes.
pub(super) fn told(media: &Media) -> Option<Value> {
    let Source::Bytes(bytes) = &media.source else { return None };
    let kind = media.media_type.as_deref().or_else(|| sniffed(bytes))?;
    Some(json!({"inlineData": {"mimeType": kind, "data": blob::encode(bytes)}}))
}

pub(super) const fn facet(media: &Media) -> Facet {
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

/// The media type that the first bytes tell.
fn sniffed(bytes: &[u8]) -> Option<&'static str> {
    let riff = bytes.starts_with(b"RIFF").then(|| bytes.get(8..12)).flatten();
    match riff {
        Some(b"WEBP") => return Some("image/webp"),
        Some(b"WAVE") => return Some("audio/wav"),
        Some(_) | None => {}
    }
    let known: [(&[u8], &str); 7] = [
        (b"\x89PNG", "image/png"),
        (b"\xFF\xD8\xFF", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"%PDF", "application/pdf"),
        (b"ID3", "audio/mp3"),
        (b"OggS", "audio/ogg"),
        (b"fLaC", "audio/flac"),
    ];
    known.into_iter().find(|(first, _kind)| bytes.starts_with(first)).map(|(_first, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemini::names::open;

    fn media(kind: MediaKind, source: Source, media_type: Option<&str>) -> Media {
        let media_type = media_type.map(str::to_owned);
        Media { kind, source, media_type, name: None, detail: None, cache: false }
    }

    fn written(media: &Media) -> Result<Value, Unfit> {
        write(media, &mut Losses::of(|_facet| "messages[].content[]"))
    }

    /// Case B058: the type is the one that was said, and the data are bare.
    #[test]
    fn media_keep_their_type() {
        let bytes = Source::Bytes(b"RIFF"[..].into());
        let part = written(&media(MediaKind::Image, bytes, Some("image/webp"))).unwrap();
        assert_eq!(part, json!({"inlineData": {"mimeType": "image/webp", "data": "UklGRg=="}}));
        let mut data = open("d", part["inlineData"].clone()).unwrap();
        assert_eq!(inline(&mut data).unwrap().media_type.as_deref(), Some("image/webp"));
        let mut bad =
            open("d", json!({"mimeType": "image/png", "data": "data:image/png;base64,AA=="})).unwrap();
        assert_eq!(inline(&mut bad).unwrap_err().param, "d.data");
    }

    #[test]
    fn a_type_that_was_not_said_is_found_or_asked_for() {
        let png = Source::Bytes(b"\x89PNG\r\n"[..].into());
        assert_eq!(
            written(&media(MediaKind::Image, png, None)).unwrap()["inlineData"]["mimeType"],
            "image/png"
        );
        let other = Source::Bytes(b"??"[..].into());
        let error = written(&media(MediaKind::File, other, None)).unwrap_err();
        assert_eq!(error.param, "messages[].content[]");
    }

    #[test]
    fn what_google_keeps_is_told_from_addresses() {
        for (uri, stored) in [
            ("gs://b/o.pdf", true),
            ("https://generativelanguage.googleapis.com/v1beta/files/a", true),
            ("https://example.com/a.png", false),
        ] {
            let mut data = open("d", json!({"file_uri": uri, "mime_type": "image/png"})).unwrap();
            let read = file(&mut data).unwrap();
            assert_eq!(matches!(read.source, Source::Stored(_)), stored, "{uri}");
        }
    }
}
