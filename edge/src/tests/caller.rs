//! A caller of every HTTP version, and one that speaks bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use quinn::crypto::rustls::QuicClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use seam::{ByteStream, Host, QuicRuntime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

use crate::ingress::quic;

/// Which HTTP, over what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Plain1,
    Plain2,
    Secure1,
    Secure2,
    Secure3,
}

pub(super) const ALL: [Over; 5] = [Over::Plain1, Over::Plain2, Over::Secure1, Over::Secure2, Over::Secure3];

/// An answer, read whole.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answered {
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {:?}", String::from_utf8_lossy(&self.body)))
    }

    /// Status and code of an error in OpenAI's shape, which every error must have, with a request id.
    pub(super) fn error(&self) -> (u16, String) {
        assert!(self.headers["x-request-id"].to_str().unwrap().starts_with("req_"));
        let error = &self.json()["error"];
        assert!(!error["message"].as_str().unwrap().is_empty());
        assert!(error["type"].is_string());
        (self.status.as_u16(), error["code"].as_str().unwrap().to_owned())
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }
}

/// A caller.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    host: Host,
    plain: SocketAddr,
    secure: SocketAddr,
    roots: Arc<rustls::RootCertStore>,
    key: &'static str,
}

impl Caller {
    pub(super) fn new(host: &Host, plain: SocketAddr, secure: SocketAddr, authority: &str) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
        Self { host: host.clone(), plain, secure, roots: Arc::new(roots), key: "sk-test" }
    }

    pub(super) fn with_key(&self, key: &'static str) -> Self {
        Self { key, ..self.clone() }
    }

    fn tls(&self, alpn: &[u8]) -> rustls::ClientConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(Arc::clone(&self.roots))
            .with_no_client_auth();
        tls.alpn_protocols = vec![alpn.to_vec()];
        tls
    }

    pub(super) async fn stream(&self, over: Over) -> ByteStream {
        self.try_stream(over).await.unwrap()
    }

    async fn try_stream(&self, over: Over) -> std::io::Result<ByteStream> {
        let (at, alpn) = match over {
            Over::Plain1 | Over::Plain2 => (self.plain, None),
            Over::Secure1 => (self.secure, Some(&b"http/1.1"[..])),
            Over::Secure2 | Over::Secure3 => (self.secure, Some(&b"h2"[..])),
        };
        let stream = self.host.connect(&at.ip().to_string(), at.port()).await?;
        match alpn {
            None => Ok(stream),
            Some(alpn) => {
                let connector = TlsConnector::from(Arc::new(self.tls(alpn)));
                let name = ServerName::try_from("localhost").unwrap();
                Ok(Box::new(connector.connect(name, stream).await?))
            }
        }
    }

    /// Whether the node shows a certificate that this caller trusts.
    pub(super) async fn trusts(&self, over: Over) -> bool {
        self.try_stream(over).await.is_ok()
    }

    /// Posts a chat call and reads the answer.
    pub(super) async fn chat(&self, body: impl Into<Bytes>) -> Answered {
        self.over(Over::Plain1, self.post("/v1/chat/completions", body)).await
    }

    pub(super) fn post(&self, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
        let request = Request::post(path).header("content-type", "application/json");
        let request = if self.key.is_empty() {
            request
        } else {
            request.header("authorization", format!("Bearer {}", self.key))
        };
        request.body(Full::new(body.into())).unwrap()
    }

    pub(super) fn get(&self, path: &str) -> Request<Full<Bytes>> {
        let mut request = self.post(path, "");
        *request.method_mut() = Method::GET;
        request.headers_mut().remove("content-type");
        request
    }

    /// Sends a request on a connection of its own and reads the whole answer.
    pub(super) async fn over(&self, over: Over, request: Request<Full<Bytes>>) -> Answered {
        if over == Over::Secure3 {
            return self.over_http3(request).await;
        }
        let (head, body) = self.open(over, request).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answered { status: head.status, headers: head.headers, body }
    }

    /// Sends a request and gives the answer's head and its open body.
    pub(super) async fn open(&self, over: Over, mut request: Request<Full<Bytes>>) -> Response<Incoming> {
        match over {
            Over::Plain1 | Over::Secure1 => {
                let io = TokioIo::new(self.stream(over).await);
                request.headers_mut().insert("host", "localhost".parse().unwrap());
                let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
                drop(self.host.spawn("caller", async move { drop(connection.await) }));
                sender.send_request(request).await.unwrap()
            }
            Over::Plain2 | Over::Secure2 | Over::Secure3 => {
                *request.uri_mut() = format!("http://localhost{}", request.uri()).parse().unwrap();
                self.http2(over).await.send_request(request).await.unwrap()
            }
        }
    }

    /// A connection over HTTP/2.
    pub(super) async fn http2<B>(&self, over: Over) -> http2::SendRequest<B>
    where
        B: Body<Data: Send, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static,
    {
        let io = TokioIo::new(self.stream(over).await);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        drop(self.host.spawn("caller", async move { drop(connection.await) }));
        sender
    }

    async fn over_http3(&self, request: Request<Full<Bytes>>) -> Answered {
        let (mut stream, _connection) = self.begin_http3(request).await;
        let response = stream.recv_response().await.unwrap();
        let mut body = Vec::new();
        while let Some(mut data) = stream.recv_data().await.unwrap() {
            body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        Answered { status: response.status(), headers: response.headers().clone(), body: body.into() }
    }

    /// Sends a request over HTTP/3 and gives its stream; the connection lives as long as what comes with it.
    pub(super) async fn begin_http3(&self, request: Request<Full<Bytes>>) -> (Http3, Box<dyn Send>) {
        let (mut sender, connection) = self.http3().await;
        let stream = send_http3(&mut sender, request).await;
        (stream, Box::new((connection, sender)))
    }

    /// A connection over HTTP/3, which lives as long as what comes with it.
    pub(super) async fn http3(&self) -> (Sender3, Box<dyn Send>) {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = self.host.datagram(any).unwrap();
        let runtime = Arc::new(QuicRuntime(self.host.clone()));
        let endpoint = quinn::Endpoint::new_with_abstract_socket(
            quinn::EndpointConfig::default(),
            None,
            socket,
            runtime,
        )
        .unwrap();
        let crypto = QuicClientConfig::try_from(self.tls(b"h3")).unwrap();
        let config = quinn::ClientConfig::new(Arc::new(crypto));
        let connection = endpoint.connect_with(config, self.secure, "localhost").unwrap().await.unwrap();
        let quic = quic::Connection::new(connection, quic::Signals::default());
        let (mut driver, sender) =
            h3::client::builder().send_grease(false).build::<_, _, Bytes>(quic).await.unwrap();
        let driving = self
            .host
            .spawn("caller", async move { drop(std::future::poll_fn(|cx| driver.poll_close(cx)).await) });
        (sender, Box::new((driving.bound(), endpoint)))
    }

    /// Sends bytes on a fresh cleartext connection and reads until the node closes it, which it must `within` a time.
    pub(super) async fn raw(&self, bytes: &[u8], within: Duration) -> String {
        let mut stream = self.stream(Over::Plain1).await;
        // The node may close before it has them all.
        drop(stream.write_all(bytes).await);
        let mut read = Vec::new();
        // In which way it closes is its choice; what came before counts.
        let closed = self.host.timeout(within, stream.read_to_end(&mut read)).await;
        drop(closed.unwrap_or_else(|late| {
            panic!("{late:?}: still open after {:?}", String::from_utf8_lossy(&read))
        }));
        String::from_utf8_lossy(&read).into_owned()
    }

    /// Sends bytes on a fresh cleartext connection and reads the first head that comes back.
    pub(super) async fn first_head(&self, bytes: &[u8]) -> String {
        let mut stream = self.stream(Over::Plain1).await;
        stream.write_all(bytes).await.unwrap();
        read_head(&mut stream).await
    }
}

/// Sends a whole request on an HTTP/3 connection.
pub(super) async fn send_http3(sender: &mut Sender3, request: Request<Full<Bytes>>) -> Http3 {
    let (mut head, body) = request.into_parts();
    head.uri = format!("https://localhost{}", head.uri).parse().unwrap();
    let mut stream = sender.send_request(Request::from_parts(head, ())).await.unwrap();
    let body = body.collect().await.unwrap().to_bytes();
    if !body.is_empty() {
        stream.send_data(body).await.unwrap();
    }
    stream.finish().await.unwrap();
    stream
}

/// Reads up to the empty line that ends a head.
pub(super) async fn read_head(stream: &mut ByteStream) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(read).unwrap()
}

pub(super) type Http3 = h3::client::RequestStream<quic::Duplex<Bytes>, Bytes>;

pub(super) type Sender3 = h3::client::SendRequest<quic::Opener, Bytes>;
