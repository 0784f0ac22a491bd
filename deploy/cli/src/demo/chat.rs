//! What a chat request asks and what the demo model says to it. Knows JSON and token counts, nothing of time or
//! connections.

use serde_json::{Map, Value, json};

use super::CONTEXT;
use super::problem::Problem;

/// Most words of the last user message that the reply says back; long prompts so give long replies.
const ECHO_WORDS: usize = 1_000;

/// Tokens that a message costs beside its text, as in OpenAI's chat format.
const MESSAGE_TOKENS: u64 = 4;

/// What replies name as the configuration that made them.
const FINGERPRINT: &str = "fp_portolan_demo";

/// A chat request, as far as the demo model reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    /// The model name, as asked.
    pub(super) model: String,
    /// Whether the reply is to be streamed.
    pub(super) stream: bool,
    /// Whether the stream is to end with its usage.
    pub(super) include_usage: bool,
    max_tokens: u64,
    prompt_tokens: u64,
    said: String,
}

/// Who answers, for the parts that every reply repeats.
#[derive(Clone, Copy, Debug)]
pub(super) struct Voice<'a> {
    /// The server's name.
    pub(super) name: &'a str,
    /// The server's region.
    pub(super) region: &'a str,
}

/// A reply, decided as a whole before its first token is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Script {
    id: String,
    created_s: u64,
    model: String,
    include_usage: bool,
    tokens: Vec<String>,
    cut: bool,
    prompt_tokens: u64,
}

impl Ask {
    /// Reads a chat request.
    pub(super) fn read(request: &Map<String, Value>) -> Result<Self, Problem> {
        let model = request.get("model").and_then(Value::as_str);
        let model = model.ok_or_else(|| Problem::shape("model", "You must provide a model parameter."))?;
        let messages = request.get("messages").and_then(Value::as_array).filter(|list| !list.is_empty());
        let messages =
            messages.ok_or_else(|| Problem::shape("messages", "'messages' must be a list of messages."))?;
        let mut prompt_tokens = 0u64;
        let mut said = String::new();
        for message in messages {
            let text = text(message)?;
            prompt_tokens = prompt_tokens.saturating_add(MESSAGE_TOKENS).saturating_add(tokens_of(&text));
            if message.get("role").and_then(Value::as_str) == Some("user") {
                said = text;
            }
        }
        if prompt_tokens > CONTEXT {
            return Err(Problem::context(prompt_tokens));
        }
        let options = request.get("stream_options").and_then(|options| options.get("include_usage"));
        Ok(Self {
            model: model.to_owned(),
            stream: flag(request.get("stream"), "stream")?,
            include_usage: flag(options, "stream_options")?,
            max_tokens: max_tokens(request)?,
            prompt_tokens,
            said,
        })
    }
}

fn flag(value: Option<&Value>, param: &'static str) -> Result<bool, Problem> {
    match value {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(Problem::shape(param, format!("Invalid type for '{param}': expected a boolean."))),
    }
}

fn max_tokens(request: &Map<String, Value>) -> Result<u64, Problem> {
    let mut least = u64::MAX;
    for param in ["max_tokens", "max_completion_tokens"] {
        match request.get(param) {
            None | Some(Value::Null) => {}
            Some(value) => {
                let asked = value.as_u64().filter(|count| *count > 0);
                let wrong = || Problem::shape(param, format!("'{param}' must be an integer of at least 1."));
                least = least.min(asked.ok_or_else(wrong)?);
            }
        }
    }
    Ok(least)
}

/// The text of a message: its content, or the text parts of it.
fn text(message: &Value) -> Result<String, Problem> {
    match message.get("content") {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            Ok(texts.collect::<Vec<_>>().join(" "))
        }
        None | Some(Value::Null) if message.is_object() => Ok(String::new()),
        _ => Err(Problem::shape("messages", "Each message must be an object with text or parts as content.")),
    }
}

/// One token for each four bytes, as English text gives on average.
fn tokens_of(text: &str) -> u64 {
    u64::try_from(text.len().div_ceil(4)).unwrap_or(u64::MAX)
}

impl Script {
    /// What `voice` says to `ask`; `id` is a drawn number, `created_s` the wall time in seconds.
    pub(super) fn new(ask: &Ask, voice: Voice<'_>, id: u64, created_s: u64) -> Self {
        let greeting = format!(
            "I am {}, a demo model server in region {}, answering as {}.",
            voice.name, voice.region, ask.model
        );
        let echo = if ask.said.is_empty() { "" } else { " You said:" };
        let words = greeting.split_whitespace().chain(echo.split_whitespace());
        let mut words = words.chain(ask.said.split_whitespace().take(ECHO_WORDS));
        let limit = usize::try_from(ask.max_tokens).unwrap_or(usize::MAX);
        let mut tokens: Vec<String> = words.by_ref().take(limit).map(|word| format!(" {word}")).collect();
        if let Some(first) = tokens.first_mut() {
            first.remove(0);
        }
        Self {
            id: format!("chatcmpl-{id:016x}"),
            created_s,
            model: ask.model.clone(),
            include_usage: ask.include_usage,
            cut: words.next().is_some(),
            tokens,
            prompt_tokens: ask.prompt_tokens,
        }
    }

