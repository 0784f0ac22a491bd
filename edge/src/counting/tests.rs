use edge_core::plan::Offers;
use tokens::Id;
use wire::catalog::Catalog;

use super::*;
use crate::fixtures::{self, TINY_TOKENIZER as TINY};

const PROSE: &str = "the pilot walked down to the pier and counted the boats ";

#[tokio::test]
async fn a_call_is_counted_for_known_tokenizers_and_estimated_for_others() {
    let counting = Counting::new();
    let said = said(&counting, &body(PROSE)).await;
    let counted = said.counted(&model(Some("o200k_base")));
    assert_eq!(counted, whole(PROSE, Tokenizer::O200kBase.count(PROSE)));
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
    counting.0.counts.lock().remember(Id::O200kBase, digest(&long), Tokens(7));
    let remembered = said(&counting, &body(&long)).await;
    assert_eq!(remembered.counted(&model(Some("o200k_base"))).tokens, Tokens(7), "it is not counted again");
    said(&counting, &body(PROSE)).await;
    assert_eq!(counting.0.counts.lock().len(), 1);
}

#[tokio::test]
async fn of_a_conversation_only_what_is_new_is_counted() {
    let counting = Counting::new();
    let [system, question, answer, next] =
        ["be brief", "how many boats", "forty two", "and tomorrow"].map(|text| text.repeat(200));
    said(&counting, &chat(&[&system, &question])).await;
    // Counts that no tokenizer makes show where they come from.
    for (text, count) in [(&system, 1), (&question, 2)] {
        counting.0.counts.lock().remember(Id::O200kBase, digest(text), Tokens(count));
    }
    let second = said(&counting, &chat(&[&system, &question, &answer, &next])).await;
    let new: u64 = [&answer, &next].map(|text| Tokenizer::O200kBase.count(text).unwrap().0).iter().sum();
    assert_eq!(second.counted(&model(Some("o200k_base"))).tokens, Tokens(1 + 2 + new));
}

#[tokio::test]
async fn of_a_huge_call_the_first_part_is_counted_and_bytes_bound_the_rest() {
    let [first, second] = ["a boat ", "the pier "].map(|text| text.repeat(COUNTED * 2 / 3 / text.len()));
    let counting = Counting::new();
    let body = chat(&[&first, &second]);
    let known = model(Some("o200k_base"));
    let once = said(&counting, &body).await;
    assert_eq!(once.counted(&known), whole(&first, Tokenizer::O200kBase.count(&first)));
    let tokens =
        [&first, &second].map(|text| Tokenizer::O200kBase.count(text).unwrap().0).iter().sum::<u64>();
    let likely = once.likely(&known).0;
    assert!(likely.abs_diff(tokens) * 1_000 < tokens * 150, "{likely} for {tokens}");
    let twice = said(&counting, &body).await.counted(&known);
    assert_eq!(twice.tokens, Tokens(tokens), "what is remembered takes no room");
}

#[tokio::test]
async fn a_model_is_counted_by_the_file_that_it_names() {
    let (counting, dir) = (Counting::new(), tempfile::tempdir().unwrap());
    let pinned = format!("tiny@sha256:{}", hex(TINY.as_bytes()));
    let other = format!("tiny@sha256:{}", "0".repeat(64));
    let names = ["tiny", &pinned, &other, "broken", "../tiny"];
    assert_eq!(read(&counting, dir.path(), &names).await, names.len(), "there is no such file");
    put(dir.path(), "tiny.json", TINY).await;
    put(dir.path(), "broken.json", "{}").await;
    assert_eq!(read(&counting, dir.path(), &names).await, 3, "they are looked for again");
    let count = |name: &str| {
        let model = model(Some(name));
        counting.tokenizer(&model).map(|tokenizer| tokenizer.count(PROSE))
    };
    assert_eq!(names.map(count), [Some(Some(Tokens(27))), Some(Some(Tokens(27))), None, None, None]);
    let said = said_to(&counting, Operation::Chat, &chat(&[PROSE]), "tiny").await;
    assert_eq!(said.counted(&model(Some("tiny"))), whole(PROSE, Some(Tokens(27))));
    assert_eq!(said.counted(&model(Some("broken"))), Counted::default());
    assert_eq!(read(&counting, dir.path(), &["tiny"]).await, 0);
    assert_eq!(count(&pinned), None, "what no model names is forgotten");
}

