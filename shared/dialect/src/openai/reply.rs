//! Whole answers: whether a 2xx holds an answer at all, and what it says it used. The bytes themselves pass untouched.

use base::{Tokens, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::{UpstreamError, upstream_error};

/// A 2xx that holds no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadReply {
    /// It holds an error.
    Error(UpstreamError),
    /// It is not JSON, or not of this operation.
    Malformed,
    /// It holds nothing.
    Empty,
}

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    choices: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
}

/// Checks an answer to a chat call and reads its usage.
///
/// # Errors
/// [`BadReply`] when it is no answer. An empty text that says why it ended is one.
pub fn check_chat(body: &[u8]) -> Result<Option<Usage>, BadReply> {
    let reply = read(body)?;
    let choices: Vec<Choice<'_>> = match reply.choices {
        Some(raw) => serde_json::from_str(raw.get()).map_err(|_other_shape| BadReply::Malformed)?,
        None => return Err(BadReply::Empty),
    };
    let answered = |choice: &Choice<'_>| {
        let ended = choice.finish_reason.is_some_and(|reason| reason.get() != "\"\"");
        ended || choice.message.is_some_and(|message| says_something(message.get()))
    };
    if choices.iter().any(answered) { Ok(reply.usage.and_then(usage)) } else { Err(BadReply::Empty) }
}

/// Checks an answer to an embeddings call and reads its usage.
///
/// # Errors
/// [`BadReply`] when it is no answer.
pub fn check_embeddings(body: &[u8]) -> Result<Option<Usage>, BadReply> {
    let reply = read(body)?;
    match reply.data {
        Some(data) if is_empty_list(data) => Err(BadReply::Empty),
        Some(data) if data.get().starts_with('[') => Ok(reply.usage.and_then(usage)),
        Some(_other_shape) => Err(BadReply::Malformed),
        None => Err(BadReply::Empty),
    }
}

fn read(body: &[u8]) -> Result<Reply<'_>, BadReply> {
    let object = body.trim_ascii_start().starts_with(b"{");
    let reply: Reply<'_> =
        serde_json::from_slice(body).ok().filter(|_reply| object).ok_or(BadReply::Malformed)?;
    let said = reply.error.is_some() || reply.object.is_some_and(|object| object.get() == "\"error\"");
    if said {
        return Err(BadReply::Error(upstream_error(body).unwrap_or_default()));
    }
    Ok(reply)
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow, default)]
    audio: Option<&'a RawValue>,
}

fn says_something(message: &str) -> bool {
    serde_json::from_str::<Message<'_>>(message).is_ok_and(|message| {
        let parts = [message.content, message.refusal, message.tool_calls, message.audio];
        parts.into_iter().flatten().any(|part| part.get() != "\"\"" && !is_empty_list(part))
    })
}

/// Whether the value is `[]`, however spaced.
pub(super) fn is_empty_list(raw: &RawValue) -> bool {
    let inside = raw.get().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inside.is_some_and(|inside| inside.trim_ascii().is_empty())
}

/// No call uses so many tokens. Servers that lost count report -1 as an unsigned number, which would empty any budget.
const SENSELESS: u64 = 1_000_000_000;

#[derive(Deserialize)]
struct RawUsage<'a> {
    #[serde(borrow, default)]
    prompt_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    completion_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    total_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    prompt_tokens_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    completion_tokens_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    prompt_cache_hit_tokens: Option<&'a RawValue>,
}

/// Parts of a count, as OpenAI's details name them, and what compatible servers add. They are parts: `prompt_tokens` and
/// `completion_tokens` hold them already.
#[derive(Default, Deserialize)]
struct Details<'a> {
    #[serde(borrow, default)]
    cached_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cache_write_tokens: Option<&'a RawValue>,
    /// Another name of `cache_write_tokens`.
    #[serde(borrow, default)]
    cache_creation_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    audio_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_tokens: Option<&'a RawValue>,
}

impl<'a> Details<'a> {
    /// Details that cannot be read say nothing.
    fn read(raw: Option<&'a RawValue>) -> Self {
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }
}

/// Reads a `usage` object. A count that is no whole number, or a senseless one, makes the whole unknown: a guess would be
/// billed. A part is never larger than what it is part of.
pub(super) fn usage(raw: &RawValue) -> Option<Usage> {
    let raw: RawUsage<'_> = serde_json::from_str(raw.get()).ok()?;
    let input = count(raw.prompt_tokens)?;
    let output = raw.completion_tokens.map_or(Some(0), |value| count(Some(value)))?;
    // Some servers leave reasoning out of the completion and count it in the total only.
    let beyond = count(raw.total_tokens).map_or(0, |total| total.saturating_sub(input));
    let output = output.max(beyond);
    let (read, written) =
        (Details::read(raw.prompt_tokens_details), Details::read(raw.completion_tokens_details));
    let part = |of: u64, names: &[Option<&RawValue>]| {
        Tokens(names.iter().find_map(|name| count(*name)).unwrap_or(0).min(of))
    };
    Some(Usage {
        input: Tokens(input),
        cached_input: part(input, &[read.cached_tokens, raw.prompt_cache_hit_tokens]),
        cache_write: part(input, &[read.cache_write_tokens, read.cache_creation_tokens]),
        audio_input: part(input, &[read.audio_tokens]),
        output: Tokens(output),
        reasoning: part(output, &[written.reasoning_tokens]),
        audio_output: part(output, &[written.audio_tokens]),
        ..Usage::default()
    })
}

