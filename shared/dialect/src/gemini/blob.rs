//! Bytes in JSON: base64 in either alphabet, padded or not. Google's own clients send the alphabet for URLs.

use base64::Engine as _;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;

const EITHER_PADDING: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

const fn engine(alphabet: &Alphabet) -> GeneralPurpose {
    GeneralPurpose::new(alphabet, EITHER_PADDING)
}

/// The bytes that `text` says; `None` when it is no base64.
pub(super) fn decode(text: &str) -> Option<Bytes> {
    let url = text.contains(['-', '_']);
    let engine = engine(if url { &URL_SAFE } else { &STANDARD });
    engine.decode(text).ok().map(Bytes::from)
}

/// The bytes as text.
pub(super) fn encode(bytes: &[u8]) -> String {
    engine(&STANDARD).encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_alphabet_is_read_with_and_without_padding() {
        let bytes = [0xFB, 0xFF, 0xBF, 0x00];
        for text in ["+/+/AA==", "+/+/AA", "-_-_AA==", "-_-_AA"] {
            assert_eq!(decode(text).as_deref(), Some(&bytes[..]), "{text}");
        }
        assert_eq!(encode(&bytes), "+/+/AA==");
        assert_eq!(decode("data:image/png;base64,AA=="), None);
    }
}
