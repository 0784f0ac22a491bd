//! How long the sound in a call is at most: told by the bytes of uncompressed WAV, else bounded by a lowest bit rate.
//!
//! A header that lies makes nothing shorter than its bytes can be: no rate beyond [`FASTEST`] is believed. Sound that is not in the
//! call itself has no length.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// Bytes of sound a second that no recording has more of: eight channels of 32 bits at 192 kHz.
const FASTEST: u64 = 192_000 * 8 * 4;

/// Characters of base64 in which a header is looked for; a multiple of four.
const HEADER: usize = 4096;

/// Providers bill whole seconds, some of them.
const ROUNDED_MS: u64 = 1_000;

/// Samples as they are, in whole numbers or in floating point (RFC 2361).
const UNCOMPRESSED: [u16; 2] = [1, 3];

/// All sound of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sounds {
    /// Parts.
    pub parts: usize,
    /// Milliseconds of those whose length is known, each rounded up to a second.
    known_ms: u64,
    /// Parts whose length is not known, and their bytes.
    coded: (u64, u64),
    /// Whether some of it is elsewhere, or in a form that is not known.
    elsewhere: bool,
}

impl Sounds {
    /// The most milliseconds of all of it, if none that does not tell its rate has fewer than 1000 times `least_kbps` bits a
    /// second; `None`: its length is not known.
    #[must_use]
    pub fn ms(&self, least_kbps: Option<u32>) -> Option<u64> {
        if self.elsewhere {
            return None;
        }
        let coded_ms = match (self.coded, least_kbps) {
            ((0, _bytes), _) => 0,
            ((parts, bytes), Some(least @ 1..)) => {
                let exact = bytes.saturating_mul(8).div_ceil(least.into());
                exact.saturating_add(parts.saturating_mul(ROUNDED_MS))
            }
            (_some, Some(0) | None) => return None,
        };
        Some(self.known_ms.saturating_add(coded_ms))
    }

    pub(super) const fn and(self, other: Self) -> Self {
        let ((parts, bytes), (more_parts, more_bytes)) = (self.coded, other.coded);
        Self {
            parts: self.parts.saturating_add(other.parts),
            known_ms: self.known_ms.saturating_add(other.known_ms),
            coded: (parts.saturating_add(more_parts), bytes.saturating_add(more_bytes)),
            elsewhere: self.elsewhere || other.elsewhere,
        }
    }
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    input_audio: Input<'a>,
}

#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow)]
    data: Cow<'a, str>,
}

/// The sound of one part.
pub(super) fn of_part(json: &str) -> Sounds {
    let one = Sounds { parts: 1, ..Sounds::default() };
    let part = serde_json::from_str::<Part<'_>>(json);
    let Some(data) = part.ok().map(|part| part.input_audio.data).filter(|data| is_base64(data)) else {
        return Sounds { elsewhere: true, ..one };
    };
    let bytes = u64::try_from(data.len()).unwrap_or(u64::MAX).saturating_mul(3).div_ceil(4);
    match bytes_per_s(&data) {
        Some(rate) => Sounds { known_ms: bytes.div_ceil(rate).saturating_mul(ROUNDED_MS), ..one },
        None => Sounds { coded: (1, bytes), ..one },
    }
}

fn is_base64(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_=\r\n".contains(&byte);
    !text.is_empty() && text.bytes().all(known)
}

/// Bytes a second of uncompressed WAV; `None`: it is something else.
fn bytes_per_s(base64: &str) -> Option<u64> {
    let head = base64.get(..base64.len().min(HEADER) / 4 * 4)?;
    let bytes = STANDARD.decode(head).ok()?;
    let mut rest = bytes.strip_prefix(b"RIFF")?.get(4..)?.strip_prefix(b"WAVE")?;
    loop {
        let (name, after) = rest.split_first_chunk::<4>()?;
        let (size, body) = after.split_first_chunk::<4>()?;
        let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
        if name == b"fmt " {
            return rate(body.get(..size.min(body.len()))?);
        }
        // Chunks are padded to an even length.
        rest = body.get(size.checked_add(size % 2)?..)?;
    }
}