fn count(raw: Option<&RawValue>) -> Option<u64> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).filter(|count| *count < SENSELESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input: u64, cached: u64, output: u64) -> Usage {
        Usage { cached_input: Tokens(cached), ..Usage::of_text(Tokens(input), Tokens(output)) }
    }

    fn usage_of(usage: &str) -> Option<Usage> {
        let body = format!(r#"{{"choices":[{{"message":{{"content":"hi"}}}}],"usage":{usage}}}"#);
        check_chat(body.as_bytes()).unwrap()
    }

    /// Case B090 and its legal twin.
    #[test]
    fn a_success_without_an_answer_is_none() {
        let bad = |body: &str| check_chat(body.as_bytes()).unwrap_err();
        assert_eq!(bad("<html>busy</html>"), BadReply::Malformed);
        assert_eq!(bad(r#"{"choices":[{"message":{"content":"h"#), BadReply::Malformed);
        assert_eq!(bad("[1]"), BadReply::Malformed);
        assert_eq!(bad(r#"{"choices":[]}"#), BadReply::Empty);
        assert_eq!(bad(r#"{"choices":[{"message":{"content":""},"finish_reason":null}]}"#), BadReply::Empty);
        assert_eq!(bad("{}"), BadReply::Empty);
        match bad(r#"{"error":{"message":"no key"}}"#) {
            BadReply::Error(error) => assert_eq!(error.message, "no key"),
            other => panic!("{other:?}"),
        }
        assert_eq!(check_embeddings(br#"{"data":[ ]}"#), Err(BadReply::Empty));
        for legal in [
            r#"{"error":null,"choices":[{"message":{"content":""},"finish_reason":"stop"}]}"#,
            r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"c"}]},"finish_reason":null}]}"#,
        ] {
            assert_eq!(check_chat(legal.as_bytes()), Ok(None), "{legal}");
        }
    }

    #[test]
    fn usage_is_read_with_its_details() {
        let plain = r#"{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}"#;
        assert_eq!(usage_of(plain), Some(tokens(9, 0, 4)));
        let cached =
            r#"{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":8}}"#;
        assert_eq!(usage_of(cached), Some(tokens(9, 8, 4)));
        let reasoning = r#"{"prompt_tokens":9,"completion_tokens":4,"total_tokens":50}"#;
        assert_eq!(usage_of(reasoning), Some(tokens(9, 0, 41)));
        let embeddings = br#"{"data":[{"embedding":[1]}],"usage":{"prompt_tokens":3,"total_tokens":3}}"#;
        assert_eq!(check_embeddings(embeddings), Ok(Some(tokens(3, 0, 0))));
    }

    #[test]
    fn kinds_of_tokens_are_parts_of_what_is_counted() {
        let all = r#"{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,
            "prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":20,"audio_tokens":7,"text_tokens":93},
            "completion_tokens_details":{"reasoning_tokens":30,"audio_tokens":5,"accepted_prediction_tokens":1}}"#;
        let expected = Usage {
            cached_input: Tokens(60),
            cache_write: Tokens(20),
            audio_input: Tokens(7),
            reasoning: Tokens(30),
            audio_output: Tokens(5),
            ..Usage::of_text(Tokens(100), Tokens(50))
        };
        assert_eq!(usage_of(all), Some(expected));
        let beside = r#"{"prompt_tokens":9,"completion_tokens":4,"total_tokens":50,
            "prompt_tokens_details":{"cached_tokens":99,"cache_creation_tokens":2,"audio_tokens":-1},
            "completion_tokens_details":{"reasoning_tokens":37}}"#;
        let expected = Usage {
            cached_input: Tokens(9),
            cache_write: Tokens(2),
            reasoning: Tokens(37),
            ..Usage::of_text(Tokens(9), Tokens(41))
        };
        assert_eq!(usage_of(beside), Some(expected), "no part exceeds its whole; reasoning was beside");
        let nothing = r#"{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":null,
            "completion_tokens_details":7}"#;
        assert_eq!(usage_of(nothing), Some(tokens(9, 0, 4)));
    }

    #[test]
    fn a_senseless_count_is_no_usage() {
        for count in
            ["-50", "1e308", "\"12\"", "1.5", "{}", "2147483647", "4294967295", "18446744073709551615"]
        {
            assert_eq!(
                usage_of(&format!(r#"{{"prompt_tokens":5,"completion_tokens":{count}}}"#)),
                None,
                "{count}"
            );
        }
        assert_eq!(usage_of("null"), None);
        let total = r#"{"prompt_tokens":5,"completion_tokens":1,"total_tokens":18446744073709551615}"#;
        assert_eq!(usage_of(total), Some(tokens(5, 0, 1)), "the counts that make sense hold");
    }
}
