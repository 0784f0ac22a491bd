//! A caller: HTTP/1.1 or HTTP/2 over TLS with the mesh's authority, one connection a call.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A caller that trusts one authority.
#[derive(Clone, Debug)]
pub struct Client {
    tls: Arc<rustls::ClientConfig>,
    /// What the server's certificate must tell, where that is not the host of its URL.
    server: Option<ServerName<'static>>,
}

/// An answer, read whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: StatusCode,
    /// Headers.
    pub headers: http::HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {:?}", String::from_utf8_lossy(&self.body)))
    }

    /// The error's code in OpenAI's shape.
    #[must_use]
    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

impl Client {
    /// A caller that trusts the authority in a PEM file and offers `alpn` (`h2`, `http/1.1`).
    #[must_use]
    pub fn trusting(ca: &Path, alpn: &[&str]) -> Self {
        let mut tls = trusting(ca).with_no_client_auth();
        tls.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Self { tls: Arc::new(tls), server: None }
    }

    /// An operator whose certificate, key and authority are in `credentials`, who asks the central node `node`.
    #[must_use]
    pub fn operator(credentials: &Path, node: &str) -> Self {
        let chain = vec![CertificateDer::from_pem_file(credentials.join("node.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(credentials.join("node.key")).unwrap();
        let tls = trusting(&credentials.join("ca.pem")).with_client_auth_cert(chain, key).unwrap();
        Self { tls: Arc::new(tls), server: Some(ServerName::try_from(node.to_owned()).unwrap()) }
    }

    /// Sends a request to `url` (scheme, host and port) and gives the answer's head and its open body.
    ///
    /// # Errors
    /// What the connection said.
    pub async fn open(&self, url: &str, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failed> {
        let (host, port) = url.rsplit_once("//").unwrap().1.trim_end_matches('/').rsplit_once(':').unwrap();
        let stream = TcpStream::connect((host, port.parse::<u16>().unwrap())).await?;
        if url.starts_with("http://") {
            return send(TokioIo::new(stream), false, request).await;
        }
        let of_host = || ServerName::try_from(host.to_owned()).unwrap();
        let name = self.server.clone().unwrap_or_else(of_host);
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await?;
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        send(TokioIo::new(stream), is_h2, request).await
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// What the connection said.
    pub async fn ask(&self, url: &str, request: Request<Full<Bytes>>) -> Result<Answer, Failed> {
        let (head, body) = self.open(url, request).await?.into_parts();
        Ok(Answer { status: head.status, headers: head.headers, body: body.collect().await?.to_bytes() })
    }

    /// Posts JSON with a bearer key.
    ///
    /// # Errors
    /// What the connection said.
    pub async fn post(
        &self,
        url: &str,
        path: &str,
        key: &str,
        body: impl Into<Bytes>,
    ) -> Result<Answer, Failed> {
        self.ask(url, post(path, key, body)).await
    }
}

/// A call that got no whole answer.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// A POST of JSON with a bearer key; an empty key sends none.
#[must_use]
pub fn post(path: &str, key: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let mut request = Request::post(path).header("host", "mesh").header("content-type", "application/json");
    if !key.is_empty() {
        request = request.header("authorization", format!("Bearer {key}"));
    }
    request.body(Full::new(body.into())).unwrap()
}

/// A GET with a bearer key; an empty key sends none.
#[must_use]
pub fn get(path: &str, key: &str) -> Request<Full<Bytes>> {
    let mut request = Request::get(path).header("host", "mesh");
    if !key.is_empty() {
        request = request.header("authorization", format!("Bearer {key}"));
    }
    request.body(Full::new(Bytes::new())).unwrap()
}

/// Half of a configuration: it trusts the authority in a PEM file.
fn trusting(ca: &Path) -> rustls::ConfigBuilder<rustls::ClientConfig, rustls::client::WantsClientCert> {
    let mut roots = rustls::RootCertStore::empty();
    let mut pem = BufReader::new(File::open(ca).unwrap());
    for certificate in CertificateDer::pem_reader_iter(&mut pem) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
}

async fn send<S>(
    io: TokioIo<S>,
    is_h2: bool,
    mut request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, Failed>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    if is_h2 {
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
        run(connection);
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
        *request.uri_mut() = format!("https://mesh{path}").parse()?;
        request.headers_mut().remove("host");
        return Ok(sender.send_request(request).await?);
    }
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
    run(connection);
    Ok(sender.send_request(request).await?)
}

fn run(connection: impl Future<Output = Result<(), hyper::Error>> + Send + 'static) {
    // How a connection ends shows in its calls.
    drop(tokio::spawn(async move { drop(connection.await) }));
}
