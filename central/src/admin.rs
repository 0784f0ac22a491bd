//! The operators' door: JSON over HTTPS, let in by a certificate of the mesh with the operator role.
//!
//! Any node answers. Changes are proposed to the log wherever they arrive, and each leaves one audit line (target
//! `audit`) with who asked, what, and what came of it. Reads of configuration and money miss nothing that was
//! acknowledged; the status shows what this node can see, even without a majority. Nothing here holds state.

pub mod api;
mod catalog;
mod changing;
mod credit;
mod explained;
mod members;
mod reads;
mod refused;
mod taken;
mod usage;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{delete, get, post};
use base::Role;
use bytes::Bytes;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use mesh::{Credentials, Identity, tls};
use seam::{ByteStream, Host, Late, Listener, Stop};
use serde::de::DeserializeOwned;
use tokio_rustls::TlsAcceptor;

use crate::consensus::Consensus;
use crate::metrics::Metrics;
use crate::seal::SealKeys;
use crate::status::Overview;
use crate::usage::Usage;
use refused::Refused;

/// Largest request, in bytes: files that one entry of the log can still hold.
const LARGEST: usize = 16 * 1024 * 1024;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// How long a request's headers may take; also how long a connection may be silent between two requests.
const HEADERS: Duration = Duration::from_secs(30);

/// Connections served at once.
const CONNECTIONS: usize = 256;

/// How long to wait after accepting failed, as when no descriptor is free.
const PAUSE: Duration = Duration::from_millis(100);

/// What the handlers need.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) host: Host,
    pub(crate) consensus: Consensus,
    pub(crate) overview: Overview,
    pub(crate) keys: Option<Arc<SealKeys>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) usage: Usage,
}

/// Who asks, as the certificate names them.
#[derive(Clone, Debug)]
pub(crate) struct Operator(pub(crate) String);

type Shared = axum::extract::State<Arc<Door>>;
type By = axum::Extension<Operator>;
type Answer<T> = Result<axum::Json<T>, Refused>;

fn routes(door: Arc<Door>) -> Router {
    Router::new()
        .route("/v1/status", get(reads::status))
        .route("/v1/catalog", get(reads::catalog))
        .route("/v1/epochs", get(reads::epochs))
        .route("/v1/ledger", get(reads::ledger))
        .route("/v1/leases", get(reads::leases))
        .route("/v1/budgets", get(reads::budgets))
        .route("/v1/budgets/{name}/corrections", post(credit::correct))
        .route("/v1/edges/{name}/lost", post(credit::lost))
        .route("/v1/decisions", get(credit::decisions))
        .route("/v1/refusals/{request}", get(explained::refusal))
        .route("/v1/usage", get(usage::totals))
        .route("/v1/receipts", get(usage::receipts))
        .route("/v1/plan", post(catalog::plan))
        .route("/v1/apply", post(catalog::apply))
        .route("/v1/rollback", post(catalog::roll_back))
        .route("/v1/keys/{name}/revoke", post(catalog::revoke))
        .route("/v1/level", post(catalog::raise_level))
        .route("/v1/members", get(members::list).post(members::add))
        .route("/v1/members/{id}", delete(members::remove))
        .route("/v1/members/transfer", post(members::transfer))
        .route("/metrics", get(reads::metrics))
        .fallback(refused::no_such_path)
        .method_not_allowed_fallback(refused::no_such_method)
        .layer(DefaultBodyLimit::max(LARGEST))
        .with_state(door)
}

/// Serves operators until `stop`; requests that came in are answered.
pub(crate) async fn serve(
    door: Arc<Door>,
    listener: Box<dyn Listener>,
    credentials: &Credentials,
    stop: Stop,
) -> Result<(), rustls::Error> {
    const OPERATORS: &[Role] = &[Role::Operator];
    let config = tls::server_config(credentials, OPERATORS, &[b"http/1.1"])?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (host, router) = (door.host.clone(), routes(door));
    let each = {
        let host = host.clone();
        move |stream, stop| connection(host.clone(), acceptor.clone(), router.clone(), stream, stop)
    };
    accept(&host, listener, stop, each).await;
    Ok(())
}

/// Gives each connection its own task until `stop`, then waits for them.
pub(crate) async fn accept<F>(
    host: &Host,
    listener: Box<dyn Listener>,
    stop: Stop,
    each: impl Fn(ByteStream, Stop) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let slots = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.wanted() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _peer)) => {
                let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else { continue };
                let serving = each(stream, stop.clone());
                drop(host.spawn("admin-connection", async move {
                    serving.await;
                    drop(slot);
                }));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                host.sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    // All slots are back when all connections have ended.
    drop(slots.acquire_many(u32::try_from(CONNECTIONS).unwrap_or(u32::MAX)).await);
}

async fn connection(host: Host, acceptor: TlsAcceptor, router: Router, stream: ByteStream, stop: Stop) {
    let stream = match host.timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::warn!(%error, "an operator's connection was refused"),
        Err(Late) => return tracing::debug!("an operator's handshake took too long"),
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let Some(Ok(operator)) = certificate.map(|der| Identity::of_certificate(der)) else {
        return tracing::warn!("an operator's certificate has no identity");
    };
    let router = router.layer(axum::Extension(Operator(operator.node.to_string())));
    exchange(router, stream, stop).await;
}

/// Serves HTTP/1.1 on one stream; on `stop`, ends after the request under way.
pub(crate) async fn exchange<S>(router: Router, stream: S, stop: Stop)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let service = TowerToHyperService::new(router);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS);
    let mut serving = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        biased;
        ended = serving.as_mut() => ended,
        () = stop.wanted() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an admin connection broke off");
    }
}

fn parsed<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refused> {
    serde_json::from_slice(body)
        .map_err(|error| Refused::bad_request(format!("the body does not fit: {error}")))
}

#[cfg(test)]
mod tests {
    use seam::Stopper;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_begins_a_request_and_never_ends_it_loses_its_place() {
        let host = Host::real();
        let (mut caller, served) = tokio::io::duplex(1_024);
        let (_stopper, stop) = Stopper::new();
        let serving = host.spawn("served", exchange(Router::new(), served, stop));
        caller.write_all(b"GET /healthz HTTP/1.1\r\nx: ").await.unwrap();
        let mut answer = Vec::new();
        let ended = caller.read_to_end(&mut answer);
        host.timeout(HEADERS * 2, ended).await.expect("its connection is closed").unwrap();
        drop(serving);
    }
}
