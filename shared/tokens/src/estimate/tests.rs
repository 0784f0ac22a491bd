use proptest::prelude::*;

use super::*;
use crate::Tokenizer;

const TEXTS: [(&str, &str); 8] = [
    ("English prose", include_str!("../../texts/english.txt")),
    ("German prose", include_str!("../../texts/german.txt")),
    ("Chinese prose", include_str!("../../texts/chinese.txt")),
    ("Japanese prose", include_str!("../../texts/japanese.txt")),
    ("Russian prose", include_str!("../../texts/russian.txt")),
    ("Rust code", include_str!("../../texts/rust.txt")),
    ("JSON", include_str!("../../texts/json.txt")),
    ("a page of all sorts", include_str!("../../texts/mixed.txt")),
];

#[test]
fn an_estimate_is_near_the_count_whatever_the_script() {
    for (name, text) in TEXTS {
        let (counted, estimated) = (Tokenizer::O200kBase.count(text).unwrap().0, Estimate::of(text).0);
        let error = counted.abs_diff(estimated) * 1_000;
        assert!(error <= counted * ERROR_PER_MILLE, "{name}: {estimated} for {counted}");
    }
}

/// Bytes by four, which is what is often done, is not near enough.
#[test]
fn a_plain_ratio_of_bytes_would_fail_on_the_same_texts() {
    let fails = TEXTS.iter().filter(|(_name, text)| {
        let counted = Tokenizer::O200kBase.count(text).unwrap().0;
        let ratio = text.len() as u64 / 4;
        counted.abs_diff(ratio) * 1_000 > counted * ERROR_PER_MILLE
    });
    assert!(fails.count() >= 4);
}

#[test]
fn nothing_has_no_tokens() {
    assert_eq!(Estimate::of(""), Tokens(0));
}

proptest! {
    /// A stream's pieces estimate to what its whole does, and more of a text never to less.
    #[test]
    fn pieces_estimate_as_their_whole(text in "[a-zA-Z0-9 ,.\n{}\"ß漢字かなжα😀]{0,120}", at in 0usize..200) {
        let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let (first, second) = text.split_at(at);
        let mut pieces = Estimate::default();
        pieces.add(first);
        prop_assert!(pieces.tokens() <= Estimate::of(&text));
        pieces.add(second);
        prop_assert_eq!(pieces.tokens(), Estimate::of(&text));
    }
}
