//! An upstream that misbehaves on demand, for end-to-end tests.
//!
//! A call picks its fault by the model it asks for (`fault/half-json`); any other model meets the fault that the
//! server is set to, [`Fault::None`] at first, unless the key that it is made with has one of its own. It counts calls, calls of
//! each key, and calls that were left by the gateway.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use seam::Lock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::http1::{self, Body, Framing};

const WHOLE: &str = r#"{"id":"chatcmpl-faulty","object":"chat.completion","created":1700000000,"model":"faulty","choices":[{"index":0,"message":{"role":"assistant","content":"all is well","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":3,"total_tokens":11}}"#;
const EMPTY: &str = r#"{"id":"chatcmpl-faulty","object":"chat.completion","created":1700000000,"model":"faulty","choices":[{"index":0,"message":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":0,"total_tokens":8}}"#;
const ERROR: &str =
    r#"{"error":{"message":"the model fell over","type":"server_error","param":null,"code":null}}"#;
const REVOKED: &str = r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#;
const LIMITED: &str =
    r#"{"error":{"message":"slow down","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#;
const HTML: &str = "<!doctype html><html><body><h1>Welcome to the captive portal</h1></body></html>";

/// Words of a streamed reply.
const WORDS: [&str; 3] = ["all", " is", " well"];

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: a whole reply or a whole stream.
    None,
    /// 500 with an error body.
    Status500,
    /// 401: the key is none.
    Status401,
    /// 429 without a Retry-After.
    Status429,
    /// 429 with `Retry-After: 7`.
    RetryAfter,
    /// 200 whose body is an error; a stream's only event is the error.
    ErrorIn200,
    /// 200 with a page of HTML.
    Html,
    /// 200 whose JSON ends halfway, correctly framed; a stream's second event does.
    HalfJson,
    /// Header lines for ever.
    EndlessHeaders,
    /// The connection is cut within the body, after the first words of a stream.
    Drop,
    /// The connection is cut before any byte.
    DropAtOnce,
    /// Takes the call and never answers.
    Silent,
    /// Answers with headers and then nothing.
    SilentBody,
    /// A reply without content.
    Empty,
    /// One byte of the reply each 200 ms.
    SlowDrip,
    /// The first word of a stream, and the rest once it is [released](Faulty::release).
    Held,
}

const NAMES: [(&str, Fault); 16] = [
    ("none", Fault::None),
    ("500", Fault::Status500),
    ("401", Fault::Status401),
    ("429", Fault::Status429),
    ("429-retry-after", Fault::RetryAfter),
    ("error-in-200", Fault::ErrorIn200),
    ("html", Fault::Html),
    ("half-json", Fault::HalfJson),
    ("endless-headers", Fault::EndlessHeaders),
    ("drop", Fault::Drop),
    ("drop-at-once", Fault::DropAtOnce),
    ("silent", Fault::Silent),
    ("silent-body", Fault::SilentBody),
    ("empty", Fault::Empty),
    ("slow-drip", Fault::SlowDrip),
    ("held", Fault::Held),
];

impl Fault {
    /// Every fault.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(_, fault)| *fault)
    }

    /// The model name that asks for it.
    #[must_use]
    pub fn model(self) -> String {
        let name = NAMES.iter().find(|(_, fault)| *fault == self).map_or("none", |(name, _)| name);
        format!("fault/{name}")
    }

    fn of_model(model: &str) -> Option<Self> {
        let name = model.strip_prefix("fault/")?;
        Some(NAMES.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no fault {name}")).1)
    }
}

/// A running faulty upstream. Dropping it closes its port and its connections.
#[derive(Debug)]
pub struct Faulty {
    addr: SocketAddr,
    state: Arc<State>,
    server: AbortHandle,
}

#[derive(Debug)]
struct State {
    fault: Lock<Fault>,
    /// Faults of keys.
    of_keys: Lock<BTreeMap<String, Fault>>,
    /// Calls received with each key.
    by_key: Lock<BTreeMap<String, u64>>,
    /// What was asked, in order.
    asked: Lock<Vec<serde_json::Value>>,
    calls: AtomicU64,
    left: AtomicU64,
    released: watch::Sender<bool>,
}

