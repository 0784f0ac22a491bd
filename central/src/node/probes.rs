//! What scrapers and health checks ask, in cleartext: `/metrics`, `/healthz`, `/readyz`.

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use seam::{Host, Listener, Stop};

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
        .route("/metrics", get(move |headers: HeaderMap| std::future::ready(exposition(&counted, &headers))))
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
pub(crate) fn exposition(counted: &Metrics, headers: &HeaderMap) -> Response {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    match counted.exposition().render(accept) {
        Ok(page) => ([(CONTENT_TYPE, page.content_type)], page.text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
