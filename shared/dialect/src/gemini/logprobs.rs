//! Probabilities of tokens: this API lists the chosen tokens and, beside them, the likeliest; OpenAI's nests these in
//! those.

use serde_json::{Value, json};

/// Reads a `logprobsResult` into OpenAI's shape; `None` when it holds no tokens.
pub(super) fn read(result: &Value) -> Option<Value> {
    let chosen = result.get("chosenCandidates")?.as_array()?;
    let top = result.get("topCandidates").and_then(Value::as_array);
    let content = chosen.iter().enumerate().map(|(index, token)| {
        let others = top.and_then(|top| top.get(index)?.get("candidates")?.as_array());
        let others: Vec<_> = others.into_iter().flatten().map(of_token).collect();
        let mut entry = of_token(token);
        if let Some(fields) = entry.as_object_mut() {
            fields.insert("top_logprobs".to_owned(), others.into());
        }
        entry
    });
    Some(json!({"content": content.collect::<Vec<_>>(), "refusal": null}))
}

fn of_token(token: &Value) -> Value {
    let text = token.get("token").and_then(Value::as_str).unwrap_or_default();
    json!({"token": text, "logprob": token.get("logProbability"), "bytes": text.as_bytes()})
}

/// Writes OpenAI's shape as a `logprobsResult`; `None` when it holds no tokens.
pub(super) fn write(logprobs: &Value) -> Option<Value> {
    let content = logprobs.get("content")?.as_array()?;
    let chosen: Vec<_> = content.iter().map(to_token).collect();
    let top = content.iter().map(|entry| {
        let others = entry.get("top_logprobs").and_then(Value::as_array);
        json!({"candidates": others.into_iter().flatten().map(to_token).collect::<Vec<_>>()})
    });
    let top: Vec<_> = top.collect();
    Some(json!({"chosenCandidates": chosen, "topCandidates": top}))
}

fn to_token(entry: &Value) -> Value {
    json!({"token": entry.get("token"), "logProbability": entry.get("logprob")})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_stand_with_their_token() {
        let (yes, no) =
            (json!({"token": "Yes", "logProbability": -0.1}), json!({"token": "No", "logProbability": -2.5}));
        let result = json!({"chosenCandidates": [yes], "topCandidates": [{"candidates": [yes, no]}]});
        let read = read(&result).unwrap();
        assert_eq!(read["content"][0]["token"], "Yes");
        assert_eq!(read["content"][0]["top_logprobs"][1]["logprob"], -2.5);
        assert_eq!(read["content"][0]["bytes"], json!([89, 101, 115]));
        assert_eq!(write(&read), Some(result));
        assert_eq!(super::read(&json!({})), None);
    }
}
