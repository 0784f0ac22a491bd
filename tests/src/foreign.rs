//! A model server that speaks Anthropic's and Gemini's APIs, for end-to-end tests.
//!
//! A call with tools is answered with a call of the first one, any other with words; a stream breaks with an error when its
//! last words are `break`, and every call that says `busy` is refused with 529.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use seam::Lock;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::http1::{self, Body, Framing};

/// A running server. Dropping it closes its port and its connections.
#[derive(Debug)]
pub struct Foreign {
    addr: SocketAddr,
    asked: Arc<Lock<Vec<Asked>>>,
    server: AbortHandle,
}

/// A call as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its path.
    pub path: String,
    /// The credential in the API's own header.
    pub key: Option<String>,
    /// Its body.
    pub body: Value,
}

impl Foreign {
    /// Starts one on a free loopback port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let asked: Arc<Lock<Vec<Asked>>> = Arc::default();
        let server = tokio::spawn(accept(listener, Arc::clone(&asked))).abort_handle();
        Self { addr, asked, server }
    }

    /// Its base address, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The last call.
    #[must_use]
    pub fn asked(&self) -> Asked {
        self.asked.lock().last().cloned().unwrap()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn accept(listener: TcpListener, asked: Arc<Lock<Vec<Asked>>>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let asked = Arc::clone(&asked);
        // A connection that breaks is the gateway's choice.
        connections.spawn(async move { drop(serve(stream, &asked).await) });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(mut stream: TcpStream, asked: &Lock<Vec<Asked>>) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    while let Some(head) = http1::read_head(&mut stream, &mut buffer).await? {
        let mut text = BytesMut::new();
        if head.framing != Framing::UntilClose {
            let mut body = Body::new(head.framing);
            while body.read(&mut stream, &mut buffer, &mut text).await? {}
        }
        let path = head.line.split(' ').nth(1).unwrap_or_default().to_owned();
        let body: Value = serde_json::from_slice(&text).unwrap_or_default();
        let answer = if path == "/v1/messages" { claude(&body) } else { gemini(&path, &body) };
        asked.lock().push(Asked { path, key: head.key, body });
        stream.write_all(&answer).await?;
    }
    Ok(())
}

/// The answer of Anthropic's API.
fn claude(body: &Value) -> Vec<u8> {
    let said = body["messages"].to_string();
    if said.contains("busy") {
        let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        return framed("529 Overloaded", &error);
    }
    let (block, delta, stop) = match body["tools"][0]["name"].as_str() {
        Some(name) => (
            json!({"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": "{\"city\":\"Köln\"}"}),
            "tool_use",
        ),
        None => (
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": "all is well"}),
            "end_turn",
        ),
    };
    let used = |output: u64| json!({"input_tokens": 3, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": output});
    let message = |content: Value, stop: Value, output: u64| {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": content, "stop_reason": stop, "stop_sequence": null, "usage": used(output)})
    };
    if body["stream"] != true {
        let whole = match stop {
            "tool_use" => {
                json!({"type": "tool_use", "id": "toolu_1", "name": block["name"], "input": {"city": "Köln"}})
            }
            _words => json!({"type": "text", "text": delta["text"]}),
        };
        return framed("200 OK", &message(json!([whole]), json!(stop), 9));
    }
    let mut sent = vec![
        json!({"type": "message_start", "message": message(json!([]), Value::Null, 1)}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "ping"}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
    ];
    if said.contains("break") {
        sent.push(json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}));
        return events(&sent);
    }
    sent.extend([
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]);
    events(&sent)
}

/// The answer of Gemini's API.
fn gemini(path: &str, body: &Value) -> Vec<u8> {
    let used = json!({"promptTokenCount": 10, "cachedContentTokenCount": 5, "candidatesTokenCount": 5,
        "thoughtsTokenCount": 4, "totalTokenCount": 19});
    if path.ends_with(":batchEmbedContents") {
        let vectors: Vec<_> =
            body["requests"].as_array().unwrap().iter().map(|_| json!({"values": [0.5, -0.25]})).collect();
        return framed(
            "200 OK",
            &json!({"embeddings": vectors, "usageMetadata": {"promptTokenCount": 4, "totalTokenCount": 4}}),
        );
    }
    let part = match body["tools"][0]["functionDeclarations"][0]["name"].as_str() {
        Some(name) => json!({"functionCall": {"name": name, "args": {"city": "Köln"}}}),
        None => json!({"text": "all is well"}),
    };
    let response = |part: &Value, finish: Option<&str>| {
        let mut candidate = json!({"content": {"role": "model", "parts": [part]}, "index": 0});
        if let Some(finish) = finish {
            candidate["finishReason"] = finish.into();
        }
        json!({"candidates": [candidate], "usageMetadata": used, "modelVersion": "gemini", "responseId": "r1"})
    };
    if !path.contains(":streamGenerateContent?alt=sse") {
        return framed("200 OK", &response(&part, Some("STOP")));
    }
    let breaks = body["contents"].to_string().contains("break");
    let last = match breaks {
        true => {
            json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}})
        }
        false => response(&json!({"text": ""}), Some("STOP")),
    };
    events(&[response(&part, None), last])
}

fn framed(status: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// A whole chunked event stream. Gemini's events have no types.
fn events(payloads: &[Value]) -> Vec<u8> {
    let mut wire =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
    for payload in payloads {
        let kind = payload["type"].as_str().map(|kind| format!("event: {kind}\n")).unwrap_or_default();
        let event = format!("{kind}data: {payload}\n\n");
        wire.push_str(&format!("{:x}\r\n{event}\r\n", event.len()));
    }
    wire.push_str("0\r\n\r\n");
    wire.into_bytes()
}
