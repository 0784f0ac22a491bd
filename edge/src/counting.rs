//! How many tokens a call says to its model: counted where the model's tokenizer is known, estimated from its characters
//! elsewhere.
//!
//! What is counted bounds what the call can need; what is estimated does not. Long texts that come again (instructions, what
//! was said before) are counted once and remembered by their digest. Short calls are counted in place, long ones away
//! from the tasks; no lock is held while a text is counted. Of a very long call only a part is counted beside what is remembered, and
//! of a text that its tokenizer cannot read nothing is: bytes bound the rest.

mod files;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use base::Tokens;
use bytes::Bytes;
use dialect::openai::{self, Counted, Texts};
use edge_core::plan::Offer;
use seam::{Host, Lock};
use tokens::{Counts, Digest, Estimate, Tokenizer};
use wire::catalog::{Model, Operation};
use wire::control::MissingTokenizer;

use files::Files;

/// Calls with longer bodies are counted away from the tasks: a tokenizer of this build reads 16 KiB in some 0.3 ms.
const IN_PLACE: usize = 16 * 1024;
/// The same for one of a file, which takes 0.2 to 1.3 us for a byte.
const IN_PLACE_BY_FILE: usize = 1024;

/// Most bytes of one call that a tokenizer of this build reads, some 20 ms of work; what is remembered is not read.
const COUNTED: usize = 1024 * 1024;
/// The same for one of a file: 60 ms of work on prose, 330 ms on the worst text that was found.
const COUNTED_BY_FILE: usize = 256 * 1024;

/// Most bytes of one call that are estimated; what follows is taken to be alike.
const ESTIMATED: usize = 256 * 1024;

/// Shorter texts are counted in less time than it takes to remember them.
const REMEMBERED: usize = 1024;

/// Counts that are remembered, some 80 bytes each.
const COUNTS: usize = 16 * 1024;

/// Counts calls. Cheap to clone; all clones remember the same.
#[derive(Clone, Debug)]
pub(crate) struct Counting(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    counts: Lock<Counts>,
    /// Tokenizers whose vocabulary was built, in the order of [`Tokenizer::BUILT_IN`]: the first use takes long.
    built: [AtomicBool; Tokenizer::BUILT_IN.len()],
    /// Tokenizers of files that models name.
    files: ArcSwap<Files>,
    /// What central is told of those that are not at hand.
    missing: ArcSwap<Vec<MissingTokenizer>>,
}

/// What a call says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Tokens of all of it, estimated.
    estimated: Tokens,
    exact: Vec<Exact>,
}

/// What a call says, as one tokenizer counts it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Exact {
    /// The tokenizer, as models name it.
    named: String,
    counted: Counted,
    /// Tokens of what was not counted, estimated.
    rest: Tokens,
}

impl Counting {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared {
            counts: Lock::new(Counts::of(COUNTS)),
            built: Default::default(),
            files: ArcSwap::default(),
            missing: ArcSwap::default(),
        }))
    }

    /// The tokenizer of a model, if it is one that this build has, or of a file that was read.
    pub(crate) fn tokenizer(&self, model: &Model) -> Option<Tokenizer> {
        let name = model.tokenizer.as_deref()?;
        Tokenizer::named(name).or_else(|| self.0.files.load().find(name))
    }

    /// Whether a vocabulary is at hand.
    pub(crate) fn is_built(&self, tokenizer: &Tokenizer) -> bool {
        self.0.is_built(tokenizer)
    }

    /// Builds a vocabulary away from the tasks, if it is not at hand.
    pub(crate) fn build(&self, host: &Host, tokenizer: &Tokenizer) {
        if self.is_built(tokenizer) {
            return;
        }
        let (shared, of, tokenizer) = (Arc::clone(&self.0), host.clone(), tokenizer.clone());
        let building = async move { of.compute(move || shared.read(&tokenizer, "", &mut 0)).await };
        drop(host.spawn("vocabulary", building));
    }

    /// Counts what `body` says to the models that `offer` may come to.
    pub(crate) async fn said(&self, host: &Host, operation: Operation, body: &Bytes, offer: &Offer) -> Said {
        let known = |model: &Model| Some((model.tokenizer.clone()?, self.tokenizer(model)?));
        let mut tokenizers: Vec<_> =
            offer.candidates().filter_map(|candidate| known(&candidate.model)).collect();
        tokenizers.sort_unstable();
        tokenizers.dedup();
        let is_quick = |(_name, tokenizer): &(String, Tokenizer)| {
            body.len() <= bytes_in_place(tokenizer) && self.is_built(tokenizer)
        };
        if body.len() <= IN_PLACE && tokenizers.iter().all(is_quick) {
            return self.0.said(operation, body, tokenizers);
        }
        let (shared, body) = (Arc::clone(&self.0), body.clone());
        let counting = host.compute(move || shared.said(operation, &body, tokenizers));
        // Uncounted, its bytes bound it.
        counting.await.unwrap_or_default()
    }
}

