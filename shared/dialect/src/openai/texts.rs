//! The texts of a call that a tokenizer can count, as the model gets them.
//!
//! Only what is certainly one text to the model is told: what people, the model and instructions said, and inputs of
//! embeddings, unescaped. All else of a body (roles, names, calls of tools and their results, schemas) a template puts into
//! words that are not known here; its bytes bound it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// What a call says to its model.
#[derive(Clone, Debug, Default)]
pub struct Texts<'a> {
    /// Contents, in order.
    pub contents: Vec<Content<'a>>,
    /// JSON that the model gets in words that are not known: tools that are offered, calls of tools, and their results.
    pub beside: Vec<&'a str>,
    /// Tokens that were given as numbers.
    pub numbers: usize,
}

/// One text.
#[derive(Clone, Debug)]
pub struct Content<'a> {
    /// What it says.
    pub text: Cow<'a, str>,
    /// The JSON in the body that says it, quotes included; never shorter than the text.
    pub raw: &'a str,
}

#[derive(Deserialize)]
struct Chat<'a> {
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    #[serde(borrow, default)]
    tools: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Embeddings<'a> {
    #[serde(borrow)]
    input: &'a RawValue,
}

/// Texts of a body of `POST /v1/chat/completions`. What cannot be read is left out.
#[must_use]
pub fn chat_texts(body: &[u8]) -> Texts<'_> {
    let mut texts = Texts::default();
    let Ok(chat) = serde_json::from_slice::<Chat<'_>>(body) else { return texts };
    texts.beside.extend(chat.tools.map(RawValue::get));
    for message in &chat.messages {
        texts.beside.extend(message.tool_calls.map(RawValue::get));
        let Some(content) = message.content else { continue };
        if !matches!(message.role.as_deref(), Some("system" | "developer" | "user" | "assistant")) {
            texts.beside.push(content.get());
            continue;
        }
        match serde_json::from_str::<Vec<Part<'_>>>(content.get()) {
            Ok(parts) => texts.contents.extend(parts.iter().filter_map(|part| said(part.text?))),
            Err(_no_parts) => texts.contents.extend(said(content)),
        }
    }
    texts
}

/// Texts of a body of `POST /v1/embeddings`. What cannot be read is left out.
#[must_use]
pub fn embedding_texts(body: &[u8]) -> Texts<'_> {
    let mut texts = Texts::default();
    let Ok(Embeddings { input }) = serde_json::from_slice(body) else { return texts };
    match serde_json::from_str::<Vec<&RawValue>>(input.get()) {
        Ok(inputs) => inputs.into_iter().for_each(|input| texts.input(input)),
        Err(_one) => texts.contents.extend(said(input)),
    }
    texts
}

impl<'a> Texts<'a> {
    /// A text, a token, or a list of tokens.
    fn input(&mut self, input: &'a RawValue) {
        match input.get().as_bytes().first() {
            Some(b'"') => self.contents.extend(said(input)),
            Some(b'[') => {
                let commas = memchr::memchr_iter(b',', input.get().as_bytes()).count();
                self.numbers = self.numbers.saturating_add(commas + 1);
            }
            _number => self.numbers = self.numbers.saturating_add(1),
        }
    }
}

/// Reads a JSON text, from the body itself where nothing in it is escaped.
fn said(raw: &RawValue) -> Option<Content<'_>> {
    #[derive(Deserialize)]
    struct Said<'a>(#[serde(borrow)] Cow<'a, str>);
    let Said(text) = serde_json::from_str(raw.get()).ok()?;
    Some(Content { text, raw: raw.get() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_told_unescaped_and_all_else_is_not() {
        let body = br#"{"model":"m","tools":[{"type":"function"}],"messages":[
            {"role":"system","content":"be\nbrief","name":"x"},
            {"role":"user","content":[{"type":"text","text":"look: \u4f60"},{"type":"image_url","image_url":{"url":"u"}}]},
            {"role":"assistant","content":null,"tool_calls":[{"id":"c"}]},
            {"role":"user","content":"\ud800"},{"role":"tool","content":"\n"}]}"#;
        let texts = chat_texts(body);
        let told: Vec<_> = texts.contents.iter().map(|said| (said.text.as_ref(), said.raw.len())).collect();
        assert_eq!(told, [("be\nbrief", 11), ("look: 你", 14)], "half a character is left to its bytes");
        assert_eq!(texts.beside, [r#"[{"type":"function"}]"#, r#"[{"id":"c"}]"#, r#""\n""#]);
        assert!(matches!(
            chat_texts(br#"{"messages":[{"role":"user","content":"plain"}]}"#).contents[0].text,
            Cow::Borrowed(_)
        ));
        assert!(chat_texts(b"{").contents.is_empty());
    }

    #[test]
    fn inputs_are_texts_or_numbers() {
        let count = |body: &str| {
            let texts = embedding_texts(body.as_bytes());
            (texts.contents.iter().map(|said| said.text.to_string()).collect::<Vec<_>>(), texts.numbers)
        };
        assert_eq!(count(r#"{"input":"one"}"#), (vec!["one".to_owned()], 0));
        assert_eq!(count(r#"{"input":["a","b"]}"#), (vec!["a".to_owned(), "b".to_owned()], 0));
        assert_eq!(count(r#"{"input":[1,2,3]}"#), (vec![], 3));
        assert_eq!(count(r#"{"input":[[1,2],[3]]}"#), (vec![], 3));
    }
}
