//! Embeddings without a model: each word has a fixed direction, a text is the unit vector along the sum of its words.
//! The same text always gives the same vector, and texts that share words lie nearer to each other.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::problem::Problem;

/// Components of a vector when the caller does not say.
const DIMENSIONS: u64 = 256;

/// Most components a caller may ask for: that of the largest public models.
const MAX_DIMENSIONS: u64 = 4096;

/// Most inputs of one request, as at OpenAI.
const MAX_INPUTS: usize = 2048;

/// The reply to an embeddings request.
pub(super) fn reply(request: &Map<String, Value>) -> Result<Value, Problem> {
    let model = request.get("model").and_then(Value::as_str);
    let model = model.ok_or_else(|| Problem::shape("model", "You must provide a model parameter."))?;
    let dimensions = dimensions(request.get("dimensions"))?;
    let encode = encoding(request.get("encoding_format"))?;
    let inputs = inputs(request.get("input"))?;
    let tokens: usize = inputs.iter().map(|input| input.len()).sum();
    let data: Vec<Value> = inputs
        .iter()
        .enumerate()
        .map(|(index, words)| {
            json!({"object": "embedding", "index": index, "embedding": encode(&unit_vector(words, dimensions))})
        })
        .collect();
    Ok(json!({
        "object": "list",
        "model": model,
        "data": data,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }))
}

fn dimensions(asked: Option<&Value>) -> Result<u64, Problem> {
    match asked {
        None | Some(Value::Null) => Ok(DIMENSIONS),
        Some(value) => value.as_u64().filter(|count| (1..=MAX_DIMENSIONS).contains(count)).ok_or_else(|| {
            Problem::shape("dimensions", format!("'dimensions' must be from 1 to {MAX_DIMENSIONS}."))
        }),
    }
}

fn encoding(asked: Option<&Value>) -> Result<fn(&[f32]) -> Value, Problem> {
    match asked {
        None | Some(Value::Null) => Ok(as_floats),
        Some(Value::String(name)) if name == "float" => Ok(as_floats),
        Some(Value::String(name)) if name == "base64" => Ok(as_base64),
        Some(_) => Err(Problem::shape("encoding_format", "'encoding_format' must be 'float' or 'base64'.")),
    }
}

fn as_floats(vector: &[f32]) -> Value {
    vector.iter().copied().map(Value::from).collect()
}

fn as_base64(vector: &[f32]) -> Value {
    let bytes: Vec<u8> = vector.iter().flat_map(|component| component.to_le_bytes()).collect();
    Value::from(STANDARD.encode(bytes))
}

/// The inputs, each as the hashes of its words or its token numbers.
fn inputs(input: Option<&Value>) -> Result<Vec<Vec<u64>>, Problem> {
    let wrong = || Problem::shape("input", "'input' must be text, texts, or lists of tokens, and not empty.");
    let inputs = match input {
        Some(Value::String(text)) => vec![words(text)],
        Some(Value::Array(items)) if items.iter().all(Value::is_u64) => vec![token_numbers(items)],
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| match item {
                Value::String(text) => Some(words(text)),
                Value::Array(tokens) if tokens.iter().all(Value::is_u64) => Some(token_numbers(tokens)),
                _ => None,
            })
            .collect::<Option<_>>()
            .ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    if inputs.len() > MAX_INPUTS || inputs.iter().any(Vec::is_empty) {
        return Err(wrong());
    }
    Ok(inputs)
}

fn token_numbers(items: &[Value]) -> Vec<u64> {
    items.iter().filter_map(Value::as_u64).collect()
}

fn words(text: &str) -> Vec<u64> {
    text.split_whitespace().map(|word| hash(word.to_lowercase().as_bytes())).collect()
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn unit_vector(words: &[u64], dimensions: u64) -> Vec<f32> {
    let sums: Vec<f32> =
        (0..dimensions).map(|at| words.iter().map(|word| component(*word, at)).sum()).collect();
    let length = sums.iter().map(|sum| sum * sum).sum::<f32>().sqrt();
    if length > 0.0 { sums.iter().map(|sum| sum / length).collect() } else { sums }
}

/// The component of a word's direction at `at`: a draw of `SplitMix64`, within ±1.
fn component(word: u64, at: u64) -> f32 {
    let mut z = word.wrapping_add(at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let [low, high, ..] = (z ^ (z >> 31)).to_le_bytes();
    f32::from(i16::from_le_bytes([low, high])) / f32::from(i16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(left: &[f32], right: &[f32]) -> f32 {
        left.iter().zip(right).map(|(left, right)| left * right).sum()
    }

    #[test]
    fn texts_that_share_words_lie_nearer() {
        let near = unit_vector(&words("the harbour at night"), 256);
        let text = unit_vector(&words("The harbour at dawn"), 256);
        let far = unit_vector(&words("quarterly revenue figures"), 256);
        assert!((dot(&text, &text) - 1.0).abs() < 1e-3);
        assert!(dot(&text, &near) > 0.5 && dot(&text, &far) < 0.3);
    }

    #[test]
    fn both_encodings_hold_the_same_vector() {
        let ask = |format: &str| {
            let request =
                json!({"model": "m", "input": ["a b", "c"], "encoding_format": format, "dimensions": 8});
            reply(request.as_object().unwrap()).unwrap()
        };
        let (floats, coded) = (ask("float"), ask("base64"));
        let first = floats["data"][0]["embedding"].as_array().unwrap();
        let bytes = STANDARD.decode(coded["data"][0]["embedding"].as_str().unwrap()).unwrap();
        assert_eq!((first.len(), bytes.len()), (8, 32));
        let decoded = f32::from_le_bytes(bytes[..4].try_into().unwrap());
        assert!((f64::from(decoded) - first[0].as_f64().unwrap()).abs() < 1e-9);
        assert_eq!(floats["usage"]["total_tokens"], 3);
    }

    #[test]
    fn inputs_of_the_wrong_shape_are_refused() {
        for input in
            [json!(null), json!(3), json!(""), json!([]), json!(["a", 3]), json!([[]]), json!({"a": 1})]
        {
            let request = json!({"model": "m", "input": input});
            assert!(reply(request.as_object().unwrap()).is_err(), "{input}");
        }
    }
}
