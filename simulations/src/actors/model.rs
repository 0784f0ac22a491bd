//! A model server with moods: slow, refusing, breaking off, hanging, silent or wrong about usage. Each request draws
//! its own; what it was asked and what it sent goes to the history.

mod account;
mod entry;
mod reply;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use seam::{ByteStream, Host, Lock};
use serde_json::{Value, json};
use simulation_hooks::Random;
use thiserror::Error;

use crate::deployment::{MODELS, NEXT_PROVIDER_KEY, PROVIDER_KEY};
use crate::ground::Ground;
use crate::history::{Keyed, Pass, Recorder, ServedEnd};
use crate::scenario::{Behaviour, ServerSpec};
use account::Account;
use entry::Entry;
use reply::{Ask, Reply};

/// Longer than any run.
const FOR_EVER: Duration = Duration::from_secs(3_600);

/// A model server. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct ModelServer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    spec: ServerSpec,
    ground: Arc<dyn Ground>,
    recorder: Recorder,
    /// How often each call was asked here, so that asking again draws anew.
    asked: Lock<BTreeMap<Option<u64>, u64>>,
    /// What it knows of its keys, where there are several.
    account: Lock<Account>,
}

/// The server breaks a connection off.
#[derive(Clone, Copy, Debug, Error)]
#[error("the model server broke off")]
struct BrokeOff;

type Body = UnsyncBoxBody<Bytes, BrokeOff>;

/// What one request will get.
#[derive(Clone, Copy, Debug)]
struct Mood {
    first_token: Duration,
    between: Duration,
    refusal: Option<Refusal>,
    /// Stops after so many tokens.
    stops: Option<(u64, Stop)>,
    usage: Usage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    TooMany { retry_after: bool },
    Error(StatusCode),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Hang,
    Reset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usage {
    True,
    None,
    Lie(u64),
}

impl ModelServer {
    /// A server on the machine of `ground` that has its name, without a process.
    #[must_use]
    pub fn new(ground: &Arc<dyn Ground>, spec: ServerSpec, recorder: Recorder) -> Self {
        let ground = Arc::clone(ground);
        Self(Arc::new(Inner { spec, ground, recorder, asked: Lock::default(), account: Lock::default() }))
    }

    /// Starts its process, after killing the one that runs.
    pub fn start(&self) {
        let Some(host) = self.0.ground.boot(&self.0.spec.name) else { return };
        let (server, serving) = (self.clone(), host.clone());
        drop(host.spawn("model server", async move {
            if let Ok(listener) = serving.listen(([0, 0, 0, 0], MODELS).into()).await {
                while let Ok((stream, peer)) = listener.accept().await {
                    let (server, host) = (server.clone(), serving.clone());
                    let by = server.0.ground.machine_at(peer.ip());
                    let work = async move { server.serve(&host, stream, by).await };
                    drop(serving.spawn("model connection", work));
                }
            }
        }));
    }

    async fn serve(&self, host: &Host, stream: ByteStream, by: Option<String>) {
        let service = service_fn(move |request| {
            let (server, host, by) = (self.clone(), host.clone(), by.clone());
            async move { server.answer(&host, request, by).await }
        });
        let serving =
            http1::Builder::new().auto_date_header(false).serve_connection(TokioIo::new(stream), service);
        // How a connection ends shows in what was served on it.
        drop(serving.await);
    }

    async fn answer(
        &self,
        host: &Host,
        request: Request<Incoming>,
        by: Option<String>,
    ) -> Result<Response<Body>, BrokeOff> {
        let path = request.uri().path().to_owned();
        let key =
            request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = request.into_body().collect().await.map_err(|_gone| BrokeOff)?.to_bytes();
        if path != "/v1/chat/completions" {
            return Ok(plain(StatusCode::OK, &json!({"status": "ok", "object": "list", "data": []})));
        }
        let key = key.and_then(|key| Some(key.strip_prefix("Bearer ")?.to_owned()));
        let key = key.filter(|_| self.0.spec.provider);
        let told = match self.admit(key.as_deref(), &by) {
            Some(Ok(told)) => told,
            Some(Err(refusal)) => return Ok(refusal),
            None => HeaderMap::new(),
        };
        let is_known = !self.0.spec.keys.is_empty()
            || key.as_deref().is_some_and(|key| [PROVIDER_KEY, NEXT_PROVIDER_KEY].contains(&key));
        if self.0.spec.provider && !is_known {
            return Ok(plain(StatusCode::UNAUTHORIZED, &error("invalid_api_key")));
        }
        let Some(ask) = Ask::read(&body) else {
            return Ok(plain(StatusCode::BAD_REQUEST, &error("invalid_request")));
        };
        let mut random = self.random(ask.call);
        let does = self.0.spec.does;
        let mood = Mood::draw(&does, &mut random);
        let tokens = does.tokens.draw(&mut random).min(ask.most).max(1);
        let entry = Entry::new(&self.0.recorder, &self.0.spec.name, (by, key), &ask);
        host.sleep(mood.first_token).await;
        if let Some(refusal) = mood.refusal {
            return Ok(refusal.response(&entry));
        }
        let reply = Reply::new(&self.0.spec.name, ask, tokens, mood.usage);
        let mut response = if reply.is_stream() {
            streamed(host.clone(), reply, mood, entry)
        } else {
            whole(host, &reply, mood, entry).await?
        };
        response.headers_mut().extend(told);
        Ok(response)
    }

