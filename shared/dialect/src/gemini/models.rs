//! The models that can be asked for, as `GET /v1beta/models` lists them.

use bytes::Bytes;
use serde_json::{Value, json};

/// One model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed<'a> {
    /// Its name, without the collection it stands in.
    pub name: &'a str,
    /// Whether it answers conversations.
    pub chats: bool,
    /// Whether it turns texts into vectors.
    pub embeds: bool,
    /// Most tokens of its input, where that is known.
    pub input: Option<u64>,
    /// Most tokens of its answer, where that is known.
    pub output: Option<u64>,
}

/// The whole list, as one page.
#[must_use]
pub fn models_list(models: &[Listed<'_>]) -> Bytes {
    let models: Vec<_> = models.iter().map(entry).collect();
    json!({"models": models}).to_string().into()
}

/// One of them.
#[must_use]
pub fn model(model: &Listed<'_>) -> Bytes {
    entry(model).to_string().into()
}

fn entry(model: &Listed<'_>) -> Value {
    let chats: &[&str] =
        if model.chats { &["generateContent", "streamGenerateContent", "countTokens"] } else { &[] };
    let embeds: &[&str] = if model.embeds { &["embedContent", "batchEmbedContents"] } else { &[] };
    let methods = [chats, embeds].concat();
    let mut entry = json!({
        "name": format!("models/{}", model.name),
        "baseModelId": model.name,
        "displayName": model.name,
        "supportedGenerationMethods": methods,
    });
    if let Some(fields) = entry.as_object_mut() {
        fields.extend(model.input.map(|most| ("inputTokenLimit".to_owned(), most.into())));
        fields.extend(model.output.map(|most| ("outputTokenLimit".to_owned(), most.into())));
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_says_what_can_be_asked_of_it() {
        let listed = Listed { name: "a/b", chats: false, embeds: true, input: Some(512), output: None };
        let expected = json!({"name": "models/a/b", "baseModelId": "a/b", "displayName": "a/b",
            "supportedGenerationMethods": ["embedContent", "batchEmbedContents"], "inputTokenLimit": 512});
        assert_eq!(serde_json::from_slice::<Value>(&model(&listed)).unwrap(), expected);
        let list: Value = serde_json::from_slice(&models_list(&[listed])).unwrap();
        assert_eq!(list, json!({"models": [expected]}));
    }
}
