//! Embeddings, to and from the canonical call and vectors.
//!
//! OpenAI's own clients ask for base64 unasked: it is little-endian floats of 32 bits. Targets are asked for numbers,
//! which every compatible server gives; both are read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::reply::{BadReply, check_embeddings};
use super::scan;
use crate::canon::{Embed, EmbedInput, Embeddings, Losses, Members, Unfit};

/// How a caller wants vectors written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// As numbers.
    #[default]
    Float,
    /// As base64 of little-endian floats of 32 bits.
    Base64,
}

/// Reads a request.
///
/// # Errors
/// [`Unfit`] names the field that is no embeddings call.
pub fn read_embeddings_call(body: &[u8], losses: &mut Losses) -> Result<(Embed, Encoding), Unfit> {
    let unfit = |bad: super::BadRequest| Unfit::new(bad.param.unwrap_or_default(), bad.message);
    let [_model] = scan::object(body, &["model"]).map_err(unfit)?;
    let body: Value = serde_json::from_slice(body)
        .map_err(|error| Unfit::new("", format!("the body is not valid JSON: {error}")))?;
    let mut body = Members::of("", body)?;
    let embed = Embed {
        model: body.need_text("model")?,
        inputs: inputs(body.need("input")?)?,
        dimensions: body.count("dimensions")?,
        task: None,
        user: body.text("user")?,
    };
    let encoding = match body.text("encoding_format")?.as_deref() {
        None | Some("float") => Encoding::Float,
        Some("base64") => Encoding::Base64,
        Some(_other) => return Err(Unfit::new("encoding_format", "must be float or base64")),
    };
    body.finish(losses);
    Ok((embed, encoding))
}

fn inputs(input: Value) -> Result<Vec<EmbedInput>, Unfit> {
    let mend = "must be a string, a list of strings, or tokens";
    let list = match input {
        Value::String(_) => vec![input],
        Value::Array(list) if list.is_empty() => return Err(Unfit::new("input", "is empty")),
        Value::Array(list) if list.iter().all(Value::is_number) => vec![Value::Array(list)],
        Value::Array(list) => list,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            return Err(Unfit::new("input", mend));
        }
    };
    list.into_iter().map(|one| one_input(one).ok_or_else(|| Unfit::new("input", mend))).collect()
}

