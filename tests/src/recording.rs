//! A server that answers every request alike and remembers what it was asked.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use seam::Lock;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A request as it came.
pub type Asked = (HeaderMap, Bytes);

/// The server. Dropping it ends it.
#[derive(Debug)]
pub struct Recording {
    /// Where it listens.
    pub url: String,
    asked: Arc<Lock<Vec<Asked>>>,
    _serving: JoinSet<()>,
}

impl Recording {
    /// Starts a server whose every answer is `body` of `content_type`.
    pub async fn start(content_type: &'static str, body: &'static str) -> Self {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::<Lock<Vec<Asked>>>::default();
        let remembered = Arc::clone(&asked);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let asked = Arc::clone(&remembered);
                let service =
                    service_fn(move |request| remember(Arc::clone(&asked), request, content_type, body));
                let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                connections.spawn(async move { drop(connection.await) });
            }
        });
        Self { url, asked, _serving: serving }
    }

    /// What it was asked, in order.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }
}

async fn remember(
    asked: Arc<Lock<Vec<Asked>>>,
    request: Request<Incoming>,
    content_type: &'static str,
    body: &'static str,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, sent) = request.into_parts();
    if let Ok(sent) = sent.collect().await {
        asked.lock().push((head.headers, sent.to_bytes()));
    }
    let response = Response::builder().header("content-type", content_type);
    Ok(response.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap())
}