#[tokio::test]
async fn an_embedding_is_counted_with_what_its_tokenizer_puts_around_it() {
    let (counting, dir) = (Counting::new(), tempfile::tempdir().unwrap());
    put(dir.path(), "tiny.json", TINY).await;
    read(&counting, dir.path(), &["tiny"]).await;
    let body = r#"{"model":"tiny","input":[" the"," the pilot"]}"#;
    let said = said_to(&counting, Operation::Embeddings, body, "tiny").await;
    assert_eq!(said.counted(&model(Some("tiny"))).tokens, Tokens(2 + 3), "each begins with one more");
}

#[tokio::test]
async fn bytes_bound_what_a_tokenizer_may_rewrite_into_more() {
    let (counting, dir) = (Counting::new(), tempfile::tempdir().unwrap());
    put(dir.path(), "tiny.json", TINY).await;
    read(&counting, dir.path(), &["tiny"]).await;
    // A note is four bytes, and three signs of four once it is composed.
    let body = r#"{"messages":[{"role":"tool","content":"NOTE\ud834"},{"role":"user","content":"NOTE"}]}"#;
    let body = body.replace("NOTE", "\u{1d160}");
    let counted = said_to(&counting, Operation::Chat, &body, "tiny").await.counted(&model(Some("tiny")));
    assert_eq!((counted.tokens, counted.grown), (Tokens(12), Tokens(2 * (4 + 6))));
}

async fn put(dir: &std::path::Path, name: &str, text: &str) {
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    seam::write_atomic(Host::real().disk().as_ref(), &dir.join(name), bytes).await.unwrap();
}

async fn read(counting: &Counting, dir: &std::path::Path, names: &[&str]) -> usize {
    let mut catalog = Catalog::default();
    for (number, name) in names.iter().enumerate() {
        catalog.models.insert(format!("m-{number}").parse().unwrap(), model(Some(name)));
    }
    counting.read_files(&Host::real(), dir, &catalog).await
}

fn hex(bytes: &[u8]) -> String {
    sha256(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn said(counting: &Counting, body: &str) -> Said {
    said_to(counting, Operation::Chat, body, "o200k_base").await
}

async fn said_to(counting: &Counting, operation: Operation, body: &str, tokenizer: &str) -> Said {
    let mut catalog = Catalog::default();
    catalog.models.insert("tiny".parse().unwrap(), model(Some(tokenizer)));
    let offers = Offers::compile(&catalog, &"here".parse().unwrap());
    let body = Bytes::from(body.to_owned());
    counting.said(&Host::real(), operation, &body, offers.find("tiny").unwrap()).await
}

/// What is counted of one text that is counted whole.
fn whole(text: &str, tokens: Option<Tokens>) -> Counted {
    Counted { bytes: text.len() + 2, tokens: tokens.unwrap(), ..Counted::default() }
}

fn body(text: &str) -> String {
    chat(&[text])
}

fn chat(contents: &[&str]) -> String {
    let said = |content: &&str| format!(r#"{{"role":"user","content":"{content}"}}"#);
    let messages: Vec<_> = contents.iter().map(said).collect();
    format!(r#"{{"model":"tiny","messages":[{}]}}"#, messages.join(","))
}

fn model(tokenizer: Option<&str>) -> Model {
    Model { tokenizer: tokenizer.map(ToOwned::to_owned), ..fixtures::model("tiny", "http://127.0.0.1:1") }
}
