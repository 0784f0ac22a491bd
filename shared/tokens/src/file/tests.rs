use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{Id, Tokenizer};

/// A byte-level BPE of 295 tokens. Its file wants texts cut to four tokens and filled up to sixteen.
const TINY: &str = include_str!("../../fixtures/tiny.json");

/// As Hugging Face's own library for Python, tokenizers 0.23.3, counts them, with another engine for expressions.
#[test]
fn counts_are_those_of_the_reference() {
    for (text, count) in [
        ("", 0),
        ("hello world", 9),
        (" the pilot walked down", 4),
        ("the pilot walked down", 5),
        ("<|end|>", 7),
        ("<|begin|>the<|end|>", 17),
        ("<think> the</think>", 9),
        ("Grüße", 6),
        ("Gru\u{308}ße", 6),
        ("你好", 4),
        ("123123 12", 4),
        ("        x", 5),
        ("\n\n", 1),
        ("aaaaaaaaa", 3),
        ("it's", 4),
        (include_str!("../../texts/english.txt"), 764),
        (include_str!("../../texts/german.txt"), 920),
        (include_str!("../../texts/chinese.txt"), 913),
        (include_str!("../../texts/japanese.txt"), 1_083),
        (include_str!("../../texts/rust.txt"), 1_119),
        (include_str!("../../texts/json.txt"), 869),
        (include_str!("../../texts/mixed.txt"), 793),
    ] {
        assert_eq!(tiny().count(text), Some(Tokens(count)), "{text:?}");
    }
}

#[test]
fn what_begins_a_text_is_told_beside_it() {
    assert_eq!(tiny().around(), Tokens(1));
    assert_eq!(Tokenizer::O200kBase.around(), Tokens(0));
}

#[test]
fn a_byte_may_be_rewritten_into_as_many_as_its_normalizer_allows() {
    assert_eq!(
        tiny().count("\u{1d160}"),
        Some(Tokens(12)),
        "a note of four bytes is three signs of four each"
    );
    assert_eq!(tiny().per_byte(), 3);
    let llama = json!({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    ]});
    assert_eq!(growth(&llama), 1);
    assert_eq!(growth(&Value::Null), 1);
    assert_eq!(growth(&json!({"type": "Precompiled", "precompiled_charsmap": ""})), 11);
    assert_eq!(growth(&json!({"type": "Replace", "pattern": {"String": "\""}, "content": "''"})), 2);
    assert_eq!(growth(&json!({"type": "of tomorrow"})), 11);
}

#[test]
fn files_that_are_no_tokenizer_are_refused() {
    let read = |json: &str| Vocabulary::read(json.as_bytes(), Digest::default()).unwrap_err();
    assert!(matches!(read("{"), Unusable::Unread(_)));
    assert!(matches!(read("{\"version\":\"1.0\"}"), Unusable::Unread(_)));
    assert_eq!(read(&TINY.replace("\"dropout\":null", "\"dropout\":0.1")), Unusable::Random);
    let words = json!({"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
        "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "none"}});
    assert_eq!(read(&words.to_string()), Unusable::Fails, "it knows one word");
}

#[test]
fn a_file_is_its_digest() {
    let of = |digest| Tokenizer::File(Arc::new(Vocabulary::read(TINY.as_bytes(), digest).unwrap()));
    assert_eq!(of([1; 32]).id(), Id::File([1; 32]));
    assert_eq!(of([1; 32]), of([1; 32]));
    assert_ne!(of([1; 32]), of([2; 32]));
}

/// A stranger's text of one kind of character has as many tokens as it has, and takes no longer for it.
#[test]
fn long_runs_are_counted() {
    for (piece, pieces, count) in
        [(" ", 65_536, 8_192), ("a", 65_536, 16_384), ("1", 65_536, 65_536), ("\u{1d160}", 16_384, 196_608)]
    {
        assert_eq!(tiny().count(&piece.repeat(pieces)), Some(Tokens(count)), "{piece:?}");
    }
}

#[test]
fn what_panics_is_not_counted() {
    assert_eq!(guarded(|| -> Tokens { panic!("as the library might") }), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What holds rest on where a text is not counted.
    #[test]
    fn no_text_has_more_tokens_than_its_bytes_may_come_to(text in "\\PC{0,200}") {
        let tiny = tiny();
        prop_assert!(tiny.count(&text).unwrap().0 <= text.len() as u64 * tiny.per_byte());
    }
}

fn tiny() -> Vocabulary {
    Vocabulary::read(TINY.as_bytes(), Digest::default()).unwrap()
}
