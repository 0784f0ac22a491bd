//! `embedContent` and `batchEmbedContents`, to and from the canonical call and vectors.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::error::upstream_error;
use super::{chunk, names};
use crate::canon::{Embed, EmbedInput, Embeddings, Losses, Members, Unfit};
use crate::openai::BadReply;

/// Which of the two operations a URL names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// `embedContent`: one content.
    One,
    /// `batchEmbedContents`: a list of requests.
    Many,
}

/// What differs among the requests of a batch only in what this API can say, not in what others can.
type Wanted = (Option<u64>, Option<String>);

/// Reads a request. The model stands in its URL.
///
/// # Errors
/// [`Unfit`] names the field that is none of this API, or that no other API could carry.
pub fn read_embeddings_call(
    model: &str,
    batch: Batch,
    body: &[u8],
    losses: &mut Losses,
) -> Result<Embed, Unfit> {
    let mut body = names::body(body)?;
    let requests = match batch {
        Batch::One => vec![body],
        Batch::Many => {
            let requests = names::objects(&mut body, "requests")?;
            body.finish(losses);
            requests
        }
    };
    let mut wanted: Option<Wanted> = None;
    let mut inputs = Vec::new();
    for request in requests {
        let place = request.place().to_owned();
        let (input, asked) = one(request, losses)?;
        if wanted.get_or_insert_with(|| asked.clone()) != &asked {
            let mend = "differs from those before it in taskType or outputDimensionality; send them apart";
            return Err(Unfit::new(place, mend));
        }
        inputs.push(input);
    }
    let Some((dimensions, task)) = wanted else { return Err(Unfit::new("requests", "is empty")) };
    let model = model.strip_prefix("models/").unwrap_or(model).to_owned();
    Ok(Embed { model, inputs, dimensions, task, user: None })
}

fn one(mut request: Members, losses: &mut Losses) -> Result<(EmbedInput, Wanted), Unfit> {
    drop(request.take("model"));
    let place = request.path("content");
    let mut content =
        names::object(&mut request, "content")?.ok_or_else(|| Unfit::new(place.as_str(), "is missing"))?;
    drop(content.take("role"));
    let mut texts = Vec::new();
    for mut part in names::objects(&mut content, "parts")? {
        if part.has("inlineData") || part.has("fileData") {
            return Err(Unfit::new(part.place(), "holds media, which other models do not embed; send texts"));
        }
        texts.push(part.need_text("text")?);
        part.finish(losses);
    }
    if texts.is_empty() {
        return Err(Unfit::new(place, "says nothing; send a part with a text"));
    }
    content.finish(losses);
    let wanted = (request.count("outputDimensionality")?, request.text("taskType")?);
    let input = EmbedInput::Text { text: texts.join("\n"), title: request.text("title")? };
    request.finish(losses);
    Ok((input, wanted))
}

/// Writes a request to a target, always a batch.
///
/// # Errors
/// [`Unfit`] where inputs are tokens.
pub fn write_embeddings_call(embed: &Embed, losses: &mut Losses) -> Result<Vec<u8>, Unfit> {
    let Embed { model, inputs, dimensions, task, user } = embed;
    if user.is_some() {
        losses.drop("user", "this API has no such parameter");
    }
    let model = if model.contains('/') { model.clone() } else { format!("models/{model}") };
    let mut requests = Vec::new();
    for input in inputs {
        let EmbedInput::Text { text, title } = input else {
            return Err(Unfit::new("input", "is tokens, which this model's API does not take; send texts"));
        };
        let mut request = Map::new();
        request.insert("model".to_owned(), model.as_str().into());
        request.insert("content".to_owned(), json!({"parts": [{"text": text}]}));
        request.extend(task.as_ref().map(|task| ("taskType".to_owned(), task.as_str().into())));
        request.extend(title.as_ref().map(|title| ("title".to_owned(), title.as_str().into())));
        request.extend(dimensions.map(|count| ("outputDimensionality".to_owned(), count.into())));
        requests.push(Value::Object(request));
    }
    Ok(json!({"requests": requests}).to_string().into_bytes())
}

#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    embedding: Option<Vector>,
    #[serde(default)]
    embeddings: Vec<Vector>,
    #[serde(default, rename = "usageMetadata")]
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Vector {
    values: Vec<f32>,
}