const fn bytes_in_place(tokenizer: &Tokenizer) -> usize {
    match tokenizer {
        Tokenizer::Cl100kBase | Tokenizer::O200kBase => IN_PLACE,
        Tokenizer::File(_) => IN_PLACE_BY_FILE,
    }
}

const fn bytes_counted(tokenizer: &Tokenizer) -> usize {
    match tokenizer {
        Tokenizer::Cl100kBase | Tokenizer::O200kBase => COUNTED,
        Tokenizer::File(_) => COUNTED_BY_FILE,
    }
}

impl Said {
    /// What was counted for a model; nothing where its tokenizer is not known.
    pub(crate) fn counted(&self, model: &Model) -> Counted {
        self.exact(model).map(|exact| exact.counted).unwrap_or_default()
    }

    /// Tokens that all of it likely has for a model.
    pub(crate) fn likely(&self, model: &Model) -> Tokens {
        self.exact(model).map_or(self.estimated, |exact| exact.counted.tokens.saturating_add(exact.rest))
    }

    fn exact(&self, model: &Model) -> Option<&Exact> {
        let name = model.tokenizer.as_deref()?;
        self.exact.iter().find(|exact| exact.named == name)
    }
}

impl Shared {
    fn is_built(&self, tokenizer: &Tokenizer) -> bool {
        match self.place(tokenizer) {
            Some(built) => built.load(Ordering::Relaxed),
            // What is read of a file is at hand.
            None => true,
        }
    }

    fn place(&self, tokenizer: &Tokenizer) -> Option<&AtomicBool> {
        let places = self.built.iter().zip(&Tokenizer::BUILT_IN);
        places.into_iter().find_map(|(built, of)| (of == tokenizer).then_some(built))
    }

    fn said(&self, operation: Operation, body: &[u8], tokenizers: Vec<(String, Tokenizer)>) -> Said {
        let texts = match operation {
            Operation::Chat => openai::chat_texts(body),
            Operation::Embeddings => openai::embedding_texts(body),
        };
        let estimates = Estimates::of(&texts);
        let exact = tokenizers.into_iter().map(|(named, tokenizer)| {
            let (counted, rest) = self.exact(&tokenizer, operation, (body, &texts), &estimates);
            Exact { named, counted, rest }
        });
        Said { exact: exact.collect(), estimated: estimates.all() }
    }

