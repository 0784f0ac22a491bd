//! Tokenizers whose vocabulary is part of this build. A name stands for one vocabulary for good, so that it is its
//! version, too.

use base::Tokens;

/// A tokenizer that counts exactly. Text that looks like a special token is counted as the text that it is, which is never
/// fewer tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tokenizer {
    /// OpenAI's for GPT-3.5 and GPT-4.
    Cl100kBase,
    /// OpenAI's from GPT-4o on.
    O200kBase,
}

impl Tokenizer {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::Cl100kBase, Self::O200kBase];

    /// The tokenizer of a name; `None`: none that this build knows.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// Its name in configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cl100kBase => "cl100k_base",
            Self::O200kBase => "o200k_base",
        }
    }

    /// Counts a text, in time linear in its length. The first count of a process builds the vocabulary: some 0.1 s, and
    /// 40 MB that stay.
    #[must_use]
    pub fn count(self, text: &str) -> Tokens {
        let vocabulary = match self {
            Self::Cl100kBase => bpe_openai::cl100k_base(),
            Self::O200kBase => bpe_openai::o200k_base(),
        };
        Tokens(u64::try_from(vocabulary.count(text)).unwrap_or(u64::MAX))
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
            let counted = Tokenizer::ALL.map(|tokenizer| tokenizer.count(text).0);
            assert_eq!(counted, [cl100k, o200k], "{text:?}");
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
            for tokenizer in Tokenizer::ALL {
                prop_assert!(tokenizer.count(&text).0 <= text.len() as u64);
            }
        }
    }
}
