//! Counts that are remembered: prompts begin alike, and a conversation sends all that was said again with each call.

use std::collections::BTreeMap;
use std::mem;

use base::Tokens;

use crate::tokenizer::Id;

/// A cryptographic digest of a text: two texts never share one, not even on purpose.
pub type Digest = [u8; 32];

/// Counts of texts, by tokenizer, in its version, and digest. Two halves: when the newer one is full it becomes the older one, whose counts
/// are forgotten; a count that is asked for moves to the newer one. What is asked for stays, and memory is bounded.
#[derive(Debug)]
pub struct Counts {
    half: usize,
    newer: BTreeMap<(Id, Digest), Tokens>,
    older: BTreeMap<(Id, Digest), Tokens>,
}

impl Counts {
    /// Remembers at most `most` counts, each some 80 bytes.
    #[must_use]
    pub fn of(most: usize) -> Self {
        Self { half: most / 2, newer: BTreeMap::new(), older: BTreeMap::new() }
    }

    /// The count of the text with this digest, if it is remembered.
    pub fn find(&mut self, tokenizer: Id, digest: &Digest) -> Option<Tokens> {
        let key = (tokenizer, *digest);
        if let Some(known) = self.newer.get(&key) {
            return Some(*known);
        }
        let known = self.older.remove(&key)?;
        self.remember(tokenizer, key.1, known);
        Some(known)
    }

    /// Remembers a count.
    pub fn remember(&mut self, tokenizer: Id, digest: Digest, count: Tokens) {
        if self.newer.len() >= self.half {
            self.older = mem::take(&mut self.newer);
        }
        if self.half > 0 {
            self.newer.insert((tokenizer, digest), count);
        }
    }

    /// Counts remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.newer.len() + self.older.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_what_is_not_goes() {
        let mut counts = Counts::of(4);
        for n in 0..100 {
            counts.remember(Id::O200kBase, digest(n), Tokens(n.into()));
            assert_eq!(counts.find(Id::O200kBase, &digest(0)), Some(Tokens(0)), "{n}");
        }
        assert_eq!(counts.find(Id::O200kBase, &digest(50)), None);
        assert_eq!(counts.find(Id::Cl100kBase, &digest(0)), None, "another tokenizer counts otherwise");
        assert_eq!(Counts::of(0).find(Id::O200kBase, &digest(0)), None);
    }

    proptest! {
        /// Whatever comes, no more is remembered than asked for, and nothing but what was told.
        #[test]
        fn memory_is_bounded_and_true(most in 0usize..20, texts in proptest::collection::vec(0u8..40, 0..200)) {
            let mut counts = Counts::of(most);
            for text in texts {
                let told = Tokens(u64::from(text) * 3);
                match counts.find(Id::O200kBase, &digest(text)) {
                    Some(known) => prop_assert_eq!(known, told),
                    None => counts.remember(Id::O200kBase, digest(text), told),
                }
                prop_assert!(counts.len() <= most);
            }
        }
    }

    const fn digest(n: u8) -> Digest {
        [n; 32]
    }
}
