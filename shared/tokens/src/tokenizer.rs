//! Tokenizers: those whose vocabulary is part of this build, and those that are read from a file. A name of the former
//! stands for one vocabulary for good, so that it is its version, too; of the latter the file's digest is.

use std::cmp::Ordering;
use std::sync::Arc;

use base::Tokens;

use crate::Digest;
use crate::file::Vocabulary;

/// A tokenizer that counts exactly. Cheap to clone. Text that looks like a special token is counted as the text that it is,
/// which is never fewer tokens.
#[derive(Clone, Debug)]
pub enum Tokenizer {
    /// OpenAI's for GPT-3.5 and GPT-4.
    Cl100kBase,
    /// OpenAI's from GPT-4o on.
    O200kBase,
    /// A model's own, read from its `tokenizer.json`.
    File(Arc<Vocabulary>),
}

/// Which tokenizer it is, in its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Id {
    /// [`Tokenizer::Cl100kBase`].
    Cl100kBase,
    /// [`Tokenizer::O200kBase`].
    O200kBase,
    /// That of the file with this digest.
    File(Digest),
}

impl Tokenizer {
    /// Every one that this build has.
    pub const BUILT_IN: [Self; 2] = [Self::Cl100kBase, Self::O200kBase];

    /// The tokenizer of a name; `None`: none that this build has.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::BUILT_IN.into_iter().find(|known| known.name() == Some(name))
    }

    /// Its name in configuration, if this build has it.
    #[must_use]
    pub const fn name(&self) -> Option<&'static str> {
        match self {
            Self::Cl100kBase => Some("cl100k_base"),
            Self::O200kBase => Some("o200k_base"),
            Self::File(_) => None,
        }
    }

    /// Which it is.
    #[must_use]
    pub fn id(&self) -> Id {
        match self {
            Self::Cl100kBase => Id::Cl100kBase,
            Self::O200kBase => Id::O200kBase,
            Self::File(vocabulary) => Id::File(vocabulary.digest()),
        }
    }

    /// Counts a text, in time about linear in its length; `None`: it cannot be counted, which only happens to a tokenizer of a
    /// file. The first count of a process by a tokenizer of this build builds its vocabulary: some 0.1 s, and 40 MB that stay.
    #[must_use]
    pub fn count(&self, text: &str) -> Option<Tokens> {
        let vocabulary = match self {
            Self::Cl100kBase => bpe_openai::cl100k_base(),
            Self::O200kBase => bpe_openai::o200k_base(),
            Self::File(vocabulary) => return vocabulary.count(text),
        };
        Some(Tokens(u64::try_from(vocabulary.count(text)).unwrap_or(u64::MAX)))
    }

    /// Tokens that it puts around each text of its own, such as those that begin and end an input of an embedding.
    #[must_use]
    pub fn around(&self) -> Tokens {
        match self {
            Self::Cl100kBase | Self::O200kBase => Tokens(0),
            Self::File(vocabulary) => vocabulary.around(),
        }
    }

    /// The most tokens that it may make of one byte; at least 1. More than one where it rewrites texts before it cuts them.
    #[must_use]
    pub fn per_byte(&self) -> u64 {
        match self {
            Self::Cl100kBase | Self::O200kBase => 1,
            Self::File(vocabulary) => vocabulary.per_byte(),
        }
    }
}

impl PartialEq for Tokenizer {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Tokenizer {}

impl PartialOrd for Tokenizer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Tokenizer {
    fn cmp(&self, other: &Self) -> Ordering {
        self.id().cmp(&other.id())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As OpenAI's own library, tiktoken 0.12, counts them (`encode_ordinary`).
    #[test]
    fn counts_are_those_of_the_reference() {
        for (text, cl100k, o200k) in [
            ("", 0, 0),
            ("hello world", 2, 2),
            ("Hello, world!  \n\n\tIt's 12345 o'clock.", 13, 13),
            ("<|endoftext|>", 7, 7),
            ("Grüße aus München", 5, 5),
            ("你好，世界", 6, 3),
            ("naïve 😀 café", 5, 5),
            ("    if x == 0 {\n        return;\n    }\n", 12, 12),
            ("supercalifragilisticexpialidocious", 11, 10),
            (include_str!("../texts/english.txt"), 207, 206),
            (include_str!("../texts/german.txt"), 285, 226),
            (include_str!("../texts/chinese.txt"), 345, 230),
            (include_str!("../texts/japanese.txt"), 393, 292),
            (include_str!("../texts/rust.txt"), 354, 349),
            (include_str!("../texts/json.txt"), 354, 351),
            (include_str!("../texts/mixed.txt"), 292, 258),
        ] {
            let counted = Tokenizer::BUILT_IN.map(|tokenizer| tokenizer.count(text));
            assert_eq!(counted, [cl100k, o200k].map(|count| Some(Tokens(count))), "{text:?}");
        }
    }

    #[test]
    fn only_known_names_stand_for_a_tokenizer() {
        assert_eq!(Tokenizer::named("o200k_base"), Some(Tokenizer::O200kBase));
        assert_eq!(Tokenizer::named("llama-3"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// What holds rest on where no tokenizer is known.
        #[test]
        fn no_text_has_more_tokens_than_bytes(text in ".{0,200}") {
            for tokenizer in Tokenizer::BUILT_IN {
                prop_assert!(tokenizer.count(&text).unwrap().0 <= text.len() as u64);
            }
        }
    }
}
