//! What an answer used, as this API counts: thoughts beside the candidates, and results of built-in tools beside the
//! prompt.

use serde_json::{Map, Value, json};

use crate::canon::Usage;

/// No call uses so many tokens. A server that lost count would empty any budget.
const SENSELESS: u64 = 1_000_000_000;

/// A count that is no whole number, or a senseless one.
struct Senseless;

/// Reads a `usageMetadata`; `None` when it counts nothing, or something senselessly: a guess would be billed.
pub(super) fn read(value: &Value) -> Option<Usage> {
    let fields = value.as_object()?;
    let counted = |name| count(fields, name).ok();
    let (prompt, total) = (counted("promptTokenCount")?, counted("totalTokenCount")?);
    let (candidates, thoughts) = (counted("candidatesTokenCount")?, counted("thoughtsTokenCount")?);
    let beside = counted("toolUsePromptTokenCount")?.unwrap_or(0);
    if prompt.is_none() && candidates.is_none() && total.is_none() {
        return None;
    }
    let input = prompt.unwrap_or(0).saturating_add(beside);
    let output = candidates.unwrap_or(0).saturating_add(thoughts.unwrap_or(0));
    // What the total holds beyond its parts was made, and is billed, too.
    let output = output.max(total.unwrap_or(0).saturating_sub(input));
    Some(Usage {
        input,
        cached: counted("cachedContentTokenCount")?.map(|cached| cached.min(input)),
        cache_written: None,
        input_audio: audio(fields, "promptTokensDetails").map(|sound| sound.min(input)),
        output,
        thinking: thoughts.map(|thoughts| thoughts.min(output)),
        output_audio: audio(fields, "candidatesTokensDetails").map(|sound| sound.min(output)),
    })
}

fn count(fields: &Map<String, Value>, name: &str) -> Result<Option<u64>, Senseless> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(count) if count < SENSELESS => Ok(Some(count)),
            Some(_) | None => Err(Senseless),
        },
    }
}

fn audio(fields: &Map<String, Value>, name: &str) -> Option<u64> {
    let entries = fields.get(name)?.as_array()?;
    let sound = entries.iter().filter(|entry| entry.get("modality").is_some_and(|kind| kind == "AUDIO"));
    sound.filter_map(|entry| entry.get("tokenCount")?.as_u64()).reduce(u64::saturating_add)
}

/// Writes a `usageMetadata`. What was written to a cache has no name here and is a part of the prompt.
pub(super) fn write(usage: &Usage) -> Value {
    let Usage { input, cached, cache_written: _, input_audio, output, thinking, output_audio } = usage;
    let said = output.saturating_sub(thinking.unwrap_or(0));
    let mut fields = Map::new();
    let mut put =
        |name: &str, value: Option<Value>| fields.extend(value.map(|value| (name.to_owned(), value)));
    put("promptTokenCount", Some((*input).into()));
    put("candidatesTokenCount", Some(said.into()));
    put("totalTokenCount", Some(usage.total().into()));
    put("cachedContentTokenCount", cached.map(Value::from));
    put("thoughtsTokenCount", thinking.map(Value::from));
    put("promptTokensDetails", input_audio.map(of_sound));
    put("candidatesTokensDetails", output_audio.map(of_sound));
    Value::Object(fields)
}

fn of_sound(tokens: u64) -> Value {
    json!([{"modality": "AUDIO", "tokenCount": tokens}])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case B077 and its twin.
    #[test]
    fn thoughts_are_a_part_of_what_was_made() {
        let plain = json!({"promptTokenCount": 20, "candidatesTokenCount": 30, "thoughtsTokenCount": 70,
            "totalTokenCount": 120});
        let expected = Usage { input: 20, output: 100, thinking: Some(70), ..Usage::default() };
        assert_eq!(read(&plain), Some(expected));
        assert_eq!(write(&expected), plain);
        let tools = json!({"promptTokenCount": 20, "candidatesTokenCount": 30, "thoughtsTokenCount": 70,
            "toolUsePromptTokenCount": 5, "totalTokenCount": 125});
        assert_eq!(read(&tools), Some(Usage { input: 25, ..expected }));
        assert_eq!(read(&tools).unwrap().total(), 125);
    }

    #[test]
    fn parts_are_parts_and_nothing_is_no_usage() {
        let sound = json!({"promptTokenCount": 9, "cachedContentTokenCount": 90, "totalTokenCount": 11,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1}, {"modality": "AUDIO", "tokenCount": 8}]});
        let expected =
            Usage { input: 9, cached: Some(9), input_audio: Some(8), output: 2, ..Usage::default() };
        assert_eq!(read(&sound), Some(expected));
        assert_eq!(read(&json!({"trafficType": "ON_DEMAND"})), None);
        for count in [json!(-5), json!(1e30), json!("12"), json!(1.5), json!(18_446_744_073_709_551_615_u64)]
        {
            assert_eq!(read(&json!({"promptTokenCount": 5, "candidatesTokenCount": count})), None, "{count}");
        }
    }
}
