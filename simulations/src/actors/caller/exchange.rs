//! One request of a caller and its answer, written to the history as it goes.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use seam::{ByteStream, Host};
use serde_json::{Value, json};

use super::HangUp;
use crate::deployment::CALLS;
use crate::history::{Call, CallOutcome, Extra, Recorder};
use crate::scenario::SCENARIO;

/// An edge that takes longer to accept is not there.
const CONNECTED_WITHIN: Duration = Duration::from_secs(1);
/// Longer than any deadline of the mesh in scenarios: a call that is not over then hangs.
const PATIENCE: Duration = Duration::from_secs(25);

/// One request.
pub(super) struct Request {
    pub(super) host: Host,
    pub(super) recorder: Recorder,
    pub(super) id: u64,
    pub(super) key: String,
    /// The most tokens wanted.
    pub(super) most: u64,
    /// Whether a tool is offered.
    pub(super) tools: bool,
    pub(super) hang_up: HangUp,
}

impl Request {
    /// Asks the first of `edges` that accepts.
    pub(super) async fn run(self, call: &Call, edges: &[String]) -> Call {
        let outcome = match self.connect(edges).await {
            None => CallOutcome::Unreachable,
            Some(stream) => {
                let asking = self.ask(call, stream);
                self.host.timeout(PATIENCE, asking).await.unwrap_or(CallOutcome::Late)
            }
        };
        let now = self.recorder.now();
        self.note(|call| {
            call.ended = Some(now);
            call.outcome = outcome;
            call.clone()
        })
        .unwrap_or_else(|| call.clone())
    }

    /// Who reaches none tries all once more: the first packet of a connection may be lost, and comes again only after a
    /// second (RFC 6298 §2.1).
    async fn connect(&self, edges: &[String]) -> Option<ByteStream> {
        for edge in edges.iter().chain(edges) {
            let connecting = self.host.connect(edge, CALLS);
            if let Ok(Ok(stream)) = self.host.timeout(CONNECTED_WITHIN, connecting).await {
                self.note(|call| call.edge.clone_from(edge));
                return Some(stream);
            }
            self.note(|call| call.skipped.push(edge.clone()));
        }
        None
    }

    async fn ask(&self, call: &Call, stream: ByteStream) -> CallOutcome {
        let edge = self.note(|call| call.edge.clone()).unwrap_or_default();
        let mut body = json!({
            "model": call.model,
            "stream": call.stream,
            "max_tokens": self.most,
            "messages": [{"role": "user", "content": format!("call-{}: where are you?", self.id)}],
        });
        if self.tools {
            let look = json!([{"type": "function", "function": {"name": "look", "parameters": {}}}]);
            body.as_object_mut().map(|body| body.insert("tools".to_owned(), look));
            self.note_extra(|extra| extra.tools = true);
        }
        let request = http::Request::post("/v1/chat/completions")
            .header(http::header::HOST, edge)
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(http::header::AUTHORIZATION, format!("Bearer {}", self.key))
            .header("x-portolan-scenario", SCENARIO)
            .header("x-portolan-user", &call.caller);
        let request = if call.batch { request.header("x-portolan-priority", "batch") } else { request };
        let request = request.body(Full::new(Bytes::from(body.to_string())));
        let (Ok(request), Ok((mut sender, connection))) =
            (request, http1::handshake(TokioIo::new(stream)).await)
        else {
            return CallOutcome::Broken;
        };
        // How the connection ends shows in the exchange; it ends with it.
        let connection = self.host.spawn("call", async move { drop(connection.await) }).bound();
        let sent = self.recorder.now();
        self.note(|call| call.sent = Some(sent));
        let answering = sender.send_request(request);
        let answer = match self.hang_up {
            HangUp::BeforeHead(after) => match self.host.timeout(after, answering).await {
                Ok(answer) => answer,
                Err(_left) => return CallOutcome::HungUp,
            },
            HangUp::Never | HangUp::Midway(_) => answering.await,
        };
        let outcome = match answer {
            Ok(answer) => self.read(call, answer).await,
            Err(_broken) => CallOutcome::Broken,
        };
        drop(connection);
        outcome
    }

    async fn read(&self, call: &Call, answer: http::Response<Incoming>) -> CallOutcome {
        let status = answer.status().as_u16();
        let request = answer.headers().get("x-request-id").and_then(|value| value.to_str().ok());
        let (request, now) = (request.map(str::to_owned), self.recorder.now());
        self.note(|call| {
            call.head = Some(now);
            call.status = Some(status);
            call.request = request;
        });
        let told = answer.headers().get_all("x-portolan-budget").iter();
        let told: Vec<_> = told.filter_map(|value| Some(value.to_str().ok()?.to_owned())).collect();
        if !told.is_empty() {
            self.note_extra(|extra| extra.told = told);
        }
        let mut body = answer.into_body();
        let mut bytes = Vec::new();
        let mut pieces = 0;
        let mut is_begun = false;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return CallOutcome::Broken;
            };
            let Some(data) = frame.data_ref() else { continue };
            bytes.extend_from_slice(data);
            if !is_begun && begins(call.stream, &bytes) {
                is_begun = true;
                let now = self.recorder.now();
                self.note(|call| call.first_byte = Some(now));
            }
            pieces += 1;
            if self.hang_up == HangUp::Midway(pieces) {
                return CallOutcome::HungUp;
            }
        }
        self.judge(call, status, &String::from_utf8_lossy(&bytes))
    }

    fn judge(&self, call: &Call, status: u16, text: &str) -> CallOutcome {
        if status != 200 {
            let code = code_of(text);
            self.note(|call| call.code = code);
            return CallOutcome::Refused;
        }
        let mine = format!("call-{} by ", self.id);
        let whole = if call.stream {
            text.ends_with("data: [DONE]\n\n")
        } else {
            serde_json::from_str::<Value>(text).is_ok_and(|body| body.get("choices").is_some())
        };
        let error = text.lines().rev().filter_map(|line| line.strip_prefix("data: ")).find_map(code_of);
        match (whole, error) {
            (_, Some(code)) => {
                self.note(|call| call.code = Some(code));
                CallOutcome::Failed
            }
            (true, None) if text.contains(&mine) => CallOutcome::Complete,
            (true, None) => CallOutcome::Foreign,
            (false, None) => CallOutcome::Short,
        }
    }

    fn note_extra(&self, change: impl FnOnce(&mut Extra)) {
        self.recorder.write(|history| change(history.extras.entry(self.id).or_default()));
    }

    fn note<T>(&self, change: impl FnOnce(&mut Call) -> T) -> Option<T> {
        let at = usize::try_from(self.id).unwrap_or(usize::MAX);
        self.recorder.write(|history| history.calls.get_mut(at).map(change))
    }
}

/// Whether something of the answer itself is there: comments that keep a stream alive are none.
fn begins(stream: bool, bytes: &[u8]) -> bool {
    let event = b"data:";
    if stream { bytes.windows(event.len()).any(|window| window == event) } else { !bytes.is_empty() }
}

fn code_of(text: &str) -> Option<String> {
    let body: Value = serde_json::from_str(text).ok()?;
    Some(body.pointer("/error/code")?.as_str()?.to_owned())
}