/// The lowest of what the format's numbers tell, as decoders differ in which they go by.
fn rate(format: &[u8]) -> Option<u64> {
    let short = |at: usize| Some(u16::from_le_bytes(*format.get(at..)?.first_chunk()?));
    let long = |at: usize| Some(u64::from(u32::from_le_bytes(*format.get(at..)?.first_chunk()?)));
    if !UNCOMPRESSED.contains(&short(0)?) {
        return None;
    }
    let (channels, per_s, told, block, bits) = (short(2)?, long(4)?, long(8)?, short(12)?, short(14)?);
    let sample = u64::from(bits.div_ceil(8));
    let rates =
        [told, per_s.saturating_mul(block.into()), per_s.saturating_mul(sample * u64::from(channels))];
    rates.into_iter().chain([FASTEST]).min().filter(|rate| *rate > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn uncompressed_wav_is_as_long_as_its_samples() {
        let second = wav(1, 1, 16_000, 16, 32_000);
        assert_eq!(
            of_part(&part(&second)).ms(None),
            Some(2_000),
            "a second and its header are billed as two"
        );
        let minute = wav(3, 2, 44_100, 32, 60 * 44_100 * 8);
        assert_eq!(of_part(&part(&minute)).ms(None), Some(61_000));
    }

    #[test]
    fn other_sound_is_bounded_by_its_bytes_alone() {
        let mp3 = [0xff, 0xfb, 0x90, 0x64].repeat(1_000);
        let adpcm = wav(2, 1, 8_000, 4, 4_000);
        for bytes in [mp3, adpcm] {
            let part = part(&bytes);
            let (sounds, held) = (of_part(&part), (bytes.len() as u64).next_multiple_of(3));
            assert_eq!(sounds.ms(None), None);
            assert_eq!(sounds.ms(Some(8)), Some(held + 1_000), "a byte lasts a millisecond at 8 kbit/s");
            let twice = sounds.and(sounds);
            assert_eq!((twice.parts, twice.ms(Some(8))), (2, Some(2 * held + 2_000)));
        }
        assert_eq!(Sounds::default().ms(None), Some(0));
    }

    #[test]
    fn what_is_elsewhere_has_no_length_and_what_makes_no_sense_that_of_its_bytes() {
        for data in [r#""id":"sound-1""#, r#""data":"https://x/y.wav""#, r#""data":"""#, r#""data":5"#] {
            let part = format!(r#"{{"type":"input_audio","input_audio":{{{data}}}}}"#);
            assert_eq!((of_part(&part).parts, of_part(&part).ms(Some(8))), (1, None), "{data}");
        }
        let twisted = of_part(&part(&wav(1, 0, 16_000, 16, 3_000)));
        assert_eq!(
            (twisted.ms(None), twisted.ms(Some(8))),
            (None, Some(3_057 + 1_000)),
            "no channel is no rate"
        );
    }

    proptest! {
        /// However a header lies, what it tells is never shorter than its bytes at the slowest rate that it names.
        #[test]
        fn sound_is_never_held_shorter_than_it_can_be(
            channels in 1u16..=8, rate in 1u32.., bits in proptest::sample::select(vec![8u16, 16, 24, 32]), samples in 0usize..20_000,
        ) {
            let bytes = wav(1, channels, rate, bits, samples);
            let per_s = u64::from(rate) * u64::from(channels) * u64::from(bits / 8);
            let lasts_ms = (samples as u64 * 1_000).div_ceil(per_s);
            let sounds = of_part(&part(&bytes));
            prop_assert!(sounds.ms(Some(1)).unwrap() >= lasts_ms);
            prop_assert!(sounds.ms(Some(1)).unwrap() >= samples as u64 * 1_000 / FASTEST);
        }

        #[test]
        fn no_header_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), cut in 0usize..120) {
            let mut made = wav(1, 1, 8_000, 8, 10);
            made.splice(12.., bytes);
            let mut text = part(&made);
            assert_eq!(of_part(&text).parts, 1);
            text.truncate(cut);
            assert_eq!(of_part(&text).parts, 1);
        }
    }

    fn part(bytes: &[u8]) -> String {
        format!(
            r#"{{"type":"input_audio","input_audio":{{"data":"{}","format":"wav"}}}}"#,
            STANDARD.encode(bytes)
        )
    }

    fn wav(format: u16, channels: u16, rate: u32, bits: u16, data: usize) -> Vec<u8> {
        let block = channels.wrapping_mul(bits / 8);
        let mut bytes = b"RIFF\0\0\0\0WAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0".to_vec();
        bytes.extend([format, channels].map(u16::to_le_bytes).concat());
        bytes.extend([rate, rate.wrapping_mul(block.into())].map(u32::to_le_bytes).concat());
        bytes.extend([block, bits].map(u16::to_le_bytes).concat());
        bytes.extend(b"data\0\0\0\0");
        bytes.resize(bytes.len() + data, 0);
        bytes
    }
}