/// Reads a target's answer to either operation.
///
/// # Errors
/// [`BadReply`] when it is none.
pub fn read_embeddings(body: &[u8]) -> Result<Embeddings, BadReply> {
    let payload: Value = serde_json::from_slice(body).map_err(|_not_json| BadReply::Malformed)?;
    if chunk::is_error(&payload) {
        return Err(BadReply::Error(upstream_error(body).unwrap_or_default()));
    }
    let reply: Reply = serde_json::from_slice(body).map_err(|_other_shape| BadReply::Malformed)?;
    let vectors = reply.embedding.into_iter().chain(reply.embeddings).map(|vector| vector.values);
    let vectors: Vec<_> = vectors.collect();
    let sound = |vector: &Vec<f32>| !vector.is_empty() && vector.iter().all(|number| number.is_finite());
    if vectors.is_empty() {
        return Err(BadReply::Empty);
    }
    if !vectors.iter().all(sound) {
        return Err(BadReply::Malformed);
    }
    let usage = reply.usage.as_ref().and_then(super::usage::read);
    Ok(Embeddings { model: String::new(), vectors, input_tokens: usage.map(|usage| usage.input) })
}

/// Writes an answer for a caller of either operation.
#[must_use]
pub fn write_embeddings(embeddings: &Embeddings, batch: Batch) -> Vec<u8> {
    let Embeddings { model: _, vectors, input_tokens } = embeddings;
    let mut values = vectors.iter().map(|vector| json!({"values": vector}));
    let mut body = match batch {
        Batch::One => json!({"embedding": values.next()}),
        Batch::Many => json!({"embeddings": values.collect::<Vec<_>>()}),
    };
    if let (Some(fields), Some(tokens)) = (body.as_object_mut(), input_tokens) {
        let usage = json!({"promptTokenCount": tokens, "totalTokenCount": tokens});
        fields.insert("usageMetadata".to_owned(), usage);
    }
    body.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses() -> Losses {
        Losses::of(|_facet| "")
    }

    #[test]
    fn a_batch_is_written_and_read_the_same() {
        let inputs = ["a", "b"].map(|text| EmbedInput::Text { text: text.to_owned(), title: None }).to_vec();
        let embed = Embed {
            model: "gemini-embedding-001".to_owned(),
            inputs,
            dimensions: Some(64),
            task: Some("RETRIEVAL_QUERY".to_owned()),
            user: None,
        };
        let body = write_embeddings_call(&embed, &mut losses()).unwrap();
        let read =
            read_embeddings_call("models/gemini-embedding-001", Batch::Many, &body, &mut losses()).unwrap();
        assert_eq!(read, embed);
        let one: Value = serde_json::from_slice(&body).unwrap();
        let one = one["requests"][0].to_string();
        let read = read_embeddings_call("gemini-embedding-001", Batch::One, one.as_bytes(), &mut losses());
        assert_eq!(read.unwrap().inputs, embed.inputs[..1]);
    }

    #[test]
    fn what_no_other_api_can_say_is_refused() {
        let two = |second: &str| {
            let body = format!(
                r#"{{"requests":[{{"content":{{"parts":[{{"text":"a"}}]}}}},{{"content":{{"parts":[{{"text":"b"}}]}}{second}}}]}}"#
            );
            read_embeddings_call("m", Batch::Many, body.as_bytes(), &mut losses())
        };
        assert_eq!(two("").unwrap().inputs.len(), 2);
        assert_eq!(two(r#","taskType":"CLUSTERING""#).unwrap_err().param, "requests[1]");
        let media = br#"{"content":{"parts":[{"inline_data":{"data":""}}]}}"#;
        let error = read_embeddings_call("m", Batch::One, media, &mut losses()).unwrap_err();
        assert_eq!(error.param, "content.parts[0]");
        let tokens = Embed { inputs: vec![EmbedInput::Tokens(vec![1])], ..Embed::default() };
        assert_eq!(write_embeddings_call(&tokens, &mut losses()).unwrap_err().param, "input");
    }

    #[test]
    fn vectors_are_read_and_written() {
        let both = [&br#"{"embedding":{"values":[0.1,-2]}}"#[..], br#"{"embeddings":[{"values":[0.1,-2]}]}"#];
        for body in both {
            assert_eq!(read_embeddings(body).unwrap().vectors, [vec![0.1, -2.0]]);
        }
        let read = read_embeddings(both[1]).unwrap();
        assert_eq!(read_embeddings(&write_embeddings(&read, Batch::One)), Ok(read.clone()));
        assert_eq!(read_embeddings(&write_embeddings(&read, Batch::Many)), Ok(read));
        assert_eq!(read_embeddings(b"{}"), Err(BadReply::Empty));
        assert_eq!(read_embeddings(br#"{"embedding":{"values":[]}}"#), Err(BadReply::Malformed));
        let error = read_embeddings(br#"{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}"#);
        assert!(matches!(error, Err(BadReply::Error(error)) if error.status == Some(429)));
    }
}
