//! Waiting until the mesh serves: a leader, the demo catalog in force, every edge with it.

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

/// How long a mesh may take to serve; a few seconds are usual.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) async fn wait(host: &Host, layout: &Layout, written: &Written) -> Outcome {
    let credentials = Credentials::load(host, &written.operator).await.map_err(Failure::failed)?;
    let nodes: Vec<String> = layout.centrals.iter().map(|central| central.admin.to_string()).collect();
    let admin = Admin::new(host, &nodes, &credentials)?;
    let ready = async {
        apply(host, &admin, written).await?;
        for edge in &layout.edges {
            while !is_ready(host, edge.plain, &written.key).await {
                host.sleep(PAUSE).await;
            }
        }
        Ok(())
    };
    host.timeout(PATIENCE, ready).await.unwrap_or_else(|_late| {
        let what = format!("the mesh did not serve within {} s", PATIENCE.as_secs());
        Err(Failure::failed(what).mend(format!("see the logs in {}", layout.path("logs").display())))
    })
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
