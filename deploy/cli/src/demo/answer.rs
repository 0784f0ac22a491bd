//! From a request to its answer: the key, the path, then the pace at which tokens leave.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use base::Mono;
use bytes::Bytes;
use futures_util::stream;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use seam::Host;
use serde_json::{Map, Value, json};

use super::Options;
use super::chat::{Ask, Script, Voice};
use super::embedding;
use super::problem::Problem;

/// Largest request body, in bytes.
const MAX_BODY: usize = 16 * 1024 * 1024;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Answers requests; shared by all connections.
#[derive(Debug)]
pub(super) struct Answerer {
    host: Host,
    options: Options,
}

/// Where a streamed reply stands.
struct Paced {
    host: Host,
    answerer: Arc<Answerer>,
    script: Script,
    start: Mono,
    next: Step,
}

/// What a streamed reply sends next.
#[derive(Clone, Copy)]
enum Step {
    Opening,
    Token(usize),
    End,
}

impl Answerer {
    pub(super) const fn new(host: Host, options: Options) -> Self {
        Self { host, options }
    }

    /// The answer to one request.
    pub(super) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        Ok(self.dispatch(request).await.unwrap_or_else(|problem| whole(problem.status, &problem.body_json())))
    }

    async fn dispatch(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Problem> {
        let path = request.uri().path().to_owned();
        let method = match path.as_str() {
            "/healthz" | "/v1/models" => Method::GET,
            "/v1/chat/completions" | "/v1/embeddings" => Method::POST,
            _ => return Err(Problem::path(&path)),
        };
        if request.method() != method {
            return Err(Problem::method());
        }
        if path == "/healthz" {
            return Ok(whole(StatusCode::OK, &json!({"status": "ok"})));
        }
        self.check_key(&request)?;
        match path.as_str() {
            "/v1/models" => Ok(whole(StatusCode::OK, &self.models())),
            "/v1/embeddings" => {
                Ok(whole(StatusCode::OK, &embedding::reply(&read_object(request.into_body()).await?)?))
            }
            _ => self.chat(&read_object(request.into_body()).await?).await,
        }
    }

    fn check_key(&self, request: &Request<Incoming>) -> Result<(), Problem> {
        let Some(key) = &self.options.key else { return Ok(()) };
        let sent = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let sent = sent.and_then(|value| value.strip_prefix("Bearer "));
        if sent == Some(key) { Ok(()) } else { Err(Problem::key()) }
    }

    fn models(&self) -> Value {
        let Options { name, region, .. } = &self.options;
        json!({"object": "list", "data": [{"id": name, "object": "model", "created": 0, "owned_by": region}]})
    }

    async fn chat(self: Arc<Self>, request: &Map<String, Value>) -> Result<Response<Body>, Problem> {
        let start = self.host.now();
        let ask = Ask::read(request)?;
        let voice = Voice { name: &self.options.name, region: &self.options.region };
        let created_s = self.host.wall().as_millis() / 1_000;
        let script = Script::new(&ask, voice, self.host.random_u64(), created_s);
        if !ask.stream {
            self.host.sleep_until(start + self.due(script.len().saturating_sub(1))).await;
            return Ok(whole(StatusCode::OK, &script.whole()));
        }
        let host = self.host.clone();
        let paced = Paced { host, answerer: self, script, start, next: Step::Opening };
        let events = stream::unfold(paced, |mut paced| async move {
            let event = paced.next().await?;
            Some((Ok(Frame::data(Bytes::from(event))), paced))
        });
        let mut response = Response::new(StreamBody::new(events).boxed_unsync());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(response)
    }

    /// From the request to the token at `at`.
    fn due(&self, at: usize) -> Duration {
        let per_s = u64::from(self.options.tokens_per_s);
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        let paced = at.saturating_mul(1_000_000_000).checked_div(per_s).unwrap_or(0);
        self.options.first_token + Duration::from_nanos(paced)
    }
}

impl Paced {
    /// The next events once they are due; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        match self.next {
            Step::Opening => {
                // Model servers open their stream once the first token is there.
                self.host.sleep_until(self.start + self.answerer.due(0)).await;
                self.next = Step::Token(0);
                Some(event(&self.script.opening()))
            }
            Step::Token(at) => match self.script.token(at) {
                Some(token) => {
                    self.host.sleep_until(self.start + self.answerer.due(at)).await;
                    self.next = Step::Token(at + 1);
                    Some(event(&token))
                }
                None => {
                    self.next = Step::End;
                    let mut events: String = self.script.closing().iter().map(event).collect();
                    events.push_str("data: [DONE]\n\n");
                    Some(events)
                }
            },
            Step::End => None,
        }
    }
}

fn event(chunk: &Value) -> String {
    format!("data: {chunk}\n\n")
}

async fn read_object(body: Incoming) -> Result<Map<String, Value>, Problem> {
    let body = Limited::new(body, MAX_BODY).collect().await.map_err(|_cut| Problem::body(MAX_BODY))?;
    serde_json::from_slice(&body.to_bytes()).map_err(|error| Problem::not_json(&error))
}

fn whole(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tokens_leave_at_the_configured_pace() {
        let options = Options {
            listen: ([127, 0, 0, 1], 0).into(),
            name: "alder".to_owned(),
            region: "north".to_owned(),
            key: None,
            first_token: Duration::from_millis(200),
            tokens_per_s: 10,
        };
        let host = Host::real();
        let ask = json!({"model": "m", "max_tokens": 3, "messages": [{"role": "user", "content": "hi"}]});
        let script = Script::new(
            &Ask::read(ask.as_object().unwrap()).unwrap(),
            Voice { name: "alder", region: "north" },
            1,
            1,
        );
        let answerer = Arc::new(Answerer::new(host.clone(), options));
        let mut paced = Paced { start: host.now(), host, answerer, script, next: Step::Opening };
        let mut at_ms = Vec::new();
        while paced.next().await.is_some() {
            at_ms.push(paced.host.now().since(paced.start).as_millis());
        }
        assert_eq!(at_ms, [200, 200, 300, 400, 400]);
    }
}
