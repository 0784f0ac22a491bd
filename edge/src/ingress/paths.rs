//! What a request is by its path: a call of one operation in one API, or a page; and in which form its caller is told.

use dialect::gemini::Framing;
use dialect::{Api, Form};
use http::request::Parts;
use http::{HeaderMap, Method, Uri};
use percent_encoding::percent_decode_str;
use wire::catalog::Operation;

use super::Via;

/// A request that is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoCall {
    /// There is no such path.
    #[error("no such path")]
    Path,
    /// The path takes other methods.
    #[error("the path takes {0} only")]
    Method(&'static str),
    /// Its headers are too large.
    #[error("the headers exceed {limit} bytes")]
    Headers {
        /// Bytes allowed.
        limit: u32,
    },
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A model's work.
    Call(Asks),
    /// The list of what can be asked for.
    Models,
    /// One entry of that list.
    Model(String),
    /// Whether the process lives.
    Health,
    /// Whether the node takes calls.
    Ready,
    /// Metrics.
    Metrics,
}

/// A call, as its path says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asks {
    /// In which form its caller is told.
    pub(crate) form: Form,
    /// What is wanted.
    pub(crate) verb: Verb,
    /// The model, in APIs whose paths name it.
    pub(crate) model: String,
}

/// What a call wants of its model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verb {
    /// An answer; the body may ask for a stream.
    #[default]
    Answer,
    /// An answer as a stream.
    Stream,
    /// The number of the call's tokens.
    Count,
    /// Vectors of texts.
    Embed,
    /// Vectors of several contents of Gemini's.
    EmbedBatch,
}

impl Verb {
    /// What the model does; counting is of a conversation.
    pub(crate) const fn operation(self) -> Operation {
        match self {
            Self::Answer | Self::Stream | Self::Count => Operation::Chat,
            Self::Embed | Self::EmbedBatch => Operation::Embeddings,
        }
    }
}

/// Whether a request's target and headers stay within `limit`, counted as HTTP/2 and HTTP/3 do (RFC 9113 §6.5.2): names,
/// values and 32 bytes for each. Connections read up to [`HEADROOM`] times as much, so that the refusal can be worded.
///
/// # Errors
/// [`NoCall::Headers`] when they do not.
pub(crate) fn bounded(head: &Parts, limit: u32) -> Result<(), NoCall> {
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    let fields = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD);
    let size = target + fields.sum::<usize>();
    if size > limit as usize { Err(NoCall::Headers { limit }) } else { Ok(()) }
}

/// How much more of headers than allowed is read.
pub(super) const HEADROOM: u32 = 2;

/// What a field counts besides its bytes.
const FIELD: usize = 32;

/// In which form a caller is told, whatever becomes of the request: by the path, and where several APIs share it, or none
/// has it, by what only one API's clients send.
pub(crate) fn form(uri: &Uri, headers: &HeaderMap) -> Form {
    let path = uri.path();
    let verb = of_model(path).and_then(|name| Some(gemini_verb(&name)?.1));
    let api = if path == MESSAGES || path.strip_prefix(MESSAGES).is_some_and(|rest| rest.starts_with('/')) {
        Api::Anthropic
    } else if path.starts_with("/v1beta/") || verb.is_some() {
        Api::Gemini
    } else if path == CHAT || path == EMBEDDINGS {
        Api::Openai
    } else if headers.contains_key("anthropic-version") {
        Api::Anthropic
    } else if headers.contains_key("x-goog-api-key") {
        Api::Gemini
    } else {
        Api::Openai
    };
    let sse = query(uri).any(|pair| pair == "alt=sse");
    let streams = verb == Some(Verb::Stream);
    let framing = if streams && !sse { Framing::Array } else { Framing::Sse };
    Form { api, framing, include_usage: false }
}

/// What a request asks for.
///
/// # Errors
/// [`NoCall`] when there is no such path or it takes other methods.
pub(crate) fn wanted(method: &Method, uri: &Uri, form: Form, via: &Via) -> Result<Wanted, NoCall> {
    let call = |verb| Wanted::Call(Asks { form, verb, model: String::new() });
    let wanted = match uri.path() {
        CHAT | MESSAGES => call(Verb::Answer),
        COUNT => call(Verb::Count),
        EMBEDDINGS => call(Verb::Embed),
        "/v1/models" | "/v1beta/models" => Wanted::Models,
        "/healthz" => Wanted::Health,
        "/readyz" => Wanted::Ready,
        "/metrics" if via.metrics => Wanted::Metrics,
        other => {
            let name = of_model(other).ok_or(NoCall::Path)?;
            match gemini_verb(&name) {
                Some((model, verb)) => Wanted::Call(Asks { form, verb, model: model.to_owned() }),
                // Of this API's operations, there are more than are served.
                None if form.api == Api::Gemini && method == Method::POST => return Err(NoCall::Path),
                None => Wanted::Model(name),
            }
        }
    };
    match wanted {
        Wanted::Call(_) if method != Method::POST => Err(NoCall::Method("POST")),
        Wanted::Call(_) => Ok(wanted),
        Wanted::Models | Wanted::Model(_) | Wanted::Health | Wanted::Ready | Wanted::Metrics => {
            if method == Method::GET { Ok(wanted) } else { Err(NoCall::Method("GET")) }
        }
    }
}