    /// What is counted, and an estimate of what is not.
    fn exact(
        &self,
        tokenizer: &Tokenizer,
        operation: Operation,
        (body, texts): (&[u8], &Texts<'_>),
        estimates: &Estimates,
    ) -> (Counted, Tokens) {
        // Texts of a chat become one; each that is embedded is wrapped.
        let around = match operation {
            Operation::Chat => Tokens(0),
            Operation::Embeddings => tokenizer.around(),
        };
        let growth = tokenizer.per_byte().saturating_sub(1);
        let grown = |json: &[u8]| if growth == 0 { 0 } else { growth.saturating_mul(growing(json)) };
        let (mut counted, mut rest) = (Counted::default(), estimates.beside);
        let (mut beyond, mut room) = (grown(body), bytes_counted(tokenizer));
        for (content, estimate) in texts.contents.iter().zip(&estimates.contents) {
            match self.count(tokenizer, &content.text, &mut room) {
                Some(count) => {
                    counted.bytes += content.raw.len();
                    counted.tokens = counted.tokens.saturating_add(count).saturating_add(around);
                    beyond = beyond.saturating_sub(grown(content.raw.as_bytes()));
                }
                None => rest = rest.saturating_add(*estimate),
            }
        }
        counted.grown = Tokens(beyond);
        (counted, rest)
    }

    /// The count of a text that is remembered, or of one that there is still room to read.
    fn count(&self, tokenizer: &Tokenizer, text: &str, room: &mut usize) -> Option<Tokens> {
        if text.len() < REMEMBERED {
            return self.read(tokenizer, text, room);
        }
        let (id, digest) = (tokenizer.id(), digest(text));
        let known = self.counts.lock().find(id, &digest);
        known.or_else(|| {
            let count = self.read(tokenizer, text, room)?;
            self.counts.lock().remember(id, digest, count);
            Some(count)
        })
    }

    fn read(&self, tokenizer: &Tokenizer, text: &str, room: &mut usize) -> Option<Tokens> {
        *room = room.checked_sub(text.len())?;
        let count = tokenizer.count(text);
        if let Some(built) = self.place(tokenizer) {
            built.store(true, Ordering::Relaxed);
        }
        count
    }
}

/// Bytes of a JSON text that a tokenizer may make more of: ASCII stays as it is, unless it spells another character.
fn growing(json: &[u8]) -> u64 {
    const ESCAPE: usize = r"\u0000".len();
    let wide = json.iter().filter(|byte| !byte.is_ascii()).count();
    let escapes = json.windows(2).filter(|pair| *pair == br"\u").count();
    u64::try_from(escapes.saturating_mul(ESCAPE).saturating_add(wide)).unwrap_or(u64::MAX)
}

fn digest(text: &str) -> Digest {
    sha256(text.as_bytes())
}

fn sha256(bytes: &[u8]) -> Digest {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().try_into().unwrap_or_default()
}

/// Estimates of a call's texts, one by one.
struct Estimates {
    contents: Vec<Tokens>,
    /// Of what no tokenizer counts.
    beside: Tokens,
}

impl Estimates {
    fn of(texts: &Texts<'_>) -> Self {
        let mut room = ESTIMATED;
        let contents = texts.contents.iter().map(|content| estimate(&content.text, &mut room)).collect();
        let beside = texts.beside.iter().map(|json| estimate(json, &mut room));
        let numbers = Tokens(u64::try_from(texts.numbers).unwrap_or(u64::MAX));
        Self { contents, beside: beside.fold(numbers, Tokens::saturating_add) }
    }

    /// Of the whole call.
    fn all(&self) -> Tokens {
        self.contents.iter().copied().fold(self.beside, Tokens::saturating_add)
    }
}

/// Estimates a text by as much of it as there is room to read.
fn estimate(text: &str, room: &mut usize) -> Tokens {
    let end = (0..=text.len().min(*room)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    *room -= end;
    let read = Estimate::of(text.get(..end).unwrap_or_default());
    let unread = text.len() - end;
    if unread == 0 {
        return read;
    }
    // Of what nothing is read, four bytes are taken for a token.
    let (tokens, bytes) = if end == 0 { (1, 4) } else { (u128::from(read.0), end as u128) };
    let more = u64::try_from(tokens * unread as u128 / bytes).unwrap_or(u64::MAX);
    read.saturating_add(Tokens(more))
}

#[cfg(test)]
mod tests;
