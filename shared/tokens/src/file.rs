//! Tokenizers as Hugging Face publishes them: `tokenizer.json`, of any kind (byte-level BPE, unigrams, pieces of words …).
//!
//! A count is what the model's own tokenizer makes of the text alone: neither cut to a length nor filled up to one, however the
//! file wants that, and with special tokens as the text that they are. The library may panic on a file or a text that it does
//! not expect: then the file cannot be used, or the text is not counted.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};

use base::Tokens;
use serde_json::Value;

use crate::Digest;

/// Anything that a model should be able to say. What cannot encode this is no tokenizer of a model.
const PROBE: &str = "It's 12 o'clock:\n\n\tGrüße, naïve café — 你好，世界! мир, مرحبا, नमस्ते 😀\u{200d}\u{fdfa}\u{1d160}\r\n  {\"a\": [0.5, -7]}";

/// UTF-8 bytes that one byte may become when it is composed or decomposed (UAX #15, table 4).
const CANONICAL: u64 = 3;
/// The same where compatible characters are taken for one another.
const COMPATIBLE: u64 = 11;
/// The same in lower case: some letters of two bytes have three then.
const LOWER: u64 = 2;

/// A tokenizer that was read from a file.
pub struct Vocabulary {
    digest: Digest,
    inner: tokenizers::Tokenizer,
    around: Tokens,
    per_byte: u64,
}

/// Why a file is no tokenizer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It cannot be read as one.
    #[error("it is no tokenizer.json that can be read: {0}")]
    Unread(String),
    /// It leaves out merges at random.
    #[error("it has a `dropout`, so that its counts differ from one time to the next")]
    Random,
    /// It fails on ordinary text.
    #[error("it cannot encode ordinary text")]
    Fails,
}

impl Vocabulary {
    /// Reads the contents of a `tokenizer.json` that have this digest. Takes a quarter of a second for a file of 2 MB, and
    /// twenty times its length in memory.
    ///
    /// # Errors
    /// [`Unusable`] says why it is none.
    pub fn read(json: &[u8], digest: Digest) -> Result<Self, Unusable> {
        let unread = |error: &dyn fmt::Display| Unusable::Unread(error.to_string());
        let file: Value = serde_json::from_slice(json).map_err(|error| unread(&error))?;
        if file.pointer("/model/dropout").and_then(Value::as_f64).is_some_and(|share| share > 0.0) {
            return Err(Unusable::Random);
        }
        let per_byte = growth(file.get("normalizer").unwrap_or(&Value::Null));
        drop(file);
        let mut inner = guarded(|| tokenizers::Tokenizer::from_bytes(json))
            .ok_or(Unusable::Fails)?
            .map_err(|error| unread(&error))?;
        inner.with_truncation(None).map_err(|error| unread(&error))?;
        inner.with_padding(None);
        inner.set_encode_special_tokens(true);
        let mut read = Self { digest, inner, around: Tokens(0), per_byte };
        read.around = read.encoded("", true).ok_or(Unusable::Fails)?;
        let probed = read.count(PROBE).filter(|count| *count > Tokens(0));
        probed.map(|_count| read).ok_or(Unusable::Fails)
    }

    /// What the file is.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Tokens that it puts around a text.
    #[must_use]
    pub const fn around(&self) -> Tokens {
        self.around
    }

    /// The most tokens that it may make of one byte; at least 1.
    #[must_use]
    pub const fn per_byte(&self) -> u64 {
        self.per_byte
    }

    /// Counts a text, some microsecond for each byte at worst; `None`: the library cannot.
    #[must_use]
    pub fn count(&self, text: &str) -> Option<Tokens> {
        self.encoded(text, false)
    }

    fn encoded(&self, text: &str, whole: bool) -> Option<Tokens> {
        let encoding = guarded(|| self.inner.encode_fast(text, whole))?.ok()?;
        Some(Tokens(u64::try_from(encoding.len()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary").field("digest", &self.digest).finish_non_exhaustive()
    }
}

/// Runs the library; `None`: it panicked. What it keeps between two calls is a cache behind a lock that a panic leaves closed,
/// and a closed one is not used.
fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    panic::catch_unwind(AssertUnwindSafe(work)).ok()
}

/// How many bytes a byte may become before it is cut into tokens. What is not known is taken for the worst.
fn growth(normalizer: &Value) -> u64 {
    let kind = normalizer.get("type").and_then(Value::as_str);
    match kind {
        None => 1,
        Some("Sequence") => {
            let steps = normalizer.get("normalizers").and_then(Value::as_array).map(Vec::as_slice);
            steps.unwrap_or_default().iter().map(growth).fold(1, u64::saturating_mul)
        }
        Some("Strip" | "StripAccents" | "Nmt" | "Prepend" | "ByteLevel") => 1,
        Some("Lowercase") => LOWER,
        Some("NFC" | "NFD") => CANONICAL,
        Some("BertNormalizer") => CANONICAL * LOWER,
        Some("Replace") => replaced(normalizer),
        Some(_) => COMPATIBLE,
    }
}

/// What is put in counts by characters: one that is put in is one that the vocabulary has, such as a sign for the blank.
fn replaced(normalizer: &Value) -> u64 {
    let text = |pointer: &str| normalizer.pointer(pointer).and_then(Value::as_str);
    let length = |text: &str| u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    let old = text("/pattern/String").map_or(1, length);
    text("/content").map_or(COMPATIBLE, |new| length(new).div_ceil(old.max(1)).max(1))
}

#[cfg(test)]
mod tests;