fn one_input(one: Value) -> Option<EmbedInput> {
    match one {
        Value::String(text) => Some(EmbedInput::Text { text, title: None }),
        Value::Array(tokens) => {
            let token = |token: &Value| u32::try_from(token.as_u64()?).ok();
            tokens.iter().map(token).collect::<Option<Vec<_>>>().map(EmbedInput::Tokens)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// Writes a request to a target.
#[must_use]
pub fn write_embeddings_call(embed: &Embed, losses: &mut Losses) -> Vec<u8> {
    let Embed { model, inputs, dimensions, task, user } = embed;
    let mut body = Map::new();
    body.insert("model".to_owned(), model.as_str().into());
    let mut list = Vec::new();
    for input in inputs {
        list.push(match input {
            EmbedInput::Text { text, title } => {
                if title.is_some() {
                    losses.drop("title", "");
                }
                Value::from(text.as_str())
            }
            EmbedInput::Tokens(tokens) => Value::from(tokens.as_slice()),
        });
    }
    body.insert("input".to_owned(), list.into());
    body.extend(dimensions.map(|count| ("dimensions".to_owned(), count.into())));
    body.extend(user.as_ref().map(|user| ("user".to_owned(), user.as_str().into())));
    if task.is_some() {
        losses.drop("taskType", "");
    }
    Value::Object(body).to_string().into_bytes()
}

#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    model: Option<String>,
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    index: Option<usize>,
    embedding: Written,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Numbers(Vec<f32>),
    Text(String),
}

/// Reads a target's answer: in the order of the inputs, whatever order it has.
///
/// # Errors
/// [`BadReply`] when it is no answer.
pub fn read_embeddings(body: &[u8]) -> Result<Embeddings, BadReply> {
    let usage = check_embeddings(body)?;
    let mut reply: Reply = serde_json::from_slice(body).map_err(|_other_shape| BadReply::Malformed)?;
    reply.data.sort_by_key(|item| item.index);
    let vectors = reply.data.into_iter().map(|item| vector(item.embedding));
    let vectors = vectors.collect::<Option<_>>().ok_or(BadReply::Malformed)?;
    let model = reply.model.unwrap_or_default();
    Ok(Embeddings { model, vectors, input_tokens: usage.map(|usage| usage.input.0) })
}

fn vector(written: Written) -> Option<Vec<f32>> {
    let numbers = match written {
        Written::Numbers(numbers) => numbers,
        Written::Text(text) => {
            let bytes = STANDARD.decode(text).ok().filter(|bytes| bytes.len() % 4 == 0)?;
            bytes.chunks_exact(4).filter_map(|four| four.try_into().ok().map(f32::from_le_bytes)).collect()
        }
    };
    numbers.iter().all(|number| number.is_finite()).then_some(numbers)
}

/// Writes an answer for a caller. `model`: as the caller named it, where the target did not.
#[must_use]
pub fn write_embeddings(embeddings: &Embeddings, encoding: Encoding, model: &str) -> Vec<u8> {
    let Embeddings { model: named, vectors, input_tokens } = embeddings;
    let data = vectors.iter().enumerate().map(|(index, vector)| {
        let embedding = match encoding {
            Encoding::Float => Value::from(vector.as_slice()),
            Encoding::Base64 => {
                let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
                STANDARD.encode(bytes).into()
            }
        };
        json!({"object": "embedding", "index": index, "embedding": embedding})
    });
    let data: Vec<_> = data.collect();
    let model = if named.is_empty() { model } else { named };
    let mut body = json!({"object": "list", "model": model, "data": data});
    if let (Some(fields), Some(tokens)) = (body.as_object_mut(), input_tokens) {
        fields.insert("usage".to_owned(), json!({"prompt_tokens": tokens, "total_tokens": tokens}));
    }
    body.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses() -> Losses {
        Losses::of(|_facet| "")
    }

    /// Case B084.
    #[test]
    fn vectors_are_written_as_asked() {
        let call = br#"{"model":"e","input":"x","encoding_format":"base64"}"#;
        let (embed, encoding) = read_embeddings_call(call, &mut losses()).unwrap();
        assert_eq!(embed.inputs, [EmbedInput::Text { text: "x".to_owned(), title: None }]);
        let vectors = vec![vec![1.0, -2.0, 0.5]];
        let answer = Embeddings { model: String::new(), vectors, input_tokens: Some(1) };
        let body: Value = serde_json::from_slice(&write_embeddings(&answer, encoding, "e")).unwrap();
        assert_eq!(body["data"][0]["embedding"], "AACAPwAAAMAAAAA/");
        let body: Value = serde_json::from_slice(&write_embeddings(&answer, Encoding::Float, "e")).unwrap();
        assert_eq!(body["data"][0]["embedding"], json!([1.0, -2.0, 0.5]));
        assert_eq!(body["usage"], json!({"prompt_tokens": 1, "total_tokens": 1}));
    }

    #[test]
    fn both_encodings_are_read_in_the_order_of_the_inputs() {
        let body = br#"{"data":[{"index":1,"embedding":"AACAPwAAAMAAAAA/"},{"index":0,"embedding":[0.1,2]}],
            "model":"e","usage":{"prompt_tokens":3,"total_tokens":3}}"#;
        let read = read_embeddings(body).unwrap();
        assert_eq!(read.vectors, [vec![0.1, 2.0], vec![1.0, -2.0, 0.5]]);
        assert_eq!((read.model.as_str(), read.input_tokens), ("e", Some(3)));
        for bad in ["\"AAAA\"", "[1e300]", "\"?\"", "{}", "null"] {
            let body = format!(r#"{{"data":[{{"embedding":{bad}}}]}}"#);
            assert_eq!(read_embeddings(body.as_bytes()), Err(BadReply::Malformed), "{bad}");
        }
        assert_eq!(read_embeddings(br#"{"data":[]}"#), Err(BadReply::Empty));
    }

    #[test]
    fn tokens_and_lists_are_told_apart() {
        let read = |input: &str| {
            let body = format!(r#"{{"model":"e","input":{input},"dimensions":2,"user":"u"}}"#);
            read_embeddings_call(body.as_bytes(), &mut losses()).map(|(embed, _encoding)| embed)
        };
        assert_eq!(read("[1,2]").unwrap().inputs, [EmbedInput::Tokens(vec![1, 2])]);
        assert_eq!(read("[[1],[2]]").unwrap().inputs.len(), 2);
        for bad in ["[]", "7", "[1,\"a\"]", "[-1]", "[[1.5]]"] {
            assert_eq!(read(bad).unwrap_err().param, "input", "{bad}");
        }
        let embed = Embed { task: Some("RETRIEVAL_QUERY".to_owned()), ..read("[\"a\",\"b\"]").unwrap() };
        let mut losses = losses();
        let written: Value = serde_json::from_slice(&write_embeddings_call(&embed, &mut losses)).unwrap();
        assert_eq!(written, json!({"model": "e", "input": ["a", "b"], "dimensions": 2, "user": "u"}));
        assert_eq!(losses.told()[0].path, "taskType");
    }
}
