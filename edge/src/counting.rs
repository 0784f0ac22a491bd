//! How many tokens a call says to its model: counted where the model's tokenizer is known, estimated from its characters
//! elsewhere.
//!
//! What is counted bounds what the call can need; what is estimated does not. Long texts that come again (instructions, what
//! was said before) are counted once and remembered by their digest. Short calls are counted in place, long ones away
//! from the tasks; no lock is held while a text is counted. Of a very long call only the first part is counted: its
//! bytes bound the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::Tokens;
use bytes::Bytes;
use dialect::openai::{self, Counted, Texts};
use edge_core::plan::Offer;
use seam::{Host, Lock};
use tokens::{Counts, Digest, Estimate, Tokenizer};
use wire::catalog::{Model, Operation};

/// Calls with longer bodies are counted away from the tasks: a tokenizer reads 16 KiB in some 0.3 ms.
const IN_PLACE: usize = 16 * 1024;

/// Most bytes of one call that a tokenizer reads, some 20 ms of work.
const COUNTED: usize = 1024 * 1024;

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
    /// Tokenizers whose vocabulary was built, in the order of [`Tokenizer::ALL`]: the first use takes long.
    built: [AtomicBool; Tokenizer::ALL.len()],
}

/// What a call says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Tokens of all of it, estimated.
    estimated: Tokens,
    exact: Vec<Exact>,
}

/// What a call says, as one tokenizer counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exact {
    tokenizer: Tokenizer,
    counted: Counted,
    /// Tokens of what was not counted, estimated.
    rest: Tokens,
}

impl Counting {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared { counts: Lock::new(Counts::of(COUNTS)), built: Default::default() }))
    }

    /// Whether a vocabulary is at hand.
    pub(crate) fn is_built(&self, tokenizer: Tokenizer) -> bool {
        self.0.is_built(tokenizer)
    }

    /// Builds a vocabulary away from the tasks, if it is not at hand.
    pub(crate) fn build(&self, host: &Host, tokenizer: Tokenizer) {
        if self.is_built(tokenizer) {
            return;
        }
        let (shared, of) = (Arc::clone(&self.0), host.clone());
        let building = async move { of.compute(move || shared.count(tokenizer, "")).await };
        drop(host.spawn("vocabulary", building));
    }

    /// Counts what `body` says to the models that `offer` may come to.
    pub(crate) async fn said(&self, host: &Host, operation: Operation, body: &Bytes, offer: &Offer) -> Said {
        let mut tokenizers: Vec<Tokenizer> =
            offer.candidates().filter_map(|candidate| tokenizer(&candidate.model)).collect();
        tokenizers.sort_unstable();
        tokenizers.dedup();
        if body.len() <= IN_PLACE && tokenizers.iter().all(|tokenizer| self.0.is_built(*tokenizer)) {
            return self.0.said(operation, body, &tokenizers);
        }
        let (shared, body) = (Arc::clone(&self.0), body.clone());
        let counting = host.compute(move || shared.said(operation, &body, &tokenizers));
        // Uncounted, its bytes bound it.
        counting.await.unwrap_or_default()
    }
}

/// The tokenizer of a model, if it is one that this build has.
pub(crate) fn tokenizer(model: &Model) -> Option<Tokenizer> {
    model.tokenizer.as_deref().and_then(Tokenizer::named)
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
        let tokenizer = tokenizer(model)?;
        self.exact.iter().find(|exact| exact.tokenizer == tokenizer)
    }
}

impl Shared {
    fn is_built(&self, tokenizer: Tokenizer) -> bool {
        self.built
            .iter()
            .zip(Tokenizer::ALL)
            .any(|(built, of)| of == tokenizer && built.load(Ordering::Relaxed))
    }

    fn said(&self, operation: Operation, body: &[u8], tokenizers: &[Tokenizer]) -> Said {
        let texts = match operation {
            Operation::Chat => openai::chat_texts(body),
            Operation::Embeddings => openai::embedding_texts(body),
        };
        let estimates = Estimates::of(&texts);
        let exact = tokenizers.iter().map(|tokenizer| self.exact(*tokenizer, &texts, &estimates)).collect();
        Said { estimated: estimates.after(0), exact }
    }

    fn exact(&self, tokenizer: Tokenizer, texts: &Texts<'_>, estimates: &Estimates) -> Exact {
        let mut counted = Counted::default();
        let mut texts_counted = 0;
        for content in &texts.contents {
            if counted.bytes.saturating_add(content.bytes) > COUNTED {
                break;
            }
            counted.bytes += content.bytes;
            counted.tokens = counted.tokens.saturating_add(self.count(tokenizer, &content.text));
            texts_counted += 1;
        }
        Exact { tokenizer, counted, rest: estimates.after(texts_counted) }
    }

