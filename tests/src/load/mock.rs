//! A mock upstream that costs far less than any gateway: prepared replies, written as they are.
//!
//! Each chunk of a stream carries the wall time at which it was sent (`@` and nanoseconds), so that a load can tell how
//! long the gateway kept it.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use clap::Args;
use memchr::memmem;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::report::say;
use super::target::loopback;
use crate::client::Failed;
use crate::http1::{self, Body, Framing};

/// Options of the mock upstream.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Loopback address to listen on.
    #[arg(long, default_value = "127.0.0.1:18080")]
    listen: SocketAddr,
    /// Bytes of a reply's body.
    #[arg(long, default_value_t = 1024)]
    reply_bytes: usize,
    /// Chunks of a stream; a call may say otherwise by `mock_chunks`.
    #[arg(long, default_value_t = 20)]
    chunks: u32,
    /// Milliseconds between two chunks; a call may say otherwise by `mock_gap_ms`.
    #[arg(long, default_value_t = 20)]
    gap: u32,
}

/// Replies prepared once.
struct Mock {
    whole: Vec<u8>,
    models: Vec<u8>,
    opening: Vec<u8>,
    chunk: Vec<u8>,
    /// Where in `chunk` the time stands.
    stamp: usize,
    chunks: u32,
    gap_ms: u32,
}

/// Digits of a time in nanoseconds, until the year 2286.
const STAMP_DIGITS: usize = 19;

/// Serves until the process is ended.
pub(super) async fn run(options: Options) -> Result<(), Failed> {
    let listener = TcpListener::bind(loopback(options.listen)?).await?;
    say(&format!("mock upstream on http://{}", listener.local_addr()?));
    let mock = Rc::new(Mock::new(&options));
    LocalSet::new()
        .run_until(async move {
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let mock = Rc::clone(&mock);
                // A connection that breaks is the gateway's choice.
                drop(tokio::task::spawn_local(async move { drop(mock.serve(stream).await) }));
            }
        })
        .await
}

impl Mock {
    fn new(options: &Options) -> Self {
        let empty = reply("").len();
        let whole = reply(&"x".repeat(options.reply_bytes.saturating_sub(empty)));
        let chunk = chunked(&event(&format!(r#"{{"content":"@{} "}}"#, "0".repeat(STAMP_DIGITS)), "null"));
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let role = chunked(&event(r#"{"role":"assistant","content":""}"#, "null"));
        Self {
            whole: framed(&whole),
            models: framed(
                r#"{"object":"list","data":[{"id":"mock","object":"model","created":0,"owned_by":"mock"}]}"#,
            ),
            opening: format!("{head}{role}").into_bytes(),
            stamp: memmem::find(chunk.as_bytes(), b"@0").unwrap() + 1,
            chunk: chunk.into_bytes(),
            chunks: options.chunks,
            gap_ms: options.gap,
        }
    }

    async fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut buffer = BytesMut::with_capacity(8 * 1024);
        let mut request = BytesMut::with_capacity(8 * 1024);
        while let Some(head) = http1::read_head(&mut stream, &mut buffer).await? {
            request.clear();
            if head.framing != Framing::UntilClose {
                let mut body = Body::new(head.framing);
                while body.read(&mut stream, &mut buffer, &mut request).await? {}
            }
            if head.line.starts_with("GET ") {
                stream.write_all(&self.models).await?;
            } else if field(&request, "stream").is_some_and(|value| value.starts_with(b"true")) {
                self.stream(&mut stream, &request).await?;
            } else {
                stream.write_all(&self.whole).await?;
            }
        }
        Ok(())
    }

    async fn stream(&self, stream: &mut TcpStream, request: &[u8]) -> io::Result<()> {
        let chunks = number(request, "mock_chunks").unwrap_or(self.chunks);
        let gap = Duration::from_millis(number(request, "mock_gap_ms").unwrap_or(self.gap_ms).into());
        let mut due = Instant::now();
        stream.write_all(&self.opening).await?;
        let mut chunk = self.chunk.clone();
        for _ in 0..chunks {
            due += gap;
            if !gap.is_zero() {
                tokio::time::sleep_until(due).await;
            }
            let stamp = format!("{:0STAMP_DIGITS$}", wall_ns());
            chunk[self.stamp..self.stamp + STAMP_DIGITS].copy_from_slice(stamp.as_bytes());
            stream.write_all(&chunk).await?;
        }
        let mut ending = chunked(&event("{}", r#""stop""#));
        if field(request, "include_usage").is_some_and(|value| value.starts_with(b"true")) {
            ending += &chunked(&usage_event(chunks));
        }
        ending += &chunked("data: [DONE]\n\n");
        ending += "0\r\n\r\n";
        stream.write_all(ending.as_bytes()).await
    }
}

/// Wall time in nanoseconds since 1970.
pub(super) fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn framed(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

fn chunked(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn reply(content: &str) -> String {
    format!(
        r#"{{"id":"chatcmpl-mock","object":"chat.completion","created":1700000000,"model":"mock","system_fingerprint":"fp_mock","choices":[{{"index":0,"message":{{"role":"assistant","content":"{content}","refusal":null}},"logprobs":null,"finish_reason":"stop"}}],"usage":{{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}}}}"#
    )
}

fn event(delta: &str, finish_reason: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-mock\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"mock\",\"system_fingerprint\":\"fp_mock\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish_reason}}}]}}\n\n"
    )
}

fn usage_event(completion: u32) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-mock\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"mock\",\"system_fingerprint\":\"fp_mock\",\"choices\":[],\"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":{completion},\"total_tokens\":{}}}}}\n\n",
        completion.saturating_add(9)
    )
}

/// What follows `"name":` in a body, found without parsing it.
fn field<'a>(body: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let quoted = format!("\"{name}\"");
    let after = &body[memmem::find(body, quoted.as_bytes())? + quoted.len()..];
    Some(after.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start())
}

fn number(body: &[u8], name: &str) -> Option<u32> {
    let value = field(body, name)?;
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&value[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_have_the_size_asked_for_and_are_json() {
        let mock =
            Mock::new(&Options { listen: ([127, 0, 0, 1], 0).into(), reply_bytes: 1024, chunks: 1, gap: 1 });
        let body = &mock.whole[memmem::find(&mock.whole, b"\r\n\r\n").unwrap() + 4..];
        assert_eq!(body.len(), 1024);
        assert!(serde_json::from_slice::<serde_json::Value>(body).is_ok());
    }

    #[test]
    fn fields_are_found_with_and_without_spaces() {
        let body = br#"{"stream_options": {"include_usage": true}, "stream":true,"mock_chunks" : 17}"#;
        assert!(field(body, "stream").unwrap().starts_with(b"true"));
        assert_eq!(number(body, "mock_chunks"), Some(17));
        assert_eq!(number(body, "mock_gap_ms"), None);
    }
}
