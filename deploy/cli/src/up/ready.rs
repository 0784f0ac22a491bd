//! Waiting until the mesh serves: a leader, the demo catalog in force, every edge with it.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use mesh::Credentials;
use seam::Host;

use super::files::Written;
use super::layout::Layout;
use crate::admin::Admin;
use crate::failure::{Exit, Failure, Outcome};
use crate::operator::catalog;
use crate::out;

/// How long a mesh may take to serve; a few seconds are usual.
const PATIENCE: Duration = Duration::from_secs(60);
/// Until it is said what is waited for, and between two such remarks.
const QUIET: Duration = Duration::from_secs(5);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) async fn wait(host: &Host, layout: &Layout, written: &Written) -> Outcome {
    let credentials = Credentials::load(host, &written.operator).await.map_err(Failure::failed)?;
    let nodes: Vec<String> = layout.centrals.iter().map(|central| central.admin.to_string()).collect();
    let admin = Admin::new(host, &nodes, &credentials)?;
    let ready = async {
        saying(host, "a leader of central", apply(host, &admin, written)).await?;
        for edge in &layout.edges {
            saying(host, &edge.name, async {
                while !is_ready(host, edge.plain, &written.key).await {
                    host.sleep(PAUSE).await;
                }
            })
            .await;
        }
        Ok(())
    };
    host.timeout(PATIENCE, ready).await.unwrap_or_else(|_late| {
        let what = format!("the mesh did not serve within {} s", PATIENCE.as_secs());
        Err(Failure::failed(what).mend(format!("see the logs in {}", layout.path("logs").display())))
    })
}

/// Waits for `work`, and says so from time to time.
async fn saying<T>(host: &Host, whom: &str, work: impl Future<Output = T>) -> T {
    let started = host.now();
    let mut work = std::pin::pin!(work);
    loop {
        match host.timeout(QUIET, work.as_mut()).await {
            Ok(done) => return done,
            Err(_late) => {
                let waited = host.now().since(started).as_secs();
                let patience = PATIENCE.as_secs();
                out::remark(format_args!(
                    "still waiting for {whom}, {waited} s; `up` gives up after {patience} s…"
                ));
            }
        }
    }
}

/// Applies the demo catalog, as soon as there is a leader.
async fn apply(host: &Host, admin: &Admin, written: &Written) -> Outcome {
    loop {
        match catalog::apply_text(admin, "demo.yaml", &written.catalog).await {
            Err(failure) if failure.is(Exit::Unreachable) => host.sleep(PAUSE).await,
            done => return done,
        }
    }
}

/// Whether an edge serves the demo tenant.
async fn is_ready(host: &Host, at: SocketAddr, key: &str) -> bool {
    let ask = async {
        let stream = host.connect(&at.ip().to_string(), at.port()).await.ok()?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
        let connection = host.spawn("readiness", async move { drop(connection.await) }).bound();
        for path in ["/readyz", "/v1/models"] {
            let request = Request::get(path)
                .header(http::header::HOST, "localhost")
                .header(http::header::AUTHORIZATION, format!("Bearer {key}"))
                .body(Empty::<Bytes>::new())
                .ok()?;
            sender.ready().await.ok()?;
            let answer = sender.send_request(request).await.ok()?;
            if answer.status() != StatusCode::OK {
                return None;
            }
            http_body_util::BodyExt::collect(answer.into_body()).await.ok()?;
        }
        drop(connection);
        Some(())
    };
    matches!(host.timeout(Duration::from_secs(1), ask).await, Ok(Some(())))
}