    fn count(&self, tokenizer: Tokenizer, text: &str) -> Tokens {
        if text.len() < REMEMBERED {
            let count = tokenizer.count(text);
            self.is_built_now(tokenizer);
            return count;
        }
        let digest = digest(text);
        let known = self.counts.lock().find(tokenizer, &digest);
        known.unwrap_or_else(|| {
            let count = tokenizer.count(text);
            self.is_built_now(tokenizer);
            self.counts.lock().remember(tokenizer, digest, count);
            count
        })
    }

    fn is_built_now(&self, tokenizer: Tokenizer) {
        if let Some((built, _of)) = self.built.iter().zip(Tokenizer::ALL).find(|(_, of)| *of == tokenizer) {
            built.store(true, Ordering::Relaxed);
        }
    }
}

fn digest(text: &str) -> Digest {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
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

    /// Of all but the first `counted` texts.
    fn after(&self, counted: usize) -> Tokens {
        self.contents.iter().skip(counted).copied().fold(self.beside, Tokens::saturating_add)
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
mod tests {
    use edge_core::plan::Offers;
    use wire::catalog::Catalog;

    use super::*;
    use crate::fixtures;

    const PROSE: &str = "the pilot walked down to the pier and counted the boats ";

    #[tokio::test]
    async fn a_call_is_counted_for_known_tokenizers_and_estimated_for_others() {
        let counting = Counting::new();
        let said = said(&counting, &body(PROSE)).await;
        let counted = said.counted(&model(Some("o200k_base")));
        assert_eq!(counted, Counted { bytes: PROSE.len() + 2, tokens: Tokenizer::O200kBase.count(PROSE) });
        assert_eq!(said.likely(&model(Some("o200k_base"))), counted.tokens);
        for other in [None, Some("llama-3")] {
            assert_eq!(said.counted(&model(other)), Counted::default(), "bytes bound it");
            assert_eq!(said.likely(&model(other)), Estimate::of(PROSE));
        }
    }

    #[tokio::test]
    async fn long_texts_are_remembered_and_short_ones_are_not() {
        let counting = Counting::new();
        let long = PROSE.repeat(40);
        let first = said(&counting, &body(&long)).await;
        assert_eq!(counting.0.counts.lock().len(), 1);
        assert_eq!(said(&counting, &body(&long)).await, first);
        counting.0.counts.lock().remember(Tokenizer::O200kBase, digest(&long), Tokens(7));
        let remembered = said(&counting, &body(&long)).await;
        assert_eq!(
            remembered.counted(&model(Some("o200k_base"))).tokens,
            Tokens(7),
            "it is not counted again"
        );
        said(&counting, &body(PROSE)).await;
        assert_eq!(counting.0.counts.lock().len(), 1);
    }

    #[tokio::test]
    async fn of_a_huge_call_the_first_part_is_counted_and_bytes_bound_the_rest() {
        let half = PROSE.repeat(COUNTED * 2 / 3 / PROSE.len());
        let text = format!(
            r#"{{"model":"tiny","messages":[{{"role":"user","content":"{half}"}},{{"role":"user","content":"{half}"}}]}}"#
        );
        let said = said(&Counting::new(), &text).await;
        let counted = said.counted(&model(Some("o200k_base")));
        assert_eq!(counted, Counted { bytes: half.len() + 2, tokens: Tokenizer::O200kBase.count(&half) });
        let (likely, twice) = (said.likely(&model(Some("o200k_base"))).0, 2 * counted.tokens.0);
        assert!(likely.abs_diff(twice) * 1_000 < twice * 150, "{likely} for {twice}");
    }

    async fn said(counting: &Counting, body: &str) -> Said {
        let mut catalog = Catalog::default();
        catalog.models.insert("tiny".parse().unwrap(), model(Some("o200k_base")));
        let offers = Offers::compile(&catalog, &"here".parse().unwrap());
        let body = Bytes::from(body.to_owned());
        counting.said(&Host::real(), Operation::Chat, &body, offers.find("tiny").unwrap()).await
    }

    fn body(text: &str) -> String {
        format!(r#"{{"model":"tiny","messages":[{{"role":"user","content":"{text}"}}]}}"#)
    }

    fn model(tokenizer: Option<&str>) -> Model {
        Model { tokenizer: tokenizer.map(ToOwned::to_owned), ..fixtures::model("tiny", "http://127.0.0.1:1") }
    }
}