    /// How many tokens the reply has.
    pub(super) const fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The reply as one object.
    pub(super) fn whole(&self) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created_s,
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": self.tokens.concat(), "refusal": null},
                "logprobs": null,
                "finish_reason": self.finish_reason(),
            }],
            "usage": self.usage(),
        })
    }

    /// The chunk that opens the stream and names the role.
    pub(super) fn opening(&self) -> Value {
        self.choice(&json!({"role": "assistant", "content": ""}), None)
    }

    /// The chunk of the token at `at`, if there is one.
    pub(super) fn token(&self, at: usize) -> Option<Value> {
        self.tokens.get(at).map(|token| self.choice(&json!({"content": token}), None))
    }

    /// The chunks after the last token: why it ended, and the usage when asked for.
    pub(super) fn closing(&self) -> Vec<Value> {
        let mut chunks = vec![self.choice(&json!({}), Some(self.finish_reason()))];
        if self.include_usage {
            chunks.push(self.chunk(&json!([]), Some(self.usage())));
        }
        chunks
    }

    fn choice(&self, delta: &Value, finish_reason: Option<&str>) -> Value {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason});
        self.chunk(&json!([choice]), None)
    }

    /// Where usage is asked for, chunks without it say `null`.
    fn chunk(&self, choices: &Value, usage: Option<Value>) -> Value {
        let mut chunk = Map::new();
        chunk.insert("id".to_owned(), Value::from(self.id.as_str()));
        chunk.insert("object".to_owned(), Value::from("chat.completion.chunk"));
        chunk.insert("created".to_owned(), Value::from(self.created_s));
        chunk.insert("model".to_owned(), Value::from(self.model.as_str()));
        chunk.insert("system_fingerprint".to_owned(), Value::from(FINGERPRINT));
        chunk.insert("choices".to_owned(), choices.clone());
        if self.include_usage {
            chunk.insert("usage".to_owned(), usage.unwrap_or(Value::Null));
        }
        Value::Object(chunk)
    }

    fn usage(&self) -> Value {
        let completion = u64::try_from(self.len()).unwrap_or(u64::MAX);
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": self.prompt_tokens.saturating_add(completion),
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        })
    }

    const fn finish_reason(&self) -> &'static str {
        if self.cut { "length" } else { "stop" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOICE: Voice<'static> = Voice { name: "alder", region: "north" };

    fn read(request: &Value) -> Result<Ask, Problem> {
        Ask::read(request.as_object().unwrap())
    }

    #[test]
    fn a_prompt_beyond_the_context_is_refused_as_real_servers_do() {
        let long = "word ".repeat(9_000);
        let problem =
            read(&json!({"model": "m", "messages": [{"role": "user", "content": long}]})).unwrap_err();
        assert_eq!(problem.body_json()["error"]["code"], "context_length_exceeded");
    }

    #[test]
    fn a_reply_names_the_server_and_stops_at_the_cap() {
        let mut request =
            json!({"model": "m", "messages": [{"role": "user", "content": "Bonjour tout le monde"}]});
        let whole = Script::new(&read(&request).unwrap(), VOICE, 7, 1).whole();
        let text = whole["choices"][0]["message"]["content"].as_str().unwrap();
        assert!(text.starts_with("I am alder, a demo model server in region north"), "{text}");
        assert!(text.ends_with("You said: Bonjour tout le monde"), "{text}");
        assert_eq!(whole["choices"][0]["finish_reason"], "stop");
        assert_eq!(whole["usage"]["prompt_tokens"], 4 + 6);

        request["max_tokens"] = json!(3);
        let cut = Script::new(&read(&request).unwrap(), VOICE, 7, 1).whole();
        assert_eq!(cut["choices"][0]["message"]["content"], "I am alder,");
        assert_eq!(cut["choices"][0]["finish_reason"], "length");
        assert_eq!(cut["usage"]["completion_tokens"], 3);
    }

    #[test]
    fn parts_of_the_wrong_type_are_refused_by_name() {
        let base = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
        for (param, value) in [
            ("stream", json!("yes")),
            ("max_tokens", json!(0)),
            ("max_completion_tokens", json!(-1)),
            ("messages", json!([])),
            ("messages", json!(["hi"])),
            ("model", json!(null)),
        ] {
            let mut request = base.clone();
            request[param] = value;
            let problem = read(&request).unwrap_err();
            assert_eq!(problem.body_json()["error"]["param"], param);
        }
    }
}
