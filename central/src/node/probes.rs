//! What scrapers and health checks ask, in cleartext: `/metrics`, `/healthz`, `/readyz`.

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use seam::{Host, Listener, Stop};
use telemetry::metrics;

use crate::admin;
use crate::metrics::Metrics;
use crate::sessions::Sessions;

/// Serves probes until `stop`.
pub(super) async fn serve(
    host: Host,
    listener: Box<dyn Listener>,
    sessions: Sessions,
    counted: Arc<Metrics>,
    stop: Stop,
) {
    let ready = move || std::future::ready(readiness(&sessions));
    let router = Router::new()
        .route("/metrics", get(move || std::future::ready(exposition(&counted))))
        .route("/healthz", get(|| std::future::ready("ok\n")))
        .route("/readyz", get(ready));
    admin::accept(&host, listener, stop, move |stream, stop| admin::exchange(router.clone(), stream, stop))
        .await;
}

fn readiness(sessions: &Sessions) -> Response {
    if sessions.is_current() {
        "ready\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "no contact with a majority of central\n").into_response()
    }
}

/// The metrics as a scraper reads them.
pub(crate) fn exposition(counted: &Metrics) -> Response {
    match counted.exposition().render() {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