impl Faulty {
    /// Starts one on a free loopback port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let state = Arc::new(State {
            fault: Lock::new(Fault::None),
            of_keys: Lock::default(),
            by_key: Lock::default(),
            asked: Lock::default(),
            calls: AtomicU64::new(0),
            left: AtomicU64::new(0),
            released: watch::Sender::new(false),
        });
        let server = tokio::spawn(accept(listener, Arc::clone(&state))).abort_handle();
        Self { addr, state, server }
    }

    /// Its base address, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The fault of calls that do not pick one.
    pub fn set(&self, fault: Fault) {
        *self.state.fault.lock() = fault;
    }

    /// The fault of calls with a key, whatever they ask for.
    pub fn set_for(&self, key: &str, fault: Fault) {
        self.state.of_keys.lock().insert(key.to_owned(), fault);
    }

    /// The body of the last call.
    #[must_use]
    pub fn asked(&self) -> serde_json::Value {
        self.state.asked.lock().last().cloned().unwrap_or_default()
    }

    /// The bodies of all calls, in the order in which they came.
    #[must_use]
    pub fn all_asked(&self) -> Vec<serde_json::Value> {
        self.state.asked.lock().clone()
    }

    /// Calls received with a key.
    #[must_use]
    pub fn calls_with(&self, key: &str) -> u64 {
        self.state.by_key.lock().get(key).copied().unwrap_or_default()
    }

    /// Lets the rest of every held stream go, now and later.
    pub fn release(&self) {
        self.state.released.send_replace(true);
    }

    /// Calls received.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state.calls.load(Ordering::SeqCst)
    }

    /// Calls whose connection the gateway closed before their answer ended.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.state.left.load(Ordering::SeqCst)
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let state = Arc::clone(&state);
        // A connection that breaks is the gateway's choice, counted where it matters.
        connections.spawn(async move { drop(serve(stream, &state).await) });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(mut stream: TcpStream, state: &State) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    while let Some(head) = http1::read_head(&mut stream, &mut buffer).await? {
        let mut text = BytesMut::new();
        if head.framing != Framing::UntilClose {
            let mut body = Body::new(head.framing);
            while body.read(&mut stream, &mut buffer, &mut text).await? {}
        }
        if head.line.starts_with("GET ") {
            stream
                .write_all(&framed("200 OK", "", "application/json", r#"{"object":"list","data":[]}"#))
                .await?;
            continue;
        }
        state.calls.fetch_add(1, Ordering::SeqCst);
        let request: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        let model = request["model"].as_str().unwrap_or_default();
        state.asked.lock().push(request.clone());
        let bearer = head.bearer.unwrap_or_default();
        let of_key = state.of_keys.lock().get(&bearer).copied();
        *state.by_key.lock().entry(bearer).or_default() += 1;
        let fault = of_key.or_else(|| Fault::of_model(model)).unwrap_or_else(|| *state.fault.lock());
        let keep = answer(&mut stream, state, fault, request["stream"] == true).await;
        if !matches!(keep, Ok(true)) {
            let by_us = matches!(keep, Ok(false));
            state.left.fetch_add(u64::from(!by_us), Ordering::SeqCst);
            return keep.map(drop);
        }
    }
    Ok(())
}

/// Whether the connection stays; an error when the gateway closed it.
async fn answer(stream: &mut TcpStream, state: &State, fault: Fault, streamed: bool) -> io::Result<bool> {
    let json = "application/json";
    let whole = match fault {
        Fault::Status500 => framed("500 Internal Server Error", "", json, ERROR),
        Fault::Status401 => framed("401 Unauthorized", "", json, REVOKED),
        Fault::Status429 => framed("429 Too Many Requests", "", json, LIMITED),
        Fault::RetryAfter => framed("429 Too Many Requests", "retry-after: 7\r\n", json, LIMITED),
        Fault::Html => framed("200 OK", "", "text/html", HTML),
        Fault::EndlessHeaders => return endless_headers(stream).await,
        Fault::Silent => return wait_for_close(stream).await,
        Fault::DropAtOnce => return Ok(false),
        Fault::None | Fault::Held if streamed => {
            events(&[&opening(), &words(0), &words(1), &words(2), &closing(), "[DONE]"])
        }
        Fault::ErrorIn200 if streamed => events(&[ERROR]),
        Fault::HalfJson if streamed => events(&[&opening(), &words(0)[..60], "[DONE]"]),
        Fault::Empty if streamed => events(&[&opening(), &closing(), "[DONE]"]),
        Fault::Drop if streamed => cut(events(&[&opening(), &words(0), &words(1)]), 5),
        Fault::SilentBody if streamed => cut(events(&[]), 5),
        Fault::SlowDrip if streamed => events(&[&opening(), &words(0), &closing(), "[DONE]"]),
        Fault::None | Fault::SlowDrip | Fault::Held => framed("200 OK", "", json, WHOLE),
        Fault::ErrorIn200 => framed("200 OK", "", json, ERROR),
        Fault::HalfJson => framed("200 OK", "", json, &WHOLE[..WHOLE.len() / 2]),
        Fault::Empty => framed("200 OK", "", json, EMPTY),
        Fault::Drop => cut(framed("200 OK", "", json, WHOLE), 100),
        Fault::SilentBody => cut(framed("200 OK", "", json, WHOLE), WHOLE.len()),
    };
    match fault {
        Fault::SlowDrip => drip(stream, &whole).await?,
        Fault::Held if streamed => hold(stream, &whole, &state.released).await?,
        _ => stream.write_all(&whole).await?,
    }
    match fault {
        Fault::SilentBody => wait_for_close(stream).await,
        Fault::Drop => Ok(false),
        _ => Ok(true),
    }
}

fn framed(status: &str, headers: &str, content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

/// A whole chunked event stream.
fn events(data: &[&str]) -> Vec<u8> {
    let mut wire =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
    for data in data {
        let event = format!("data: {data}\n\n");
        wire.push_str(&format!("{:x}\r\n{event}\r\n", event.len()));
    }
    wire.push_str("0\r\n\r\n");
    wire.into_bytes()
}

fn cut(mut wire: Vec<u8>, bytes: usize) -> Vec<u8> {
    wire.truncate(wire.len() - bytes);
    wire
}

fn chunk(delta: &str, finish_reason: &str) -> String {
    format!(
        r#"{{"id":"chatcmpl-faulty","object":"chat.completion.chunk","created":1700000000,"model":"faulty","choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish_reason}}}]}}"#
    )
}

fn opening() -> String {
    chunk(r#"{"role":"assistant","content":""}"#, "null")
}

fn words(at: usize) -> String {
    chunk(&format!(r#"{{"content":"{}"}}"#, WORDS[at]), "null")
}

fn closing() -> String {
    chunk("{}", r#""stop""#)
}

async fn endless_headers(stream: &mut TcpStream) -> io::Result<bool> {
    stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
    for number in 0u64.. {
        stream.write_all(format!("x-filler-{number}: {}\r\n", "a".repeat(200)).as_bytes()).await?;
    }
    Ok(false)
}

async fn drip(stream: &mut TcpStream, wire: &[u8]) -> io::Result<()> {
    for byte in wire {
        stream.write_all(&[*byte]).await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

async fn hold(stream: &mut TcpStream, wire: &[u8], released: &watch::Sender<bool>) -> io::Result<()> {
    let (now, later) = wire.split_at(cut(events(&[&opening(), &words(0)]), 5).len());
    stream.write_all(now).await?;
    // The sender lives as long as the server.
    drop(released.subscribe().wait_for(|released| *released).await);
    stream.write_all(later).await
}

async fn wait_for_close(stream: &mut TcpStream) -> io::Result<bool> {
    let mut byte = [0];
    // Anything but more requests is the gateway leaving.
    while stream.read(&mut byte).await? > 0 {}
    Err(io::ErrorKind::ConnectionReset.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Client, post};

    async fn ask(
        faulty: &Faulty,
        fault: Fault,
        streamed: bool,
    ) -> Result<(u16, String), crate::client::Failed> {
        let ca = tempfile::NamedTempFile::new()?;
        let client = Client::trusting(ca.path(), &[]);
        let body = serde_json::json!({"model": fault.model(), "stream": streamed, "messages": []});
        let answer = client.ask(&faulty.url(), post("/v1/chat/completions", "", body.to_string())).await?;
        Ok((answer.status.as_u16(), String::from_utf8(answer.body.to_vec())?))
    }

    #[tokio::test]
    async fn each_fault_shows_as_it_says() {
        let faulty = Faulty::start().await;
        assert!(ask(&faulty, Fault::None, false).await.unwrap().1.contains("all is well"));
        let stream = ask(&faulty, Fault::None, true).await.unwrap().1;
        assert_eq!(stream.matches("data: ").count(), 6);
        assert_eq!(ask(&faulty, Fault::RetryAfter, true).await.unwrap().0, 429);
        let half = ask(&faulty, Fault::HalfJson, false).await.unwrap().1;
        assert!(serde_json::from_str::<serde_json::Value>(&half).is_err());
        for fault in [Fault::Drop, Fault::DropAtOnce, Fault::EndlessHeaders] {
            for streamed in [false, true] {
                assert!(ask(&faulty, fault, streamed).await.is_err(), "{fault:?}");
            }
        }
        assert_eq!(faulty.calls(), 10);
    }

    #[tokio::test]
    async fn a_call_that_was_left_is_counted() {
        let faulty = Faulty::start().await;
        faulty.set(Fault::Silent);
        let mut stream = TcpStream::connect(faulty.addr).await.unwrap();
        stream.write_all(b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
        while faulty.calls() == 0 {
            tokio::task::yield_now().await;
        }
        drop(stream);
        while faulty.left() == 0 {
            tokio::task::yield_now().await;
        }
    }
}