    /// Whether one of several keys may make a call: what the answer tells of its limits, or the refusal. `None`: there are
    /// not several.
    fn admit(&self, key: Option<&str>, by: &Option<String>) -> Option<Result<HeaderMap, Response<Body>>> {
        let Inner { spec, recorder, account, .. } = &*self.0;
        if spec.keys.is_empty() {
            return None;
        }
        let refusal = || plain(StatusCode::UNAUTHORIZED, &error("invalid_api_key"));
        let credential = key.unwrap_or_default().to_owned();
        let Some(known) = spec.keys.iter().find(|key| key.credential(&spec.name) == credential) else {
            return Some(Err(refusal()));
        };
        let asked = recorder.now();
        let (pass, told) = account.lock().admit(known, &credential, asked);
        let keyed = Keyed { server: spec.name.clone(), by: by.clone(), credential, asked, pass };
        recorder.write(|history| history.keyed.push(keyed));
        Some(match pass {
            Pass::Served => Ok(told),
            Pass::Revoked => Err(refusal()),
            Pass::Wait(seconds) => {
                let mut response = plain(StatusCode::TOO_MANY_REQUESTS, &error("rate_limit_exceeded"));
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
                Err(response)
            }
        })
    }

    fn random(&self, call: Option<u64>) -> Random {
        let nth = {
            let mut asked = self.0.asked.lock();
            let nth = asked.entry(call).or_default();
            *nth += 1;
            *nth
        };
        self.0.ground.random(&format!("{} answers {call:?} for the {nth}. time", self.0.spec.name))
    }
}

impl Mood {
    fn draw(does: &Behaviour, random: &mut Random) -> Self {
        let first_token = does.first_token.draw(random);
        let between =
            Duration::from_secs(1) / u32::try_from(does.tokens_per_s.draw(random).max(1)).unwrap_or(u32::MAX);
        let refusal = if does.too_many.draw(random) {
            Some(Refusal::TooMany { retry_after: random.below(2) == 0 })
        } else if does.error.draw(random) {
            let statuses = [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::SERVICE_UNAVAILABLE];
            usize::try_from(random.below(2)).ok().and_then(|at| statuses.get(at)).copied().map(Refusal::Error)
        } else {
            None
        };
        let after = random.below(does.tokens.most.saturating_add(1));
        let stops = if does.hang.draw(random) {
            Some((after, Stop::Hang))
        } else if does.reset.draw(random) {
            Some((after, Stop::Reset))
        } else {
            None
        };
        let usage = if does.no_usage.draw(random) {
            Usage::None
        } else if does.lying_usage.draw(random) {
            Usage::Lie(random.draw())
        } else {
            Usage::True
        };
        Self { first_token, between, refusal, stops, usage }
    }
}

impl Refusal {
    fn response(self, entry: &Entry) -> Response<Body> {
        let (status, code) = match self {
            Self::TooMany { .. } => (StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded"),
            Self::Error(status) => (status, "server_error"),
        };
        let mut response = plain(status, &error(code));
        if self == (Self::TooMany { retry_after: true }) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        entry.end(ServedEnd::Status(status.as_u16()));
        response
    }
}

async fn whole(host: &Host, reply: &Reply, mood: Mood, entry: Entry) -> Result<Response<Body>, BrokeOff> {
    for token in 0..reply.len() {
        match mood.stops {
            Some((after, Stop::Hang)) if after == token => host.sleep(FOR_EVER).await,
            Some((after, Stop::Reset)) if after == token => {
                entry.end(ServedEnd::Reset);
                return Err(BrokeOff);
            }
            _ if token > 0 => host.sleep(mood.between).await,
            _ => {}
        }
        // All of it leaves at the end, but it was made.
        entry.token();
    }
    entry.told(reply.usage());
    entry.end(ServedEnd::Complete);
    Ok(plain(StatusCode::OK, &reply.whole()))
}

fn streamed(host: Host, reply: Reply, mood: Mood, entry: Entry) -> Response<Body> {
    let events = stream::unfold(Some((host, reply, entry, 0u64)), move |state| async move {
        let (host, reply, entry, token) = state?;
        match mood.stops {
            Some((after, Stop::Hang)) if after == token => host.sleep(FOR_EVER).await,
            Some((after, Stop::Reset)) if after == token => {
                entry.end(ServedEnd::Reset);
                return Some((Err(BrokeOff), None));
            }
            _ if token > 0 && token < reply.len() => host.sleep(mood.between).await,
            _ => {}
        }
        if token < reply.len() {
            entry.token();
            let event = Frame::data(Bytes::from(reply.event(token)));
            return Some((Ok(event), Some((host, reply, entry, token + 1))));
        }
        entry.told(reply.told_in_stream());
        entry.end(ServedEnd::Complete);
        Some((Ok(Frame::data(Bytes::from(reply.closing()))), None))
    });
    let mut response = Response::new(StreamBody::new(events).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

fn plain(status: StatusCode, body: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn error(code: &str) -> Value {
    json!({"error": {"message": "the model server refuses", "type": "server_error", "param": null, "code": code}})
}