const CHAT: &str = "/v1/chat/completions";
const EMBEDDINGS: &str = "/v1/embeddings";
const MESSAGES: &str = "/v1/messages";
const COUNT: &str = "/v1/messages/count_tokens";

/// The members of a request's query, as they came.
pub(crate) fn query(uri: &Uri) -> impl Iterator<Item = &str> {
    uri.query().unwrap_or_default().split('&')
}

/// What a path names below the list of models: clients encode slashes and colons, or do not.
fn of_model(path: &str) -> Option<String> {
    let name = path.strip_prefix("/v1/models/").or_else(|| path.strip_prefix("/v1beta/models/"))?;
    let name = percent_decode_str(name).decode_utf8_lossy().into_owned();
    Some(name).filter(|name| !name.is_empty())
}

/// The model, and what Gemini's API wants of it.
fn gemini_verb(name: &str) -> Option<(&str, Verb)> {
    let (model, verb) = name.rsplit_once(':')?;
    let verb = match verb {
        "generateContent" => Verb::Answer,
        "streamGenerateContent" => Verb::Stream,
        "countTokens" => Verb::Count,
        "embedContent" => Verb::Embed,
        "batchEmbedContents" => Verb::EmbedBatch,
        _part_of_a_name => return None,
    };
    (!model.is_empty()).then_some((model, verb))
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    fn ask(method: &Method, target: &str) -> Result<Wanted, NoCall> {
        let via = Via { http: "1.1", alt_svc: None, metrics: false, connections: Gauge::default() };
        let uri = uri(target);
        wanted(method, &uri, form(&uri, &HeaderMap::new()), &via)
    }

    fn uri(target: &str) -> Uri {
        target.parse().unwrap()
    }

    fn call(target: &str) -> (Api, Verb, String, Framing) {
        match ask(&Method::POST, target) {
            Ok(Wanted::Call(Asks { form, verb, model })) => (form.api, verb, model, form.framing),
            other => panic!("{target}: {other:?}"),
        }
    }

    #[test]
    fn paths_lead_to_operations_and_pages_and_wrong_methods_are_told_the_right_one() {
        let get = |path| ask(&Method::GET, path);
        assert_eq!(call("/v1/chat/completions").1, Verb::Answer);
        assert_eq!(get("/v1/embeddings"), Err(NoCall::Method("POST")));
        assert_eq!(get("/v1/messages"), Err(NoCall::Method("POST")));
        assert_eq!(get("/v1beta/models/m:countTokens"), Err(NoCall::Method("POST")));
        assert_eq!(get("/v1/models/meta/llama:8b"), Ok(Wanted::Model("meta/llama:8b".to_owned())));
        for path in ["/metrics", "/v1/chat/completions/../../metrics", "/v1/models/", "/v1/messages/batches"]
        {
            assert_eq!(get(path), Err(NoCall::Path), "{path}");
        }
        assert_eq!(ask(&Method::POST, "/v1beta/models/m:predict"), Err(NoCall::Path));
        assert_eq!(ask(&Method::POST, "/v1beta/models/:generateContent"), Err(NoCall::Path));
        assert_eq!(ask(&Method::POST, "/v1/models/m"), Err(NoCall::Method("GET")));
    }

    #[test]
    fn a_model_is_named_in_the_path_however_it_is_spelled() {
        for path in [
            "/v1beta/models/meta/llama-3:8b:generateContent",
            "/v1/models/meta%2Fllama-3%3A8b:generateContent",
            "/v1beta/models/meta%2fllama-3:8b%3AgenerateContent?key=k",
        ] {
            let expected = (Api::Gemini, Verb::Answer, "meta/llama-3:8b".to_owned(), Framing::Sse);
            assert_eq!(call(path), expected, "{path}");
        }
        let of = |path| (call(path).1, call(path).3);
        assert_eq!(of("/v1beta/models/m:streamGenerateContent"), (Verb::Stream, Framing::Array));
        assert_eq!(of("/v1/models/m:streamGenerateContent?x=1&alt=sse"), (Verb::Stream, Framing::Sse));
        assert_eq!(of("/v1beta/models/m:embedContent").0, Verb::Embed);
        assert_eq!(of("/v1beta/models/m:batchEmbedContents").0, Verb::EmbedBatch);
        assert_eq!(of("/v1/messages/count_tokens?beta=true").0, Verb::Count);
    }

    #[test]
    fn what_several_apis_share_is_told_by_what_one_of_them_sends() {
        let api = |target: &str, name: &'static str| {
            let headers = [(http::HeaderName::from_static(name), "x".parse().unwrap())];
            form(&target.parse().unwrap(), &headers.into_iter().collect()).api
        };
        assert_eq!(api("/v1/models", "anthropic-version"), Api::Anthropic);
        assert_eq!(api("/v1/models", "x-goog-api-key"), Api::Gemini);
        assert_eq!(api("/v1/models", "authorization"), Api::Openai);
        assert_eq!(api("/v1/chat/completions", "anthropic-version"), Api::Openai);
        assert_eq!(api("/v1beta/nothing", "anthropic-version"), Api::Gemini);
        assert_eq!(api("/v1/messages/nothing", "authorization"), Api::Anthropic);
        assert_eq!(api("/v1/messages2", "authorization"), Api::Openai);
    }
}
