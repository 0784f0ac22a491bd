//! What a chat request asks, and the answer to it in OpenAI's shape. Knows JSON, nothing of time or connections.

use serde_json::{Value, json};

use super::Usage;

/// What stands before a call's number in prompts and answers.
const CALL: &str = "call-";

/// A chat request, as far as the server reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    /// The call whose number stands in the prompt.
    pub(super) call: Option<u64>,
    pub(super) model: String,
    /// The most tokens wanted.
    pub(super) most: u64,
    pub(super) input: u64,
    pub(super) tools: bool,
    stream: bool,
    include_usage: bool,
}

/// The answer to one request.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    server: String,
    ask: Ask,
    tokens: u64,
    usage: Usage,
}

impl Ask {
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        let request: Value = serde_json::from_slice(body).ok()?;
        let messages = request.get("messages")?.as_array()?;
        let said: String = messages.iter().filter_map(|message| message.get("content")?.as_str()).collect();
        let cap =
            ["max_tokens", "max_completion_tokens"].iter().filter_map(|name| request.get(*name)?.as_u64());
        let flag = |at: &str| request.pointer(at).and_then(Value::as_bool).unwrap_or(false);
        Some(Self {
            call: call_in(&said),
            model: request.get("model")?.as_str()?.to_owned(),
            most: cap.min().unwrap_or(u64::MAX),
            input: (said.len() as u64).div_ceil(4),
            tools: request.get("tools").is_some(),
            stream: flag("/stream"),
            include_usage: flag("/stream_options/include_usage"),
        })
    }
}

/// The number of the call in a text.
pub(super) fn call_in(text: &str) -> Option<u64> {
    let after = text.get(text.find(CALL)? + CALL.len()..)?;
    let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    after.get(..digits)?.parse().ok()
}

impl Reply {
    pub(super) fn new(server: &str, ask: Ask, tokens: u64, usage: Usage) -> Self {
        Self { server: server.to_owned(), ask, tokens, usage }
    }

    pub(super) const fn len(&self) -> u64 {
        self.tokens
    }

    pub(super) const fn is_stream(&self) -> bool {
        self.ask.stream
    }

    /// The usage that the answer tells, if it does.
    pub(super) fn usage(&self) -> Option<(u64, u64)> {
        match self.usage {
            Usage::True => Some((self.ask.input, self.tokens)),
            Usage::None => None,
            Usage::Lie(drawn) => {
                Some((drawn % (self.ask.input + 1), (drawn >> 32) % self.ask.most.min(64) + 1))
            }
        }
    }

    /// The same for streams, which tell it only when asked to.
    pub(super) fn told_in_stream(&self) -> Option<(u64, u64)> {
        self.usage().filter(|_usage| self.ask.include_usage)
    }

    pub(super) fn whole(&self) -> Value {
        let text: String = (0..self.tokens).map(|at| self.token(at)).collect();
        let message = json!({"role": "assistant", "content": text, "refusal": null});
        let mut answer = json!({
            "id": "chatcmpl-simulated",
            "object": "chat.completion",
            "created": 0,
            "model": self.ask.model,
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": "stop"}],
        });
        if let (Some(answer), Some(usage)) = (answer.as_object_mut(), self.usage()) {
            answer.insert("usage".to_owned(), usage_json(usage));
        }
        answer
    }

    /// The event of the token at `at`.
    pub(super) fn event(&self, at: u64) -> String {
        let delta = if at == 0 {
            json!({"role": "assistant", "content": self.token(at)})
        } else {
            json!({"content": self.token(at)})
        };
        self.chunk(&json!([{"index": 0, "delta": delta, "finish_reason": null}]), None)
    }

    /// The events after the last token.
    pub(super) fn closing(&self) -> String {
        let mut text = self.chunk(&json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]), None);
        if let Some(usage) = self.told_in_stream() {
            text += &self.chunk(&json!([]), Some(usage));
        }
        text + "data: [DONE]\n\n"
    }

    fn chunk(&self, choices: &Value, usage: Option<(u64, u64)>) -> String {
        let mut chunk = json!({
            "id": "chatcmpl-simulated",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": self.ask.model,
            "choices": choices,
        });
        if let (Some(chunk), Some(usage)) = (chunk.as_object_mut(), usage) {
            chunk.insert("usage".to_owned(), usage_json(usage));
        }
        format!("data: {chunk}\n\n")
    }

    fn token(&self, at: u64) -> String {
        match (at, self.ask.call) {
            (0, Some(call)) => format!("{CALL}{call} by {}", self.server),
            (0, None) => format!("by {}", self.server),
            _ => " word".to_owned(),
        }
    }
}

fn usage_json((input, output): (u64, u64)) -> Value {
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_the_call_and_tells_the_usage() {
        let body = br#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":9,
            "messages":[{"role":"user","content":"call-17: where are you?"}]}"#;
        let ask = Ask::read(body).unwrap();
        assert_eq!((ask.call, ask.most), (Some(17), 9));
        let reply = Reply::new("model-eu", ask, 3, Usage::True);
        assert_eq!(call_in(&reply.event(0)), Some(17));
        assert!(reply.closing().contains("\"completion_tokens\":3"), "{}", reply.closing());
    }
}
