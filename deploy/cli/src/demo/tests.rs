//! The server over real loopback connections.

use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use seam::Stopper;
use serde_json::{Value, json};

use super::*;

struct Running {
    host: Host,
    addr: SocketAddr,
    stopper: Stopper,
    ended: seam::Task<()>,
}

async fn start(key: Option<&str>) -> Running {
    let host = Host::real();
    let options = Options {
        listen: ([127, 0, 0, 1], 0).into(),
        name: "alder".to_owned(),
        region: "north".to_owned(),
        key: key.map(str::to_owned),
        first_token: Duration::ZERO,
        tokens_per_s: 0,
    };
    let server = Server::bind(&host, options).await.unwrap();
    let (stopper, stop) = Stopper::new();
    let addr = server.addr();
    let ended = host.spawn("server", server.run(stop));
    Running { host, addr, stopper, ended }
}

impl Running {
    /// Sends requests over one connection.
    async fn exchange(&self, requests: &[(&str, &str, &str)]) -> Vec<(u16, String)> {
        let stream = self.host.connect("127.0.0.1", self.addr.port()).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let _connection = self.host.spawn("client", connection).bound();
        let mut answers = Vec::new();
        for (path, key, body) in requests {
            let method = if body.is_empty() { "GET" } else { "POST" };
            let request =
                Request::builder().method(method).uri(*path).header("authorization", format!("Bearer {key}"));
            let request = request.body(Full::new(Bytes::from((*body).to_owned()))).unwrap();
            let response = sender.send_request(request).await.unwrap();
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            answers.push((status, String::from_utf8(body.to_vec()).unwrap()));
        }
        answers
    }
}

#[tokio::test]
async fn one_connection_serves_every_kind_of_call_and_the_server_stops() {
    let running = start(None).await;
    let chat = json!({"model": "any", "messages": [{"role": "user", "content": "hi"}]});
    let mut stream = chat.clone();
    stream["stream"] = json!(true);
    stream["stream_options"] = json!({"include_usage": true});
    let answers = running
        .exchange(&[
            ("/v1/chat/completions", "", &chat.to_string()),
            ("/v1/chat/completions", "", &stream.to_string()),
            ("/v1/embeddings", "", r#"{"model":"any","input":"hi"}"#),
            ("/v1/models", "", ""),
            ("/healthz", "", ""),
            ("/v1/chat/completions", "", "{\"model\": "),
            ("/v1/nowhere", "", ""),
            ("/v1/embeddings", "", ""),
        ])
        .await;
    let statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 400, 404, 405]);

    let whole: Value = serde_json::from_str(&answers[0].1).unwrap();
    let events: Vec<&str> = answers[1].1.split_terminator("\n\n").collect();
    assert_eq!(events.last(), Some(&"data: [DONE]"));
    let chunks: Vec<Value> = events[..events.len() - 1]
        .iter()
        .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
        .collect();
    let streamed: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(whole["choices"][0]["message"]["content"], streamed);
    assert_eq!(chunks.last().unwrap()["usage"], whole["usage"]);
    assert!(answers[5].1.contains("invalid_request_error"), "{}", answers[5].1);

    running.stopper.stop();
    running.ended.await.unwrap();
}

#[tokio::test]
async fn a_key_is_demanded_when_one_is_set() {
    let running = start(Some("right")).await;
    let answers = running
        .exchange(&[("/v1/models", "wrong", ""), ("/v1/models", "right", ""), ("/healthz", "", "")])
        .await;
    let statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [401, 200, 200]);
    assert!(answers[0].1.contains("invalid_api_key"));
}
