//! Calls from other nodes: a peer region's edge asks for this region's replicas.
//!
//! The mesh lets in verified edges and central nodes only; an edge serves its own replicas and nothing else, so that a
//! forwarded call is never forwarded again. One that drains ends what it has and refuses what is new, with a word to the
//! sender, who takes another path at once.

use std::sync::Arc;

use egress::Egress;
use mesh::{Connection, Endpoint, Purpose};
use seam::{Host, Stop};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::control::Opening;

use crate::refusals::Refusals;

/// Calls of other nodes at once; more wait at their senders, which the mesh bounds too. And calls that were left.
const CALLS: usize = 8_192;

/// What other nodes are answered from.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    pub(crate) egress: Egress,
    pub(crate) draining: Stop,
    pub(crate) calls: Calls,
    pub(crate) refusals: Refusals,
}

/// Serves other nodes until the endpoint is closed.
pub(crate) async fn serve(host: Host, endpoint: Endpoint, serving: Serving) {
    while let Some(connection) = endpoint.accept().await {
        match connection.purpose() {
            Purpose::Calls => {
                drop(host.spawn("peer", connected(host.clone(), connection, serving.clone())));
            }
            Purpose::Consensus => connection.close("an edge takes no part in consensus"),
        }
    }
}

/// Calls that no connection of a caller keeps: those of other nodes in progress, or those that were left.
#[derive(Clone, Debug)]
pub(crate) struct Calls(Arc<Semaphore>);

impl Calls {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(CALLS)))
    }

    /// A place for one more; `None` once the node drains. What got a place is waited for.
    async fn begin(&self, draining: &Stop) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            biased;
            () = draining.wanted() => None,
            place = Arc::clone(&self.0).acquire_owned() => place.ok(),
        }
    }

    /// A place for one more, if there is any.
    pub(crate) fn enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).try_acquire_owned().ok()
    }

    /// Waits until none is in progress.
    pub(crate) async fn ended(&self) {
        drop(self.0.acquire_many(u32::try_from(CALLS).unwrap_or(u32::MAX)).await);
    }
}

async fn connected(host: Host, connection: Connection, serving: Serving) {
    while let Ok((opening, sender, receiver)) = connection.accept_stream().await {
        match opening {
            Opening::Call => {
                let place = serving.calls.begin(&serving.draining).await;
                let (egress, connection) = (serving.egress.clone(), connection.clone());
                drop(host.spawn("peer-call", async move {
                    let ended = match &place {
                        Some(_place) => egress::answer(&egress, &connection, sender, receiver).await,
                        None => egress::decline(sender).await,
                    };
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a call of another node ended early");
                    }
                }));
            }
            Opening::Refusal => {
                let (refusals, connection) = (serving.refusals.clone(), connection.clone());
                drop(host.spawn("refusal", async move {
                    if let Err(error) = refusals.answer(&connection, sender, receiver).await {
                        tracing::debug!(%error, "an answer about a refusal was not wanted any more");
                    }
                }));
            }
            // Dropping both directions resets the stream.
            Opening::Control | Opening::Rpc | Opening::Status | Opening::Usage => {
                tracing::warn!(peer = %connection.peer(), "an edge answers calls only");
            }
        }
    }
}
